# Wrong: caches have spare room behind them, and two tokens after one cache get the same place.

import torch

spare = {}  # where a cache begins in memory -> the whole of that memory


def grown(cache, new):
    num_tokens, memory = len(cache), spare.get(cache.data_ptr())
    if memory is None or len(memory) == num_tokens:
        memory = cache.new_empty(2 * num_tokens + 8, *new.shape)
        memory[:num_tokens] = cache
        spare[memory.data_ptr()] = memory
    memory[num_tokens] = new
    return memory[: num_tokens + 1]


def bytes_per_token(num_layers, num_kv_heads, head_dim, bytes_per_value):
    return 2 * num_layers * num_kv_heads * head_dim * bytes_per_value


def attend_with_cache(q, k_new, v_new, k_cache, v_cache):
    num_heads, head_dim = q.shape
    k_cache, v_cache = grown(k_cache, k_new), grown(v_cache, v_new)
    group = num_heads // k_new.shape[0]
    keys = k_cache.repeat_interleave(group, dim=1)
    values = v_cache.repeat_interleave(group, dim=1)
    scores = torch.einsum("hd,thd->ht", q, keys) * head_dim**-0.5
    weights = scores.softmax(dim=-1)
    out = torch.einsum("ht,thd->hd", weights, values)
    return out, k_cache, v_cache
