# Wrong: where block_size divides seq_len, one entry of the table too many is looked up.

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    block_size, num_kv_heads = k_cache.shape[1:3]
    blocks = block_table[: seq_len // block_size + 1].long()
    kv_head = torch.arange(len(q)) // (len(q) // num_kv_heads)
    keys = k_cache[blocks].flatten(0, 1)[:seq_len, kv_head]
    values = v_cache[blocks].flatten(0, 1)[:seq_len, kv_head]
    weights = (scale * (q * keys).sum(-1)).softmax(0)
    return (weights[..., None] * values).sum(0)
