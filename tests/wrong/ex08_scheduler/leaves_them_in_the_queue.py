# Wrong: who enters stays in waiting too, and would enter once more in the next step.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for sequence in running:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    for sequence in waiting:
        if budget == 0 or len(running) == max_num_seqs:
            break
        running.append(sequence)
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    return rows
