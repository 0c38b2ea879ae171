"""How many requests run at once, from their lengths alone: no engine, no memory of minipaged's, no times.

A step gives every running request a token. First come, first served; who finds no room waits, and in paged memory the
newest gives up its blocks when none is left.
"""

from collections import deque


def rounded(number):
    """The next power of two."""
    return 1 << (number - 1).bit_length()


class Runs:
    """A buddy pool: aligned runs of 2**i blocks, as {size: starts that are free}."""

    def __init__(self, num_blocks):
        self.free, start = {}, 0
        for i in reversed(range(num_blocks.bit_length())):
            if num_blocks & 1 << i:
                self.free.setdefault(1 << i, set()).add(start)
                start += 1 << i

    def take(self, size):
        """The start of a run of `size` blocks, a power of two; None if there is none."""
        sizes = [each for each, starts in self.free.items() if each >= size and starts]
        if not sizes:
            return None
        found = min(sizes)
        start = min(self.free[found])
        self.free[found].remove(start)
        while found > size:
            found //= 2
            self.free.setdefault(found, set()).add(start + found)
        return start

    def give_back(self, start, size):
        while start ^ size in self.free.get(size, ()):
            self.free[size].remove(start ^ size)
            start, size = min(start, start ^ size), 2 * size
        self.free.setdefault(size, set()).add(start)


def reserved(policy, each, context):
    slots = {
        "max": context,
        "pow2": each.num_prompt_tokens + rounded(each.num_output_tokens),
        "oracle": each.num_tokens,
    }[policy]
    return min(slots, context)


def running_of(policy, asked, num_blocks, block_size, context=1024, budget=512):
    """The number of running requests in each step in which somebody waits; all come at once. policy: "max", "pow2",
    "oracle" or "paged"."""
    waiting = deque([each, 0] for each in asked)  # [request, tokens that it has generated]
    running, counts, pool = [], [], Runs(num_blocks)
    blocks = lambda number: -(-number // block_size)  # noqa: E731

    def held():
        return sum(blocks(each.num_prompt_tokens + done) for each, done, _ in running)

    while waiting or running:
        has_yielded = False
        if policy == "paged":
            while sum(blocks(each.num_prompt_tokens + done) for each, done, _ in running) > num_blocks:
                each, done, _ = running.pop()
                waiting.appendleft([each, done])
                has_yielded = True
        left = budget - len(running)
        while waiting and not has_yielded:
            each, done = waiting[0]
            tokens, place = each.num_prompt_tokens + done, None
            if left <= 0:
                break
            if policy == "paged":
                if held() + blocks(tokens) > num_blocks:
                    break
            else:
                size = rounded(blocks(reserved(policy, each, context)))
                start = pool.take(size)
                if start is None:
                    break
                place = start, size
            left -= min(tokens, left)  # the rest of a long prompt comes in the steps that follow
            running.append([*waiting.popleft(), place])
        if waiting:
            counts.append(len(running))
        for entry in running:
            entry[1] += 1
        for each, done, place in list(running):
            if done == each.num_output_tokens:
                running.remove([each, done, place])
                if place:
                    pool.give_back(*place)
    return counts
