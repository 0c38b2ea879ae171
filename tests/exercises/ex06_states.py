"""For the checks of exercise 06: attention over parts of a set of keys, and over all of them, in float64."""

import math
from functools import reduce

EPS = 2**-52  # of float64


class Parts:
    """A query's scores and values for each of several sets of keys, for queries of any shape.

    counts: how many keys each set has. shifts: what is added to the scores of each. empty: what the output of a set
    without keys holds.
    """

    def __init__(self, counts, shape, head_dim=8, shifts=(), empty=0.0):
        import torch

        random = torch.Generator().manual_seed(sum(counts))
        self.scores = [2 * torch.randn(*shape, n, generator=random, dtype=torch.float64) for n in counts]
        for scores, shift in zip(self.scores, shifts):
            scores += shift
        self.values = [torch.randn(*shape, n, head_dim, generator=random, dtype=torch.float64) for n in counts]
        self.states = [self.attention([i]) for i in range(len(counts))]
        for n, (out, _) in zip(counts, self.states):
            if not n:
                out.fill_(empty)

    def attention(self, which):
        """(out, lse) over the sets with these numbers, by hand."""
        import torch

        scores, values = (torch.cat([x[i] for i in which], dim) for x, dim in ((self.scores, -1), (self.values, -2)))
        lse = scores.logsumexp(-1)
        weights = (scores - torch.where(lse == -math.inf, 0, lse)[..., None]).exp()
        return (weights[..., None] * values).sum(-2), lse

    def forget(self, part, query, number):
        """Make a set empty for one query (an index into the last dimension of the shape)."""
        self.scores[part][..., query, :] = -math.inf
        out, lse = self.states[part]
        out[..., query, :], lse[..., query] = number, -math.inf
        return self

    def in_order(self, order):
        """The same, the sets in another order."""
        for name in ("scores", "values", "states"):
            setattr(self, name, [getattr(self, name)[i] for i in order])
        return self

    def __str__(self):
        counts = " and ".join(str(scores.shape[-1]) for scores in self.scores)
        return f"merge_states of parts over {counts} keys, lse {list(self.states[0][1].shape)}"


def merge(impl, *states):
    """Call merge_states on two states -> (out, lse). Nothing that was given has changed."""
    import torch

    given = [each for state in states for each in state]
    before = [each.clone() for each in given]
    result = impl.merge_states(*given)
    assert isinstance(result, tuple) and len(result) == 2, f"merge_states gave {result!r:.40}: expected (out, lse)"
    for name, each, wanted in zip(("out", "lse"), result, given):
        assert isinstance(each, torch.Tensor), f"merge_states: {name} is {each!r:.40}: expected a tensor"
        shapes = f"{name} has the shape {list(each.shape)}: expected {list(wanted.shape)}"
        assert each.shape == wanted.shape, f"merge_states: {shapes}"
        assert each.dtype == wanted.dtype, f"merge_states of {wanted.dtype}: {name} is {each.dtype}"
    for name, old, new in zip(("out_a", "lse_a", "out_b", "lse_b"), before, given):
        is_same = ((new == old) | ((new != new) & (old != old))).all()
        assert is_same, f"merge_states changed {name}: it must only read what it is given"
    return result


def check_merge(impl, parts, why):
    """Merge all parts, one after another, and compare with attention over all their keys."""
    got = reduce(lambda state, other: merge(impl, state, other), parts.states)
    expected = parts.attention(range(len(parts.states)))
    largest = max(1.0, expected[1].masked_fill(expected[1] == -math.inf, 1).abs().max().item())
    compare(str(parts), got, expected, 20 * EPS * largest, why)


def merge_by_hand(impl, a, b, expected, why):
    """The same for plain numbers: each state is (out, lse)."""
    import torch

    states = [(torch.full((1, 2), out, dtype=torch.float64), torch.tensor([lse], dtype=torch.float64)) for out, lse in
              ((float(x), float(y)) for x, y in (a, b, expected))]  # fmt: skip
    told = ", ".join(f"({out:g}, {lse:.4g})" for out, lse in (a, b))
    compare(f"merge_states of {told}", merge(impl, *states[:2]), states[2], 40 * EPS, why)


def compare(called, got, expected, allowed, why):
    for name, found, right in zip(("out", "lse"), got, expected):
        error = (found - right).abs()
        error[found == right] = 0  # -inf, where that is right
        if not (error <= allowed).all():  # NaN is not
            worst = error.nan_to_num(math.inf, math.inf).argmax()
            numbers = f"{name} {found.flatten()[worst].item():.4g}: expected {right.flatten()[worst].item():.4g}"
            raise AssertionError(f"{called} gave {numbers}. {why}")
