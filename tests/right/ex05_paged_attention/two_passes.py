# Right: a first walk over the blocks finds the maximum, a second one sums.

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    out = torch.zeros_like(q)
    if seq_len < 1:
        return out
    block_size, num_kv_heads = k_cache.shape[1], k_cache.shape[2]
    group = len(q) // num_kv_heads
    for head in range(len(q)):
        scores = []
        for logical in range((seq_len - 1) // block_size + 1):
            count = min(block_size, seq_len - logical * block_size)
            scores.append(k_cache[int(block_table[logical]), :count, head // group].mv(q[head]) * scale)
        largest = max(each.max() for each in scores)
        weights = [torch.exp(each - largest) for each in scores]
        total = sum(each.sum() for each in weights)
        for logical, each in enumerate(weights):
            out[head] += (each / total) @ v_cache[int(block_table[logical]), : len(each), head // group]
    return out
