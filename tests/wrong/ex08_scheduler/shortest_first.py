# Wrong: the shortest prompt enters first, not the one that came first.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for sequence in running:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    while waiting and budget > 0 and len(running) < max_num_seqs:
        sequence = min(waiting, key=lambda each: each.num_tokens - each.num_computed_tokens)
        waiting.remove(sequence)
        running.append(sequence)
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    return rows
