"""A KV cache without pages: K and V of one layer of one sequence lie in one run, which grows by a token.

The plainest cache there is, and what paging replaces: nothing here knows of blocks, or of other sequences, and each new
token copies the whole cache into a run that is one longer. The engine never uses it. Lesson 01 builds it.
"""

import torch

from minipaged.arguments import whole


def bytes_per_token(num_layers, num_kv_heads, head_dim, bytes_per_value):
    """How many bytes of K and V one token keeps in the cache, all layers together.

    bytes_per_value: 2 for float16 and bfloat16, 4 for float32. Raises ValueError for a number below 1. OPT-13B, with 40
    layers of 40 KV heads of 128 in float16: 819,200 bytes, 800 KiB (paper: section 3). (vLLM: real_page_size_bytes in
    v1/kv_cache_interface.py, which is one layer's bytes of a whole block.)
    """
    num_layers = whole("num_layers", num_layers, least=1)
    num_kv_heads = whole("num_kv_heads", num_kv_heads, least=1)
    head_dim = whole("head_dim", head_dim, least=1)
    bytes_per_value = whole("bytes_per_value", bytes_per_value, least=1)
    return 2 * num_layers * num_kv_heads * head_dim * bytes_per_value  # 2: a K and a V


def attend_with_cache(q, k_new, v_new, k_cache, v_cache):
    """Attention of one new token over all cached tokens and itself, in one layer.

    q: [num_heads, head_dim]. k_new, v_new: [num_kv_heads, head_dim]. k_cache, v_cache: [num_tokens, num_kv_heads,
    head_dim], the oldest token first; num_tokens may be 0. Query head h reads KV head h // (num_heads // num_kv_heads).
    Scores are multiplied by head_dim ** -0.5.

    Returns (out, k_cache, v_cache): out [num_heads, head_dim], and new caches that have the new token at their end. The
    given ones stay as they are, since others may be reading them. Raises ValueError for sizes that don't fit.
    (transformers: DynamicLayer.update in cache_utils.py grows its cache in this way.)
    """
    check_arguments(q, k_new, v_new, k_cache, v_cache)
    num_kv_heads, head_dim = k_new.shape
    k_cache = torch.cat([k_cache, k_new[None]])  # [num_tokens + 1, num_kv_heads, head_dim]
    v_cache = torch.cat([v_cache, v_new[None]])
    queries = head_dim**-0.5 * q.unflatten(0, (num_kv_heads, -1))  # [num_kv_heads, heads that share it, head_dim]
    scores = queries @ k_cache.permute(1, 2, 0)  # [num_kv_heads, heads that share it, num_tokens + 1]
    out = scores.softmax(-1) @ v_cache.transpose(0, 1)  # [num_kv_heads, heads that share it, head_dim]
    return out.flatten(0, 1), k_cache, v_cache


def check_arguments(q, k_new, v_new, k_cache, v_cache):
    """Raises ValueError, with the shapes, if arguments of attend_with_cache don't fit each other."""
    same_shapes = k_cache.shape == v_cache.shape and k_cache.shape[1:] == k_new.shape == v_new.shape
    if not (same_shapes and k_new.dim() == 2 and q.dim() == 2 and q.shape[1] == k_new.shape[1]):
        raise ValueError(
            f"q {tuple(q.shape)}, k_new {tuple(k_new.shape)}, v_new {tuple(v_new.shape)}, "
            f"k_cache {tuple(k_cache.shape)}, v_cache {tuple(v_cache.shape)}: must be [num_heads, head_dim], "
            "twice [num_kv_heads, head_dim], and twice [num_tokens, num_kv_heads, head_dim]"
        )
    if not len(k_new) or len(q) % len(k_new):
        raise ValueError(f"{len(q)} query heads on {len(k_new)} KV heads: must be a multiple of them")
