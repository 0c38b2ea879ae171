"""Exercise 01: a KV cache that grows by a token.

Goal: say what one token costs in the cache, and let a new token attend over what is cached.

    num_layers, num_kv_heads, head_dim    the sizes of a model: all its layers, and the KV heads of one of them
    bytes_per_value    2 for float16, 4 for float32
    q                  [num_heads, head_dim]                 the new token's queries, in one layer
    k_new, v_new       [num_kv_heads, head_dim]              its keys and values
    k_cache, v_cache   [num_tokens, num_kv_heads, head_dim]  those of all tokens before it, the oldest first
    out                [num_heads, head_dim]                 what the new token's heads found

Edit below the line, not the tests. About 10 lines, 20 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex01 --impl yours -x

Hints: python -m minipaged.exercises hint ex01
"""

import torch  # noqa: F401 (for you to use)

# ------------------------------------------------------------------------------------------------ edit below this line


def bytes_per_token(num_layers, num_kv_heads, head_dim, bytes_per_value):
    """How many bytes of K and V one token keeps in the cache, all layers together. Returns an int.

    Each of the four numbers is a whole number, 1 or more; you need not check it.
    """
    raise NotImplementedError("ex01: bytes_per_token is yours to write")


def attend_with_cache(q, k_new, v_new, k_cache, v_cache):
    """Attention of one new token over all cached tokens and over itself, in one layer.

    Query head h reads KV head h // (num_heads // num_kv_heads); num_heads is a multiple of num_kv_heads. The score of a
    query and a key is their dot product times head_dim ** -0.5; a softmax over the tokens makes weights of the scores,
    and `out` is the sum of the values, each times its weight. Scores can be in the thousands, too much for exp alone.

    num_tokens may be 0: then the new token sees only itself. The sizes fit each other; you need not check that.

    Returns three new tensors, (out, k_cache, v_cache). The two caches have the new token at their end, so they are one
    token longer. The five given tensors must stay as they are: others may be reading them. They have one dtype, float32
    or float64, and what you return has the same.
    """
    raise NotImplementedError("ex01: attend_with_cache is yours to write")
