# Wrong: who enters stands in front of the older ones in running.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for sequence in running:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    while waiting and budget > 0 and len(running) < max_num_seqs:
        sequence = waiting.popleft()
        running.insert(0, sequence)
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    return rows
