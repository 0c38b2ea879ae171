# Right: the next way is tried where the one before says None; swapped is who is computed.


def choose_victim(running):
    return next(reversed(running))


def preempt(sequence, memory, swap=False):
    if not swap or (pairs := memory.swap_out([sequence.name])) is None:
        memory.release(sequence.name)
        sequence.num_computed_tokens, pairs = 0, []
    return pairs


def resume(sequence, memory, extra_blocks=0):
    is_swapped = sequence.num_computed_tokens != 0
    if is_swapped:
        pairs = memory.swap_in([sequence.name], extra_blocks)
    else:
        asked = sequence.token_ids, sequence.num_tokens_left, extra_blocks, sequence.num_output_tokens
        start = memory.admit(sequence.name, *asked)
        pairs = None if start is None else []
        sequence.num_computed_tokens = start or 0
    return pairs
