# Wrong: the prompt that is in the middle gets the budget before the older ones that decode.


def schedule(running, waiting, budget, max_num_seqs):
    given = {}
    for sequence in sorted(running, key=lambda each: each.num_tokens - each.num_computed_tokens, reverse=True):
        given[sequence.name] = min(sequence.num_tokens - sequence.num_computed_tokens, budget)
        budget -= given[sequence.name]
    rows = [(each, each.num_computed_tokens, given[each.name]) for each in running if given[each.name]]
    while waiting and budget > 0 and len(running) < max_num_seqs:
        sequence = waiting.popleft()
        running.append(sequence)
        start = sequence.num_computed_tokens
        num_tokens = min(sequence.num_tokens - start, budget)
        rows.append((sequence, start, num_tokens))
        budget -= num_tokens
    return rows
