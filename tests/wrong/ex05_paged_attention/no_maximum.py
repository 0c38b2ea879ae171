# Wrong: exp(score) without taking the largest one off overflows for large scores.

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    block_size, num_kv_heads = k_cache.shape[1:3]
    kv_head = torch.arange(len(q)) // (len(q) // num_kv_heads)
    total = torch.zeros_like(q[:, 0])
    weighted = torch.zeros_like(q)
    for start in range(0, seq_len, block_size):
        block = int(block_table[start // block_size])
        count = min(block_size, seq_len - start)
        keys = k_cache[block, :count][:, kv_head]  # [count, num_heads, head_dim]
        values = v_cache[block, :count][:, kv_head]
        scores = scale * (q * keys).sum(-1)  # [count, num_heads]
        weights = torch.exp(scores)
        total = total + weights.sum(0)
        weighted = weighted + (weights[..., None] * values).sum(0)
    return weighted / total[:, None] if seq_len else weighted
