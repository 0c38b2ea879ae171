# Right: numpy, the query heads of one KV head at a time; old tokens and the new one are scored apart.

import numpy as np
import torch


def bytes_per_token(num_layers, num_kv_heads, head_dim, bytes_per_value):
    k_and_v = np.zeros((2, num_layers, num_kv_heads, head_dim), dtype=np.uint8)
    return k_and_v.size * bytes_per_value


def attend_with_cache(q, k_new, v_new, k_cache, v_cache):
    num_kv_heads, head_dim = k_new.shape
    results = []
    for head, queries in enumerate(np.split(q.numpy() / np.sqrt(head_dim).astype(q.numpy().dtype), num_kv_heads)):
        old, own = queries @ k_cache[:, head].numpy().T, queries @ k_new[head].numpy()
        largest = np.maximum(own, old.max(axis=1, initial=-np.inf))
        old, own = np.exp(old - largest[:, None]), np.exp(own - largest)
        found = old @ v_cache[:, head].numpy() + own[:, None] * v_new[head].numpy()
        results.append(found / (old.sum(axis=1) + own)[:, None])
    caches = [torch.cat((cache, new.unsqueeze(0)), dim=0) for cache, new in ((k_cache, k_new), (v_cache, v_new))]
    return torch.from_numpy(np.concatenate(results)), *caches
