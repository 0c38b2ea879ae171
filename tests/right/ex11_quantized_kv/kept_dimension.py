# Right: the scale keeps a dimension of 1 until the end; a reciprocal in the place of the division.

import torch

LARGEST = {"int8": 127, "fp8": 448}
CODE_TYPE = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


def encode(x, cache_dtype="int8"):
    x = x.float()
    amax = x.abs().amax(dim=-1, keepdim=True)
    scale = amax * (1.0 / LARGEST[cache_dtype])
    scale = torch.where(torch.isinf(scale), torch.full_like(scale, float("nan")), scale)
    inverse = torch.where(scale > 0, scale.reciprocal(), torch.zeros_like(scale))
    codes = torch.nan_to_num(x * inverse, nan=0.0, posinf=0.0, neginf=0.0)
    if cache_dtype == "int8":
        codes = torch.round(codes)
    limit = float(LARGEST[cache_dtype])
    return codes.clamp(-limit, limit).to(CODE_TYPE[cache_dtype]), scale.squeeze(-1)


def decode(codes, scale):
    return codes.to(torch.float32) * scale[..., None]
