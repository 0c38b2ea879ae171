# Wrong: two parts count alike, however many keys they have.

import torch

from minipaged.attention.triton.decode import decode  # noqa: F401


def merge_states(out_a, lse_a, out_b, lse_b):
    none_a, none_b = (lse[..., None] == float("-inf") for lse in (lse_a, lse_b))
    mean = (out_a + out_b) / 2
    out = torch.where(none_a, torch.where(none_b, 0, out_b), torch.where(none_b, out_a, mean))
    return out, torch.logaddexp(lse_a, lse_b)
