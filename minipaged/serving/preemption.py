"""Out of blocks: who must yield, how a sequence gives its blocks up, and how it comes back.

By recompute its blocks are dropped, and on return its tokens are computed once more, but for those that the prefix
cache still has. By swap they are copied to the host pool and back. Its tokens are kept either way, so what it says does
not change. Lesson 09 builds it. (Paper: section 4.5. vLLM: v1/core/sched/scheduler.py, which only recomputes.)
"""


def choose_victim(running):
    """Who must yield when a running request finds no block. running: the oldest first.

    The newest: so the oldest always goes on, and nobody yields for ever.
    """
    return running[-1]


def preempt(sequence, memory, swap=False):
    """Take a sequence's device blocks from it. Returns the (device block, host block) pairs to copy.

    swap: keep K and V in the host pool, and num_computed_tokens with them. Without it, or where the host pool has too
    few blocks, everything is dropped: no pairs, and nothing of it is computed any more.
    """
    if swap and (pairs := memory.swap_out([sequence.name])) is not None:
        return pairs
    memory.release(sequence.name)
    sequence.num_computed_tokens = 0
    return []


def resume(sequence, memory, extra_blocks=0):
    """Let a sequence in, for the first time or again. Returns the (host block, device block) pairs to copy.

    If it is in the host pool it goes on where it was; otherwise from what the prefix cache has of it. Returns None,
    with nothing changed, unless there is room for all its tokens (from the host pool: for those stored there and one
    more) and extra_blocks more.
    """
    if sequence.num_computed_tokens:
        return memory.swap_in([sequence.name], extra_blocks)
    known = sequence.token_ids, sequence.num_tokens_left, extra_blocks, sequence.num_output_tokens
    num_cached = memory.admit(sequence.name, *known)
    if num_cached is None:
        return None
    sequence.num_computed_tokens = num_cached
    return []
