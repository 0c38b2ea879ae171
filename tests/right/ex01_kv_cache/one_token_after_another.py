# Right: a running maximum, sum and output over the tokens, the new one first; each query head for itself.

from typing import NamedTuple

import torch


class Result(NamedTuple):
    out: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor


def bytes_per_token(num_layers, num_kv_heads, head_dim, bytes_per_value):
    k = v = num_kv_heads * head_dim * bytes_per_value
    return sum(k + v for _ in range(num_layers))


def attend_with_cache(q, k_new, v_new, k_cache, v_cache):
    group = q.shape[0] // k_new.shape[0]
    heads = []
    for h in range(q.shape[0]):
        kv = h // group
        largest, total, out = q[h] @ k_new[kv] / q.shape[1] ** 0.5, 1.0, v_new[kv].clone()
        for t in range(k_cache.shape[0]):
            score = q[h] @ k_cache[t, kv] / q.shape[1] ** 0.5
            before, largest = largest, torch.maximum(largest, score)
            total = total * (before - largest).exp() + (score - largest).exp()
            out = out * (before - largest).exp() + (score - largest).exp() * v_cache[t, kv]
        heads.append(out / total)
    return Result(torch.stack(heads), torch.vstack((k_cache, k_new[None])), torch.vstack((v_cache, v_new[None])))
