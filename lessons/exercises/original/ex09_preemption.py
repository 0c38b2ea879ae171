"""Exercise 09: preemption.

Goal: when no block is free, decide who must yield; take its blocks from it; and let it come back with no token lost.

    running       a list of requests, the oldest first. The scheduler reads it, and takes the victim out of it itself
    sequence      one run of tokens. name: what the memory calls it; token_ids: the prompt and what was generated;
                  num_computed_tokens: how many of these have their K and V in the cache, 0 while it has no blocks;
                  num_tokens_left: how many it may still generate; num_output_tokens: how many it has generated
    pair          (source, destination): a block to copy, and the block to copy it to. The engine copies, not you
    extra_blocks  how many blocks must be left free, besides those that the sequence needs

The verbs of `memory`. Each does all that it says, or it returns None and has changed nothing:

    memory.release(name)                    drops the sequence's blocks. Returns nothing
    memory.swap_out([name])                 moves its blocks to the host pool, and drops them here. Returns the list of
                                            (device block, host block) pairs, or None if the host pool has too few
    memory.swap_in([name], extra_blocks)    moves them back, into any free blocks. Returns the list of (host block,
                                            device block) pairs, or None if there is no room here
    memory.admit(name, token_ids, max_new_tokens, extra_blocks, num_generated)
                                            lets in a sequence that is neither here nor in the host pool. Returns how
                                            many of its first tokens are cached already, often 0, or None if there is no
                                            room. The other two numbers, num_tokens_left and num_output_tokens, are for
                                            memories that reserve; paged memory doesn't look at them

A sequence's tokens are never changed, nor is its request: what status that has is the scheduler's business.

Edit below the line, not the tests. About 12 lines, 25 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex09 --impl yours -x

Hints: python -m minipaged.exercises hint ex09
"""

# ------------------------------------------------------------------------------------------------ edit below this line


def choose_victim(running):
    """Who must yield, of these running requests, at least one. Returns one of them; the list stays as it is.

    The oldest yields only if it runs alone: whoever came last, goes first.
    """
    raise NotImplementedError("ex09: choose_victim is yours to write")


def preempt(sequence, memory, swap=False):
    """Take a running sequence's blocks from it. Returns the list of (device block, host block) pairs to copy.

    swap: move its blocks to the host pool. What is computed of it stays computed then: num_computed_tokens doesn't
    change. Without swap, or if the host pool has too few blocks, they are dropped: there is nothing to copy, an empty
    list, and nothing of it is computed any more.
    """
    raise NotImplementedError("ex09: preempt is yours to write")


def resume(sequence, memory, extra_blocks=0):
    """Let a sequence in that has no blocks here. Returns the list of (host block, device block) pairs to copy.

    If it is in the host pool, then something of it is computed: it goes on from there, and num_computed_tokens doesn't
    change. Otherwise, for the first time or after its blocks were dropped, there is nothing to copy, an empty list, and
    computed is what is cached already. If there is no room for it and extra_blocks more, returns None, with nothing
    changed.
    """
    raise NotImplementedError("ex09: resume is yours to write")
