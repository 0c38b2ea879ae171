# Right: whole blocks are read and what lies past seq_len is hidden: scores become -inf, values 0.

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    block_size, num_kv_heads, head_dim = k_cache.shape[1:]
    out = torch.empty_like(q)
    for kv_head, heads in enumerate(torch.arange(len(q)).chunk(num_kv_heads)):
        largest = torch.full((len(heads), 1), -1e30, dtype=q.dtype)
        total, weighted = torch.zeros(len(heads), 1, dtype=q.dtype), torch.zeros(len(heads), head_dim, dtype=q.dtype)
        logical = 0
        while logical * block_size < seq_len:
            block = block_table[logical].item()
            inside = torch.arange(block_size) < seq_len - logical * block_size
            keys = torch.where(inside[:, None], k_cache[block, :, kv_head], 0)
            values = torch.where(inside[:, None], v_cache[block, :, kv_head], 0)
            scores = torch.where(inside, q[heads] @ keys.T * scale, float("-inf"))
            before, largest = largest, torch.maximum(largest, scores.max(1, keepdim=True).values)
            weights, shrink = torch.exp(scores - largest), torch.exp(before - largest)
            total, weighted = total * shrink + weights.sum(1, keepdim=True), weighted * shrink + weights @ values
            logical += 1
        out[heads] = weighted / total.clamp_min(1e-30)
    return out
