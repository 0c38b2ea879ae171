"""For the checks of exercise 06: batches of one query for each sequence, with the answer in float64."""

import math
from random import Random

from ex06_memory import layouts, memory

NAN = math.nan
EPS = 2**-23  # of float32


class Case:
    """Sequences of these lengths. Every slot that must not be read holds `unread`, in K, in V or in both.

    blocks: for each sequence, where its keys lie; left out, blocks are drawn. offsets: what is added to the scores of
    each run of `every` positions. padding: what a table holds past its end, and also behind that, where a careless load
    comes to; "far": a block far behind the cache.
    """

    def __init__(
        self, seq_lens, heads=(4, 2), head_dim=16, block_size=4, scale=0.25, blocks=(), offsets=(), every=16,
        unread=9, poison="kv", padding=(-1,), is_tight=False,
    ):  # fmt: skip
        import torch

        random = torch.Generator().manual_seed(sum(seq_lens))
        self.seq_lens, self.scale, self.block_size = list(seq_lens), scale, block_size
        needed = [-(-length // block_size) for length in seq_lens]
        drawn = Random(sum(seq_lens)).sample(range(sum(needed) + 3), sum(needed))
        self.blocks = list(blocks) or [[drawn.pop() for _ in range(count)] for count in needed]
        self.q = torch.randn(len(seq_lens), *(heads[0], head_dim), generator=random)
        self.q[:, :, 0] = 1  # so that channel 0 of a key adds to its score with every query head
        self.keys, self.values = (
            [torch.randn(length, heads[1], head_dim, generator=random) for length in seq_lens] for _ in "kv"
        )
        for keys in self.keys:
            for i, offset in enumerate(offsets):
                keys[i * every : (i + 1) * every, :, 0] += offset / scale
        self.layouts = layouts(block_size, heads[1], head_dim, is_tight)
        named = [block for row in self.blocks for block in row]
        self.first, self.num_blocks = min(named, default=0), max(named, default=0) + 3
        far = memory().reach // max(layout.strides[0] for layout in self.layouts) - 2
        self.far = far if far > self.num_blocks else self.num_blocks
        self.padding = [self.far if entry == "far" else entry for entry in padding]
        self.fill(unread, poison)
        self.store()

    def fill(self, unread, poison):
        """Put `unread` into the whole of K or V or both, between heads and slots too, and 1 into the other. Two blocks
        before the cache and some behind it get the same."""
        at = max(0, self.first - 2)
        for name, layout in zip("kv", self.layouts):
            number = unread if name in poison else 1
            for first, count in ((at - 2, self.num_blocks - at + 5), (self.far, 1)):
                layout.all_of(first, count).fill_(number)

    def store(self):
        """Put the keys and values into their slots, make the table, and solve it."""
        import torch

        for layout, sequences in zip(self.layouts, (self.keys, self.values)):
            for row, tokens in zip(self.blocks, sequences):
                for block, chunk in zip(row, tokens.split(self.block_size)):
                    layout.blocks(block, 1)[0, : len(chunk)] = chunk
        width = max(map(len, self.blocks)) + 2
        table = torch.tensor(self.padding, dtype=torch.int32).repeat(len(self.blocks), width + 256)
        for line, row in zip(table, self.blocks):
            line[: len(row)] = torch.tensor(row, dtype=torch.int32)
        device = memory().numbers.device
        beside = torch.stack([self.q, self.q + 1], dim=2).to(device)
        self.arguments = {
            "q": beside[:, :, 0],  # every other line of a larger tensor
            "k_cache": self.layouts[0].blocks(0, self.num_blocks),
            "v_cache": self.layouts[1].blocks(0, self.num_blocks),
            "block_tables": table.to(device)[:, :width],
            "seq_lens": torch.tensor(self.seq_lens, dtype=torch.int32, device=device),
        }
        return self.solve()

    def solve(self):
        """The answer by hand: each head's keys in one tensor, and torch's softmax in float64."""
        import torch

        group = self.q.shape[1] // self.layouts[0].shape[1]
        self.expected = torch.zeros(self.q.shape, dtype=torch.float64)
        self.lse = torch.full(self.q.shape[:2], -math.inf, dtype=torch.float64)
        self.largest_score = 0.0
        for i in [i for i, length in enumerate(self.seq_lens) if length]:
            keys, values = (x[i].double().repeat_interleave(group, dim=1) for x in (self.keys, self.values))
            scores = self.scale * torch.einsum("hd,nhd->hn", self.q[i].double(), keys)
            self.expected[i] = torch.einsum("hn,nhd->hd", scores.softmax(-1), values)
            self.lse[i] = scores.logsumexp(-1)
            self.largest_score = max(self.largest_score, scores.abs().max().item())
        return self

    def __str__(self):
        num_seqs, num_heads, head_dim = self.q.shape
        pairs = (num_heads, "query head"), (self.layouts[0].shape[1], "KV head")
        heads = " on ".join(f"{number} {noun}" + "s" * (number != 1) for number, noun in pairs) + f" of {head_dim}"
        lengths = ", ".join(map(str, self.seq_lens[:8])) + ", ..." * (num_seqs > 8)
        return f"decode({heads}, block_size {self.block_size}, seq_lens [{lengths}], scale {self.scale:g})"


def attend(impl, case):
    """Call decode -> (out, lse), tensors of the right kind; nothing that was given has changed."""
    import torch

    before = {name: each.clone() for name, each in case.arguments.items() if len(each) < 10**4}
    result = impl.decode(**case.arguments, scale=case.scale)
    is_pair = isinstance(result, tuple) and len(result) == 2
    assert is_pair, f"{case} gave {result!r:.40} ({type(result).__name__}): expected a tuple, (out, lse)"
    for name, old in before.items():
        is_same = ((new := case.arguments[name]) == old) | ((new != new) & (old != old))
        assert is_same.all(), f"{case} changed {name}: it must only read what it is given"
    for name, each, shape in zip(("out", "lse"), result, (case.q.shape, case.q.shape[:2])):
        assert isinstance(each, torch.Tensor), f"{case}: {name} is {each!r:.40}: expected a tensor"
        assert each.shape == shape, f"{case}: {name} has the shape {list(each.shape)}: expected {list(shape)}"
        assert each.dtype == torch.float32, f"{case}: {name} is {each.dtype}: expected torch.float32"
    return result


def check(impl, case, why):
    """Call decode and compare with the answer. why: what the learner should think of if it isn't that."""
    out, lse = (each.cpu().double() for each in attend(impl, case))
    largest_value = max((values.abs().max().item() for values in case.values if len(values)), default=0.0)
    exact = 10 * EPS * max(1.0, case.largest_score)  # what a few roundings of the scores may change
    differ((case, "out", case.expected), out, exact * max(1.0, largest_value), why)
    natural = "It is log(sum(exp(scores))) over the keys seen, with scores = scale * (q . k): natural logarithm"
    differ((case, "lse", case.lse), lse, exact, natural + ", and -inf where there is no key")


def differ(what, got, allowed, why):
    """Raise AssertionError, naming the worst place, if it is further away than allowed."""
    case, name, expected = what
    error = (got - expected).abs()
    error[got == expected] = 0  # -inf, where that is right
    if (error <= allowed).all():  # NaN is not
        return
    sequence, head, *channel = where(error)
    found, right = (each[(sequence, head, *channel)].item() for each in (got, expected))
    if math.isclose(found, right, rel_tol=1e-3):
        why = f"It is {abs(found - right):.1g} away, which is less exact than float32 has to be"
    elif name == "lse" and math.isclose(found * math.log(2), right, rel_tol=1e-5):
        why += f"; {found:.4g} is the logarithm to base 2"
    which = f"for sequence {sequence} (seq_len {case.seq_lens[sequence]}), query head {head}"
    which += f", channel {channel[0]}" if channel else ""
    raise AssertionError(f"{case} gave {name} {found:.4g} {which}: expected {right:.4g}. {why}")


def where(error):
    """The indices of the largest entry, NaN being the largest of all."""
    import torch

    flat = error.nan_to_num(math.inf, math.inf).argmax()
    return [index.item() for index in torch.unravel_index(flat, error.shape)]
