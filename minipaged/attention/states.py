"""An attention state, (output, log-sum-exp), and the one rule that makes two of them one.

Attention over any part of a sequence's keys is such a pair. Merged, two parts give what attention over both together
would have given, so a long sequence can be read by several programs at once. Lesson 06 builds it.
"""

import torch


def merge_states(out_a, lse_a, out_b, lse_b):
    """Attention over two disjoint sets of keys -> attention over all of them: (out, lse).

    out: [..., head_dim]. lse: [...], log(sum(exp(scores))) of the same queries, natural logarithm. A set without keys
    has -inf there, and then its output is not looked at. The order of merging changes nothing but the rounding.
    (FlashInfer: merge_state; its log-sum-exp is to base 2.)
    """
    highest = torch.maximum(lse_a, lse_b)
    nothing = highest == float("-inf")  # neither has a key: -inf minus -inf would be NaN
    reference = highest.masked_fill(nothing, 0)
    weight_a, weight_b = (lse_a - reference).exp(), (lse_b - reference).exp()
    total = weight_a + weight_b
    # An empty part's output may be anything, NaN too, and 0 times NaN is NaN.
    out_a, out_b = (
        torch.where((weight > 0)[..., None], out * weight[..., None], 0)
        for out, weight in ((out_a, weight_a), (out_b, weight_b))
    )
    out = (out_a + out_b) / total.masked_fill(nothing, 1)[..., None]
    return out, (reference + total.log()).masked_fill(nothing, float("-inf"))
