# Right: all keys and values are gathered into one tensor each, then one softmax.

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    if seq_len == 0:
        return torch.zeros_like(q)
    block_size, num_kv_heads = k_cache.shape[1:3]
    positions = torch.arange(seq_len)
    blocks = block_table[positions // block_size].long()
    keys, values = (cache[blocks, positions % block_size] for cache in (k_cache, v_cache))
    grouped = q.reshape(num_kv_heads, -1, q.shape[-1])  # the query heads that share a KV head
    scores = scale * torch.einsum("kgd,nkd->kgn", grouped, keys)
    return torch.einsum("kgn,nkd->kgd", scores.softmax(-1), values).reshape(q.shape)
