# Wrong: codes from the smallest number to the largest, as if they were unsigned: 0 is not 0.

import torch

LARGEST = {"int8": 127, "fp8": 448}
CODE_TYPE = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


def encode(x, cache_dtype="int8"):
    largest = LARGEST[cache_dtype]
    low, high = (x.amin(-1).float(), x.amax(-1).float())
    scale = (high - low) / (2 * largest)
    scale = scale.where(scale.isfinite(), torch.nan)
    codes = (x.float() - low.unsqueeze(-1)) / scale.where(scale > 0, 1).unsqueeze(-1) - largest
    codes = codes.nan_to_num(0, 0, 0).clamp(-largest, largest)
    if cache_dtype == "int8":
        codes = codes.round()
    return codes.to(CODE_TYPE[cache_dtype]), scale


def decode(codes, scale):
    return codes.float() * scale.unsqueeze(-1)
