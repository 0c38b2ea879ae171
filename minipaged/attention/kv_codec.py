"""How the numbers of K and V are stored: as floating point numbers, or as codes of one byte with a scale.

Where memory ends, fewer bytes per token are more tokens. One scale serves one token and one KV head: head_dim numbers
that were computed together and are read together. So a token is encoded when it is written, whatever came before it,
and an outlier makes nobody else's steps coarser. encode and decode stand side by side because one undoes the other.
Lesson 11 builds them. (vLLM: --kv-cache-dtype; KIVI, ICML 2024, has one scale for a channel of many keys.)
"""

import torch

FLOATS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}
LARGEST = {"int8": 127, "fp8": 448}  # the largest code. fp8 is e4m3: a sign, 4 bits of exponent, 3 of mantissa
CODES = tuple(getattr(torch, name) for name in ("int8", "float8_e4m3fn") if hasattr(torch, name))
NAMES = ("float32", "float16", "bfloat16", *LARGEST)


def code_type(cache_dtype):
    """The torch.dtype that a cache of this name holds. Raises ValueError for a name that isn't known or available."""
    if cache_dtype in FLOATS:
        return FLOATS[cache_dtype]
    if cache_dtype == "int8":
        return torch.int8
    if cache_dtype == "fp8":
        if hasattr(torch, "float8_e4m3fn"):
            return torch.float8_e4m3fn
        raise ValueError(f"cache_dtype='fp8': this torch, {torch.__version__}, has no float8_e4m3fn; must be another")
    raise ValueError(f"cache_dtype={cache_dtype!r}: must be one of {', '.join(NAMES)}")


def has_scales(cache_dtype):
    """Whether numbers of this type are codes, which mean something only together with their scale."""
    return cache_dtype in LARGEST


def bytes_per_token(cache_dtype, num_layers, num_kv_heads, head_dim):
    """What the K and V of one token take in all layers, scales included. Raises ValueError as code_type does."""
    scale = torch.float32.itemsize if has_scales(cache_dtype) else 0
    per_head = head_dim * code_type(cache_dtype).itemsize + scale
    return 2 * num_layers * num_kv_heads * per_head


def encode(x, cache_dtype="int8"):
    """Numbers -> (codes, scale): x is about codes * scale.

    x: [..., head_dim] floating point. codes: the same shape, of code_type(cache_dtype). scale: [...] float32, the
    largest |x| of the head divided by the largest code, so the code 0 is the number 0 and an int8 is off by at most
    half a scale. A head of zeros has scale 0. Where a number isn't finite, or the scale would not be, the scale is NaN:
    the whole head is NaN when it is read. For floating point types the codes are the numbers themselves and the scale
    is None; what is too large for float16 becomes infinite. Raises ValueError for a type that isn't known or available.
    """
    dtype = code_type(cache_dtype)
    if not has_scales(cache_dtype):
        return x.to(dtype), None
    largest = LARGEST[cache_dtype]
    scale = x.abs().amax(-1).float() / largest  # as a half it could become 0, and the whole head with it
    scale = scale.where(scale.isfinite(), torch.nan)
    codes = x / scale.where(scale > 0, 1).unsqueeze(-1)
    codes = codes.nan_to_num(0, 0, 0).clamp(-largest, largest)  # what becomes of NaN as a whole number is undefined
    return (codes.round() if cache_dtype == "int8" else codes).to(dtype), scale


def decode(codes, scale):
    """Codes -> numbers: [..., head_dim] float32. Where scale is None, the codes are numbers already, of any type."""
    return codes if scale is None else codes.float() * scale.unsqueeze(-1)


def stored(x, cache_dtype):
    """What is left of numbers that were encoded and decoded, in the type that they had."""
    return decode(*encode(x, cache_dtype)).to(x.dtype)
