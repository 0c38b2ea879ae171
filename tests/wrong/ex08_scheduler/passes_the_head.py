# Wrong: who fits whole enters before a longer prompt that came first.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for sequence in running:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    while waiting and budget > 0 and len(running) < max_num_seqs:
        fits = (each for each in waiting if each.num_tokens - each.num_computed_tokens <= budget)
        sequence = next(fits, waiting[0])
        waiting.remove(sequence)
        running.append(sequence)
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    return rows
