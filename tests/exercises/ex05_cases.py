"""For the checks of exercise 05: calls with their answers, worked out by hand in float64."""

import math
from random import Random

NAN = math.nan
# (block_size, seq_len): around the ends of blocks, and longer.
SIZES = [(b, n) for b in (1, 3, 4, 16) for n in sorted({1, b - 1, b, b + 1, 2 * b, 2 * b + 1, 19} - {0})]


class Case:
    """One call: a sequence's keys in a pool of blocks where every slot that must not be read holds `unread`.

    blocks: where they lie; left out, blocks are drawn. offsets: what is added to the scores of each logical block.
    """

    def __init__(
        self, seq_len, heads=(4, 2), head_dim=16, block_size=4, scale=0.25, blocks=(), offsets=(), unread=9, bits=64
    ):
        import torch

        random, dtype = torch.Generator().manual_seed(seq_len), getattr(torch, f"float{bits}")
        num_blocks = -(-seq_len // block_size)
        self.blocks = list(blocks) or Random(seq_len).sample(range(num_blocks + 3), num_blocks)
        q = torch.randn(heads[0], head_dim, generator=random, dtype=torch.float64)
        keys, values = torch.randn(2, seq_len, heads[1], head_dim, generator=random, dtype=torch.float64)
        q[:, 0] = 1  # so that channel 0 of a key adds to its score with every query head
        for logical, offset in enumerate(offsets):
            keys[logical * block_size : (logical + 1) * block_size, :, 0] += offset / scale
        self.q, self.keys, self.values = (x.to(dtype) for x in (q, keys, values))
        shape = max(self.blocks, default=0) + 3, block_size, heads[1], head_dim
        self.k_cache, self.v_cache = (torch.full(shape, unread, dtype=dtype) for _ in range(2))
        self.seq_len, self.scale = seq_len, scale
        self.store()

    def store(self, padding=(-1, -1)):
        """Put the keys and values into their slots, pad the table, and solve it."""
        import torch

        for cache, tokens in ((self.k_cache, self.keys), (self.v_cache, self.values)):
            for block, chunk in zip(self.blocks, tokens.split(cache.shape[1])):
                cache[block, : len(chunk)] = chunk
        self.block_table = torch.tensor([*self.blocks, *padding], dtype=torch.int32)
        return self.solve()

    def solve(self):
        """The answer by hand: each head's keys in one tensor, and torch's softmax in float64."""
        import torch

        self.expected, self.largest_score = torch.zeros(self.q.shape, dtype=torch.float64), 0.0
        heads_per_kv_head = len(self.q) // self.keys.shape[1]
        for head in range(len(self.q) if self.seq_len else 0):
            keys, values = (x[: self.seq_len, head // heads_per_kv_head].double() for x in (self.keys, self.values))
            scores = self.scale * (keys @ self.q[head].double())
            self.expected[head] = scores.softmax(0) @ values
            self.largest_score = max(self.largest_score, scores.abs().max().item())
        return self

    @property
    def arguments(self):
        return self.q, self.k_cache, self.v_cache, self.block_table, self.seq_len, self.scale

    def __str__(self):
        (num_heads, head_dim), (_, block_size, num_kv_heads, _) = self.q.shape, self.k_cache.shape
        table = ", ".join(map(str, self.block_table.tolist()[:6])) + ", ..." * (len(self.block_table) > 6)
        pairs = (num_heads, "query head"), (num_kv_heads, "KV head")
        heads = " on ".join(f"{number} {noun}" + "s" * (number != 1) for number, noun in pairs)
        sizes = f"{heads} of {head_dim}, block_size {block_size}, block_table [{table}], seq_len {self.seq_len}"
        return f"attend_one({sizes}, scale {self.scale:g}, {self.q.dtype})"


def attend(impl, case):
    """Call attend_one -> its answer, a tensor of the right kind; nothing that was given has changed."""
    import torch

    before = {name: getattr(case, name).clone() for name in ("q", "k_cache", "v_cache", "block_table")}
    out = impl.attend_one(*case.arguments)
    for name, old in before.items():
        new = getattr(case, name)
        is_same = ((new == old) | ((new != new) & (old != old))).all()
        assert is_same, f"{case} changed {name}: it must only read what it is given"
    assert isinstance(out, torch.Tensor), f"{case} gave {out!r:.40} ({type(out).__name__}): expected a tensor"
    assert out.shape == case.q.shape, f"{case} gave a tensor {list(out.shape)}: expected {list(case.q.shape)}"
    assert out.dtype == case.q.dtype, f"{case} gave {out.dtype}: expected q's dtype, {case.q.dtype}"
    return out


def check(impl, case, why):
    """Call attend_one and compare with the answer. why: what the learner should think of if it isn't that."""
    out = attend(impl, case).double()
    error = (out - case.expected).abs()
    if (error <= rounding(case)).all() or (error <= ten_times_the_error(case)).all():  # NaN is not
        return
    head, channel = divmod(error.nan_to_num(math.inf, math.inf).argmax().item(), case.q.shape[1])
    got, expected = out[head, channel].item(), case.expected[head, channel].item()
    if math.isclose(got, expected, rel_tol=1e-3):
        why = f"It is {abs(got - expected):.1g} away, which is less exact than {case.q.dtype} has to be"
    where = f"for query head {head}, channel {channel}: expected {expected:.4g}"
    raise AssertionError(f"{case} gave {got:.4g} {where}. {why}")


def rounding(case):
    """What a few roundings of the scores may change in the answer."""
    import torch

    largest_value = case.values.abs().max().item() if len(case.values) else 0.0
    return 10 * torch.finfo(case.q.dtype).eps * max(1.0, case.largest_score) * largest_value


def ten_times_the_error(case):
    """Of minipaged's own attention."""
    from minipaged.attention.reference import attend_one

    return 10 * (attend_one(*case.arguments).double() - case.expected).abs().max().item()
