# Wrong: the cache that was given grows in place, for everybody who reads it.

import torch


def bytes_per_token(num_layers, num_kv_heads, head_dim, bytes_per_value):
    return 2 * num_layers * num_kv_heads * head_dim * bytes_per_value


def attend_with_cache(q, k_new, v_new, k_cache, v_cache):
    num_heads, head_dim = q.shape
    num_tokens = len(k_cache)
    for cache, new in (k_cache, k_new), (v_cache, v_new):
        cache.resize_(num_tokens + 1, *new.shape)
        cache[num_tokens] = new
    group = num_heads // k_new.shape[0]
    keys = k_cache.repeat_interleave(group, dim=1)
    values = v_cache.repeat_interleave(group, dim=1)
    scores = torch.einsum("hd,thd->ht", q, keys) * head_dim**-0.5
    weights = scores.softmax(dim=-1)
    out = torch.einsum("ht,thd->hd", weights, values)
    return out, k_cache, v_cache
