# Right: a class keeps what is left; rows come from a generator.


class Step:
    def __init__(self, budget):
        self.left = budget

    def catch_up(self, sequence):
        start = sequence.num_computed_tokens
        stop = min(sequence.num_tokens, start + self.left)
        self.left -= stop - start
        return sequence, start, stop - start


def rows_of(step, running, waiting, max_num_seqs):
    for sequence in tuple(running):
        yield step.catch_up(sequence)
    for _ in range(min(max_num_seqs - len(running), len(waiting))):
        if step.left == 0:
            return
        sequence = waiting[0]
        del waiting[0]
        running.extend([sequence])
        yield step.catch_up(sequence)


def schedule(running, waiting, budget, max_num_seqs):
    return list(rows_of(Step(budget), running, waiting, max_num_seqs))
