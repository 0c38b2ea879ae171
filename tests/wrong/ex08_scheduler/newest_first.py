# Wrong: of the running the newest comes first, and a long prompt takes what the older need.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for sequence in reversed(running):
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        if num_tokens:
            rows.insert(0, (sequence, start, num_tokens))
        budget -= num_tokens
    while waiting and budget > 0 and len(running) < max_num_seqs:
        sequence = waiting.popleft()
        running.append(sequence)
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    return rows
