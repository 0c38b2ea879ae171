# Wrong: what is left of the budget is divided among all that could enter.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for sequence in running:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    number = min(len(waiting), max_num_seqs - len(running), budget)
    for _ in range(number):
        sequence = waiting.popleft()
        running.append(sequence)
        start = sequence.num_computed_tokens
        rows.append((sequence, start, min(sequence.num_tokens - start, budget // number)))
    return rows
