# Wrong: the weights are exp(lse), infinite for a large one.

import torch

from minipaged.attention.triton.decode import decode  # noqa: F401


def merge_states(out_a, lse_a, out_b, lse_b):
    weight_a, weight_b = lse_a.exp(), lse_b.exp()
    out_a, out_b = torch.where(weight_a[..., None] > 0, out_a, 0), torch.where(weight_b[..., None] > 0, out_b, 0)
    total = weight_a + weight_b
    weighted = weight_a[..., None] * out_a + weight_b[..., None] * out_b
    return weighted / torch.where(total > 0, total, 1)[..., None], total.log()
