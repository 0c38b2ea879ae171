# Wrong: who enters begins at position 0, and computes again what is cached.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for sequence in running:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    while waiting and budget > 0 and len(running) < max_num_seqs:
        sequence = waiting.popleft()
        running.append(sequence)
        num_tokens = min(sequence.num_tokens, budget)
        rows.append((sequence, 0, num_tokens))
        budget -= num_tokens
    return rows
