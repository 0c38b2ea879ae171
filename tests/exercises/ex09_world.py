"""For the checks of exercise 09: sequences in a memory, and what must be true of them after every call.

What a call must leave behind is found by minipaged's own, on a copy of everything.
"""

from copy import deepcopy

from minipaged.memory.allocator import DoubleFree, OutOfBlocks
from minipaged.memory.check import BrokenInvariant, check
from minipaged.memory.paged import PagedMemory
from minipaged.serving import preemption
from minipaged.serving.sequence import Request, SamplingParams

FROM_MEMORY = (ValueError, OutOfBlocks, DoubleFree)


class World:
    """A memory and the sequences that are, or were, in it. Each call of the learner's is held against `look`."""

    def __init__(self, impl, num_blocks=12, block_size=4, num_host_blocks=0, prefix_caching=False, memory=None):
        self.impl, self.sequences, self.is_paged = impl, {}, memory is None
        paged = {"prefix_caching": prefix_caching, "num_host_blocks": num_host_blocks}
        self.memory = PagedMemory(num_blocks, block_size, **paged) if memory is None else memory
        self.cells = {}  # (is it the host's, block, offset) -> the token whose K and V are there

    # What the checks do themselves, without the learner's functions.

    def ask(self, name, num_prompt_tokens, num_generated=0, max_tokens=40, like=None):
        """A sequence without blocks. like: the name of one whose tokens it begins with."""
        token_ids = [1000 * ord(like or name) + i for i in range(num_prompt_tokens + num_generated)]
        prompt = token_ids[:num_prompt_tokens]
        [sequence] = Request(name, None, prompt, SamplingParams(), max_tokens, seed=0).sequences
        sequence.token_ids += token_ids[num_prompt_tokens:]
        self.sequences[name] = sequence
        return self

    def run(self, name, num_prompt_tokens, num_generated=1, num_computed=None, like=None):
        """A sequence that runs. num_computed: how many tokens; None: all but the newest."""
        self.ask(name, num_prompt_tokens, num_generated, like=like)
        sequence = self.sequences[name]
        sequence.num_computed_tokens = self.memory.admit(name, sequence.token_ids, sequence.num_tokens_left)
        return self.compute(name, sequence.num_tokens - 1 if num_computed is None else num_computed)

    def compute(self, name, stop):
        """Its tokens up to there get slots, and are computed."""
        sequence, start = self.sequences[name], self.sequences[name].num_computed_tokens
        if stop > start:
            assert self.memory.grow([(name, stop - start)]) is not None, (
                "the check's own mistake: the pool is too small"
            )
        for position in range(start, stop):
            self.cells[self.cell(name, position)] = sequence.token_ids[position]
        sequence.num_computed_tokens = stop
        self.memory.commit(name, sequence.token_ids, stop)
        return self

    def cell(self, name, position):
        _, offset, block, _ = self.memory.table(name).translate(position)
        return False, block, offset

    def copy(self, pairs, to_host):
        """What the engine does with the pairs that came back, before anything else is written."""
        moved = {}
        for source, destination in pairs:
            for offset in range(self.memory.block_size):
                moved[to_host, destination, offset] = self.cells.get((not to_host, source, offset))
        self.cells |= moved

    def read(self, name):
        """Demand that what is computed of a sequence is in its slots."""
        sequence = self.sequences[name]
        there = [self.cells.get(self.cell(name, position)) for position in range(sequence.num_computed_tokens)]
        wrong = [i for i, (got, due) in enumerate(zip(there, sequence.token_ids)) if got != due]
        assert not wrong, f"{self.told()}: {name} counts its tokens {wrong} as computed, but its slots don't hold them"

    # What they hold it against.

    def told(self):
        memory, host = self.memory, self.memory.host if self.is_paged else None
        pools = f"block_size {memory.block_size}, {memory.allocator.num_free} of {memory.num_blocks} blocks free"
        if not self.is_paged:
            pools += f", a memory that reserves ({memory.policy})"
        if host is not None:
            pools += f", {host.num_free} of {host.num_blocks} in the host pool"
        here = memory.sequences()
        swapped = host.tables if host is not None else {}
        for name, each in self.sequences.items():
            where = "runs" if name in here else "is in the host pool" if name in swapped else "waits"
            pools += f"; {name} {where}, {each.num_computed_tokens} of its {each.num_tokens} tokens computed"
        return pools

    def look(self):
        """All that a call could change, in the words of a message."""
        memory, seen = self.memory, {}
        for name, each in self.sequences.items():
            seen[f"{name}.num_computed_tokens"] = each.num_computed_tokens
            seen[f"{name}.token_ids"] = list(each.token_ids)
            seen[f"{name}'s request"] = each.request.status.value, len(each.request.sequences), each.finish_reason
            seen[f"{name}'s blocks"] = memory.table(name).blocks[:] if name in memory.sequences() else None
        seen["the number of free blocks"] = memory.allocator.num_free
        if not self.is_paged:
            return seen | {"the reserved runs": memory.runs()}
        if memory.host is not None:
            seen["the sequences in the host pool"] = {
                name: table.blocks[:] for name, table in memory.host.tables.items()
            }
            seen["the number of free blocks in the host pool"] = memory.host.num_free
        return seen | {"the blocks that can still be hit": sorted(memory.cached())}

    def call(self, what, name, *arguments):
        """The learner's preempt or resume of one sequence, held against all that must be true then."""
        given = ", ".join([name, "memory", *(f"{each}" for each in arguments)])
        told, before = f"{self.told()}: {what}({given})", self.look()

        def demand(holds, problem):
            assert holds, f"{told} {problem}"

        twin = World(None, memory=self.memory)
        twin.memory, twin.sequences = deepcopy((self.memory, self.sequences))
        twin.is_paged = self.is_paged
        due = getattr(preemption, what)(twin.sequences[name], twin.memory, *arguments)
        why = reason(what, due, before[f"{name}.num_computed_tokens"], *arguments)
        if not self.is_paged:
            why = "a run is reserved by max_new_tokens and num_generated, as admit is told them"
        try:
            got = getattr(self.impl, what)(self.sequences[name], self.memory, *arguments)
        except FROM_MEMORY as error:
            demand(False, f"raised {type(error).__name__} ({error}): nothing is wrong with this call; {why}")
        if due is None:
            demand(got is None, f"returned {got!r}: it must return None; {why}")
        else:
            is_same = isinstance(got, list) and len(got) == len(due) and set(got) == set(due)
            must = f"it must return the list {due}{', in any order' if len(due) > 1 else ''}"
            demand(is_same, f"returned {got!r}: {must}; {why}")
        was, must, found = before, twin.look(), self.look()
        for each, value in must.items():
            so = f"it must be {value}" if was[each] != value else f"it was {value}, and must be so still"
            demand(found[each] == value, f"left {each} at {found[each]}: {so}; {why}")
        if self.is_paged:
            try:
                check(self.memory)
            except BrokenInvariant as error:
                demand(False, f"broke the memory: {error}")
            self.copy(got or [], to_host=what == "preempt")
        return got

    def preempt(self, name, swap=False):
        return self.call("preempt", name, swap)

    def resume(self, name, extra_blocks=0):
        got = self.call("resume", name, extra_blocks)
        if got is not None and self.is_paged:
            self.read(name)
        return got


def reason(what, due, num_computed, argument):
    """Why minipaged's own does what it does, in words."""
    if what == "preempt":
        if due:
            return "its blocks go to the host pool, and what is computed stays computed"
        full = ", for the host pool has too few for them" if argument else ""
        return f"its blocks are dropped{full}, so nothing of it is computed any more"
    if due is None:
        return "there is no room" + (f" for it and {argument} blocks more" if argument else "")
    if num_computed:
        return "it comes back from the host pool, and what is computed stays computed"
    return "it has no blocks anywhere: it is admitted, and computed is what admit says is cached already"
