# Wrong: no chunks: a prompt that doesn't fit into what is left waits, and whoever is behind it.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for sequence in running:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    while waiting and len(running) < max_num_seqs:
        start = waiting[0].num_computed_tokens
        num_tokens = waiting[0].num_tokens - start
        if num_tokens > budget:
            break
        sequence = waiting.popleft()
        running.append(sequence)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    return rows
