# Right: who may enter is found first, by prefix sums; then all get their share at once.

from itertools import accumulate, pairwise


def schedule(running, waiting, budget, max_num_seqs):
    spent = sum(each.num_tokens - each.num_computed_tokens for each in running)
    while waiting and spent < budget and len(running) < max_num_seqs:
        running += [waiting.popleft()]
        spent += running[-1].num_tokens - running[-1].num_computed_tokens
    ends = [0, *accumulate(each.num_tokens - each.num_computed_tokens for each in running)]
    shares = [min(end, budget) - min(start, budget) for start, end in pairwise(ends)]
    return [(each, each.num_computed_tokens, share) for each, share in zip(running, shares)]
