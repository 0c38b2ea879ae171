# Right: whether the host pool has room is found out before anything is asked of it.


def choose_victim(running):
    *_, newest = running
    return newest


def preempt(sequence, memory, swap=False):
    has_room = swap and len(set(memory.table(sequence.name).blocks)) <= memory.host.num_free
    if has_room:
        return list(memory.swap_out([sequence.name]))
    memory.release(sequence.name)
    sequence.num_computed_tokens = 0
    return []


def resume(sequence, memory, extra_blocks=0):
    if sequence.num_computed_tokens > 0:
        return memory.swap_in([sequence.name], extra_blocks)
    lengths = {"max_new_tokens": sequence.num_tokens_left, "num_generated": sequence.num_output_tokens}
    cached = memory.admit(sequence.name, list(sequence.token_ids), extra_blocks=extra_blocks, **lengths)
    if cached is None:
        return None
    sequence.num_computed_tokens = cached
    return []
