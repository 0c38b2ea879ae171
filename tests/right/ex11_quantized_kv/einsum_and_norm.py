# Right: the largest |x| is the norm of order infinity; decode is an einsum; fp8 and int8 apart.

import torch

LARGEST = {"int8": 127, "fp8": 448}
CODE_TYPE = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


def encode(x, cache_dtype="int8"):
    return as_int8(x.float()) if cache_dtype == "int8" else as_fp8(x.float())


def as_int8(x):
    scale = spread(x, 127)
    codes = (x / safe(scale)).add(0.5).floor()  # a half goes up
    return codes.nan_to_num(0).clamp(min=-127, max=127).to(torch.int8), scale


def as_fp8(x):
    scale = spread(x, 448)
    return (x / safe(scale)).clip(-448, 448).to(torch.float8_e4m3fn), scale


def spread(x, largest):
    scale = torch.linalg.vector_norm(x, ord=float("inf"), dim=-1) / largest
    return scale.masked_fill(~x.isfinite().all(-1), float("nan"))


def safe(scale):
    return torch.where(scale == 0, 1, scale).unsqueeze(-1)


def decode(codes, scale):
    return torch.einsum("...d,...->...d", codes.float(), scale)
