# Wrong: those that enter in this step are not counted against max_num_seqs.


def schedule(running, waiting, budget, max_num_seqs):
    rows, num_running = [], len(running)
    for sequence in running:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    while waiting and budget > 0 and num_running < max_num_seqs:
        sequence = waiting.popleft()
        running.append(sequence)
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    return rows
