# Right: it hands the budget out one token after the other.

from collections import namedtuple

Row = namedtuple("Row", "sequence start num_tokens")


def schedule(running, waiting, budget, max_num_seqs):
    rows, place, given = [], 0, 0
    for _ in range(budget):
        if place == len(running):
            if not waiting or place == max_num_seqs:
                break
            running.append(waiting.popleft())
        sequence = running[place]
        start, given = sequence.num_computed_tokens, given + 1
        rows[place:] = [Row(sequence, start, given)]
        if start + given == sequence.num_tokens:
            place, given = place + 1, 0
    return rows
