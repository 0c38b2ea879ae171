# Right: torch's own attention over the caches, which are filled into new memory.

from math import prod

import torch
from torch.nn.functional import scaled_dot_product_attention


def longer(cache, new):
    result = cache.new_empty(len(cache) + 1, *new.shape)
    result[:-1], result[-1] = cache, new
    return result


def bytes_per_token(num_layers, num_kv_heads, head_dim, bytes_per_value):
    return prod([2, num_layers, num_kv_heads, head_dim, bytes_per_value])


def attend_with_cache(q, k_new, v_new, k_cache, v_cache):
    k_cache, v_cache = longer(k_cache, k_new), longer(v_cache, v_new)
    kv_heads = torch.arange(len(q)) // (len(q) // len(k_new))
    out = scaled_dot_product_attention(
        q[:, None], k_cache[:, kv_heads].transpose(0, 1), v_cache[:, kv_heads].transpose(0, 1)
    )
    return out[:, 0], k_cache, v_cache
