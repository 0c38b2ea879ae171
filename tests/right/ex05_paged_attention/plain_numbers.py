# Right: key by key and head by head in plain Python, with an online softmax that has no blocks in it.

import math

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    block_size, num_kv_heads = k_cache.size(1), k_cache.size(2)
    share = q.size(0) // num_kv_heads
    table = block_table.tolist()
    rows = []
    for head in range(q.size(0)):
        largest, total, weighted = -math.inf, 0.0, torch.zeros_like(q[head])
        for position in range(seq_len):
            place = table[position // block_size], position % block_size, head // share
            score = scale * (q[head] @ k_cache[place]).item()
            if score > largest:
                shrink = math.exp(largest - score)
                total, weighted, largest = total * shrink, weighted * shrink, score
            weight = math.exp(score - largest)
            total += weight
            weighted = weighted + weight * v_cache[place]
        rows.append(weighted / total if total else weighted)
    return torch.stack(rows)
