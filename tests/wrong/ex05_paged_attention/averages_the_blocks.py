# Wrong: each block has its own softmax, and the answer is the mean of the blocks' outputs.

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    block_size, num_kv_heads = k_cache.shape[1:3]
    kv_head = torch.arange(len(q)) // (len(q) // num_kv_heads)
    outputs = []
    for start in range(0, seq_len, block_size):
        block = int(block_table[start // block_size])
        count = min(block_size, seq_len - start)
        keys = k_cache[block, :count][:, kv_head]
        values = v_cache[block, :count][:, kv_head]
        weights = (scale * (q * keys).sum(-1)).softmax(0)
        outputs.append((weights[..., None] * values).sum(0))
    return torch.stack(outputs).mean(0) if outputs else torch.zeros_like(q)
