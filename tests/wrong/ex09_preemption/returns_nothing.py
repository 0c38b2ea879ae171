# Wrong: None in the place of an empty list.


def choose_victim(running):
    return running[-1]


def preempt(sequence, memory, swap=False):
    if swap:
        pairs = memory.swap_out([sequence.name])
        if pairs is not None:
            return pairs
    memory.release(sequence.name)
    sequence.num_computed_tokens = 0
    return None


def resume(sequence, memory, extra_blocks=0):
    if sequence.num_computed_tokens:
        return memory.swap_in([sequence.name], extra_blocks)
    rest = sequence.num_tokens_left, extra_blocks, sequence.num_output_tokens
    num_cached = memory.admit(sequence.name, sequence.token_ids, *rest)
    if num_cached is None:
        return None
    sequence.num_computed_tokens = num_cached
    return []
