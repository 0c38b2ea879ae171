# Right: one loop over the running, which grows while it runs.


def schedule(running, waiting, budget, max_num_seqs):
    rows = []
    for place in range(max_num_seqs):
        if place == len(running):
            if not waiting or not budget:
                break
            running.append(waiting.popleft())
        sequence = running[place]
        rows.append((sequence, sequence.num_computed_tokens, min(lacking(sequence), budget)))
        budget -= rows[-1][2]
    return rows


def lacking(sequence):
    return sequence.num_tokens - sequence.num_computed_tokens
