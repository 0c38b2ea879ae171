# Wrong: an empty part's output is multiplied by 0, and 0 times NaN is NaN.

import torch

from minipaged.attention.triton.decode import decode  # noqa: F401


def merge_states(out_a, lse_a, out_b, lse_b):
    highest = torch.maximum(lse_a, lse_b)
    highest = torch.where(highest == float("-inf"), 0, highest)
    weight_a, weight_b = (lse_a - highest).exp(), (lse_b - highest).exp()
    total = weight_a + weight_b
    weighted = weight_a[..., None] * out_a + weight_b[..., None] * out_b
    return weighted / torch.where(total > 0, total, 1)[..., None], highest + total.log()
