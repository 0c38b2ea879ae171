# Right: an object does the work; prompt and answer are put together again.


class Yielding:
    def __init__(self, sequence, memory):
        self.sequence, self.memory, self.name = sequence, memory, sequence.name

    def drop(self):
        self.sequence.num_computed_tokens = 0
        self.memory.release(self.name)
        return []

    def enter(self, extra_blocks):
        sequence = self.sequence
        known = sequence.request.prompt_token_ids + sequence.output_token_ids
        left = sequence.request.max_tokens - len(sequence.output_token_ids)
        num_cached = self.memory.admit(self.name, known, left, extra_blocks, len(sequence.output_token_ids))
        if num_cached is None:
            return None
        sequence.num_computed_tokens += num_cached
        return []


def choose_victim(running):
    return running[len(running) - 1]


def preempt(sequence, memory, swap=False):
    yielding = Yielding(sequence, memory)
    if not swap:
        return yielding.drop()
    pairs = memory.swap_out((sequence.name,))
    return yielding.drop() if pairs is None else pairs


def resume(sequence, memory, extra_blocks=0):
    if sequence.num_computed_tokens == 0:
        return Yielding(sequence, memory).enter(extra_blocks)
    return memory.swap_in((sequence.name,), extra_blocks)
