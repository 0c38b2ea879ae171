"""Exercise 11: numbers as codes of one byte, and back.

Goal: K and V in a quarter of float32's bytes, each token's head with a scale of its own.

    x             [..., head_dim] float16, bfloat16, float32 or float64; in the engine [num_tokens, num_kv_heads,
                  head_dim]. Any number of dimensions in front, also none, each of any size, also 0
    cache_dtype   "int8" or "fp8"; fp8 is e4m3, a float of one byte. Types without a scale never come here
    codes         the shape of x, of CODE_TYPE[cache_dtype]; never beyond LARGEST[cache_dtype], in either direction
    scale         the shape of x without head_dim, float32, whatever x is: one number for each token and head
    decoded       codes * scale, the shape of codes, float32

x and the others may be parts of larger tensors, and nothing that is given may be changed.

Edit below the line, not the tests. About 8 lines, 20 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex11 --impl yours -x

Hints: python -m minipaged.exercises hint ex11
"""

import torch

LARGEST = {"int8": 127, "fp8": 448}  # the largest code of each type
CODE_TYPE = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}

# ------------------------------------------------------------------------------------------------ edit below this line


def encode(x, cache_dtype="int8"):
    """Numbers -> (codes, scale), so that codes * scale is as near to x as codes can come.

    The scale of a head is its largest |x| divided by the largest code, computed in float32 or better: as a float16 the
    quotient may be 0, though x isn't. Each code is the one nearest to x / scale; where two are equally near, either.

    A head of zeros has codes 0 and a scale that is finite. A head in which some number is NaN or infinite must be read
    as NaN in all its numbers, so that what is wrong stays visible: with a scale of NaN, whatever its codes are.
    No other head, of the same token or of another, is touched by either.
    """
    raise NotImplementedError("ex11: encode is yours to write")


def decode(codes, scale):
    """Codes -> numbers, float32: each is its code times the scale of its head. Where the scale is NaN, so are they.

    torch multiplies no fp8: turn codes into float32 first.
    """
    raise NotImplementedError("ex11: decode is yours to write")
