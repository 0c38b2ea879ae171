# Right: what isn't finite gets an infinite scale and codes of 0, and 0 * inf is NaN too.

import torch

LARGEST = {"int8": 127, "fp8": 448}
CODE_TYPE = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


def encode(x, cache_dtype="int8"):
    scale = x.abs().amax(-1).to(torch.float32).div(LARGEST[cache_dtype])
    bad = ~torch.isfinite(scale)
    codes = x.to(torch.float32) / scale.masked_fill(bad | (scale == 0), 1).unsqueeze(-1)
    codes = codes.masked_fill(bad.unsqueeze(-1), 0)
    if cache_dtype == "int8":
        codes.round_()
    return codes.to(CODE_TYPE[cache_dtype]), scale.masked_fill(bad, float("inf"))


def decode(codes, scale):
    return torch.mul(codes.float(), scale.unsqueeze(-1))
