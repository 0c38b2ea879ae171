# Right: lists of numbers and loops; torch only at both ends.

import math

import torch


def bytes_per_token(num_layers, num_kv_heads, head_dim, bytes_per_value):
    values = 0
    for _ in range(num_layers):
        for _ in range(num_kv_heads):
            values += head_dim + head_dim
    return values * bytes_per_value


def attend_with_cache(q, k_new, v_new, k_cache, v_cache):
    keys, values = k_cache.tolist() + [k_new.tolist()], v_cache.tolist() + [v_new.tolist()]
    group = len(q) // len(k_new)
    out = []
    for h, query in enumerate(q.tolist()):
        scores = [sum(a * b for a, b in zip(query, key[h // group])) / math.sqrt(len(query)) for key in keys]
        weights = [math.exp(score - max(scores)) for score in scores]
        columns = zip(*(value[h // group] for value in values))
        out.append([sum(w * x for w, x in zip(weights, column)) / sum(weights) for column in columns])
    return [torch.tensor(each, dtype=q.dtype) for each in (out, keys, values)]
