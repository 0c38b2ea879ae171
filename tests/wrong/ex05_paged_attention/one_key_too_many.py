# Wrong: the query sees the key at position seq_len as well, if there is a slot for it in the last block.

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    block_size, num_kv_heads = k_cache.shape[1:3]
    kv_head = torch.arange(len(q)) // (len(q) // num_kv_heads)
    largest = torch.full_like(q[:, 0], float("-inf"))
    total = torch.zeros_like(q[:, 0])
    weighted = torch.zeros_like(q)
    for start in range(0, seq_len, block_size):
        block = int(block_table[start // block_size])
        count = min(block_size, seq_len - start + 1)
        keys = k_cache[block, :count][:, kv_head]  # [count, num_heads, head_dim]
        values = v_cache[block, :count][:, kv_head]
        scores = scale * (q * keys).sum(-1)  # [count, num_heads]
        new_largest = torch.maximum(largest, scores.amax(0))
        correction = torch.exp(largest - new_largest)
        weights = torch.exp(scores - new_largest)
        total = total * correction + weights.sum(0)
        weighted = weighted * correction[:, None] + (weights[..., None] * values).sum(0)
        largest = new_largest
    return weighted / total[:, None] if seq_len else weighted
