# Right: a loop over heads in plain Python; decode in a loop too.

import torch

LARGEST = {"int8": 127, "fp8": 448}
CODE_TYPE = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


def encode(x, cache_dtype="int8"):
    codes = torch.zeros(x.shape, dtype=torch.float32)
    scale = torch.zeros(x.shape[:-1], dtype=torch.float32)
    rows, scales = codes.view(-1, x.shape[-1]), scale.view(-1)
    for number, head in enumerate(x.float().reshape(-1, x.shape[-1])):
        if not head.isfinite().all():
            scales[number] = float("nan")
        elif head.any():
            step = max(head.max().item(), -head.min().item()) / LARGEST[cache_dtype]
            scales[number] = step
            rows[number] = torch.tensor([each / step for each in head.tolist()])
    if cache_dtype == "int8":
        codes = codes.round()
    return codes.to(CODE_TYPE[cache_dtype]), scale


def decode(codes, scale):
    if not codes.numel():
        return codes.float()
    rows = [row.float() * step for row, step in zip(codes.reshape(-1, codes.shape[-1]), scale.reshape(-1))]
    return torch.stack(rows).reshape(codes.shape)
