# Wrong: the waiting are served before those that run, which starve while long prompts come.


def schedule(running, waiting, budget, max_num_seqs):
    rows, old = [], list(running)
    while waiting and budget > 0 and len(running) < max_num_seqs:
        sequence = waiting.popleft()
        running.append(sequence)
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    continued = []
    for sequence in old:
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        if num_tokens:
            continued.append((sequence, start, num_tokens))
            budget -= num_tokens
    return continued + rows
