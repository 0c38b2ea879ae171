# Right: where a sequence is, the memory is asked; and who is the newest, by counting.


def choose_victim(running):
    return list(running).pop()


def preempt(sequence, memory, swap=False):
    pairs = memory.swap_out([sequence.name]) if swap else None
    if pairs is None:
        pairs = []
        memory.release(sequence.name)
        sequence.num_computed_tokens -= sequence.num_computed_tokens
    return pairs


def resume(sequence, memory, extra_blocks=0):
    host = getattr(memory, "host", None)
    if host is not None and sequence.name in host.tables:
        return memory.swap_in([sequence.name], extra_blocks=extra_blocks)
    num_cached = memory.admit(
        sequence.name,
        sequence.token_ids,
        max_new_tokens=sequence.num_tokens_left,
        extra_blocks=extra_blocks,
        num_generated=sequence.num_output_tokens,
    )
    if num_cached is not None:
        sequence.num_computed_tokens = num_cached
    return None if num_cached is None else []
