"""Batches for Triton's kernels. Whatever must not be read is NaN or infinite; whatever must not be looked up is a block
that isn't there.

Imported by tests inside their functions, since it needs torch.
"""

import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from test_attention import NO_BLOCK, dense_attention

from minipaged.attention.kv_codec import encode, stored

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Ten times the largest error that was seen in float32, on a CPU and with numbers of size 1: 8.4e-7.
TOLERANCE = 8.4e-6
# What storing a number as such changes, as a part of it: half a step. Triton's interpreter stores a bfloat16 by cutting
# the number off, and so is a whole step away.
STORING = {torch.float32: 0.0, torch.float16: 2**-11, torch.bfloat16: 2**-8 if DEVICE == "cuda" else 2**-7}


@dataclass
class KernelCase:
    """The arguments of paged_attention, what must come out, and what must not change."""

    arguments: dict
    expected: torch.Tensor  # float64, from the very numbers that the kernel gets
    lse: torch.Tensor  # [num_query_tokens, num_heads] float64: log(sum(exp(scores)))
    pools: list  # K and V with a guard block before and one behind

    def decode_arguments(self):
        return {name: value for name, value in self.arguments.items() if name != "query_start_loc"}

    def check(self, out):
        assert out.shape == self.expected.shape and out.dtype == self.arguments["q"].dtype
        error = (out.double() - self.expected).abs()
        allowed = TOLERANCE + STORING[out.dtype] * self.expected.abs()
        if out.dtype != torch.float32 and DEVICE == "cuda":  # weights are rounded to TF32 before they meet V
            allowed += 2**-10
        assert (error <= allowed).all(), f"{error.max()} away from dense attention"  # NaN is not below anything

    def check_lse(self, lse):
        assert lse.dtype == torch.float32
        empty = self.lse == float("-inf")
        assert torch.equal(lse == float("-inf"), empty)
        assert (lse.double() - self.lse)[~empty].abs().max() <= TOLERANCE


def kernel_case(
    lengths,
    num_queries=None,
    heads=(4, 2),
    head_dim=16,
    block_size=4,
    dtype="float32",
    seed=0,
    place_seed=0,
    scale=None,
    cache_dtype=None,
):
    """Sequences of `lengths` keys, the last num_queries[i] of which are queries (default: one each).

    place_seed decides which blocks they take, seed the numbers. No stride is what the shape suggests: there is room
    between the heads of K, the heads of V come before its slots, tables and queries are parts of wider tensors.
    cache_dtype: how they are stored, if not as they are:
    then `expected` is of what is left of them.
    """
    dtype, (num_heads, num_kv_heads) = getattr(torch, dtype), heads
    num_queries = num_queries or [1] * len(lengths)
    scale = head_dim**-0.5 if scale is None else scale
    numbers, places = torch.Generator().manual_seed(seed), random.Random(place_seed)

    def normal(*shape):
        return torch.randn(*shape, generator=numbers).to(dtype)

    needed = [-(-length // block_size) for length in lengths]
    num_blocks = sum(needed) + 3
    order = places.sample(range(num_blocks), num_blocks)
    poison = torch.tensor([float("nan"), float("inf"), float("-inf")])
    shapes = (block_size, num_kv_heads, head_dim + 3), (num_kv_heads, block_size, head_dim + 5)
    stale = torch.Generator().manual_seed(place_seed)
    wholes = [poison[torch.randint(3, (num_blocks + 2, *shape), generator=stale)].to(dtype) for shape in shapes]
    pools = pools_in(*wholes, head_dim)
    k_cache, v_cache = (pool[1:-1] for pool in pools)
    wide = torch.tensor([[places.choice(NO_BLOCK) for _ in range(max(needed) + 5)] for _ in lengths])
    tables = wide[:, : max(needed) + 2]
    queries, expected, lse = [], [], []
    for i, (length, count) in enumerate(zip(lengths, num_queries)):
        mine = [order.pop() for _ in range(needed[i])]
        tables[i, : len(mine)] = torch.tensor(mine, dtype=torch.long)
        k, v, q = normal(length, num_kv_heads, head_dim), normal(length, num_kv_heads, head_dim), None
        for position in range(length):
            block, offset = mine[position // block_size], position % block_size
            k_cache[block, offset], v_cache[block, offset] = k[position], v[position]
        if cache_dtype:
            k, v = stored(k, cache_dtype), stored(v, cache_dtype)
        q = normal(count, num_heads, head_dim)
        queries.append(q)
        expected.append(dense_attention(q.double(), k.double(), v.double(), scale))
        lse.append(log_sum_exp(q.double(), k.double(), scale))
    starts = [sum(num_queries[:i]) for i in range(len(num_queries) + 1)]
    pools = pools_in(*(whole.to(DEVICE) for whole in wholes), head_dim)
    around = F.pad(torch.cat(queries), (0, 3, 0, 1), value=float("nan")).to(DEVICE)  # q with room between its heads
    arguments = {
        "q": around[:, :num_heads, :head_dim],
        "k_cache": pools[0][1:-1],
        "v_cache": pools[1][1:-1],
        "block_tables": wide.to(DEVICE, torch.int32)[:, : tables.shape[1]],
        "seq_lens": torch.tensor(lengths, dtype=torch.int32, device=DEVICE),
        "query_start_loc": torch.tensor(starts, dtype=torch.int32, device=DEVICE),
        "scale": scale,
    }
    if cache_dtype:
        arguments |= narrow(*pools, cache_dtype)
    return KernelCase(arguments, torch.cat(expected).to(DEVICE), torch.cat(lse).to(DEVICE), pools)


def pools_in(k_whole, v_whole, head_dim):
    """K and V, [num_blocks + 2, block_size, num_kv_heads, head_dim], as they lie in the larger tensors."""
    return [k_whole[..., :head_dim], v_whole[..., :head_dim].transpose(1, 2)]


def narrow(k_pool, v_pool, cache_dtype):
    """The pools' numbers as a cache of this type holds them, without the guards: arguments of paged_attention.

    Codes and scales of K lie with room between the blocks and between the heads; those of V otherwise again.
    """
    names, encoded = ("k", "v"), [encode(pool, cache_dtype) for pool in (k_pool, v_pool)]
    made = {}
    for i, (name, (codes, scales)) in enumerate(zip(names, encoded)):
        order = (0, 1, 2, 3) if i == 0 else (0, 2, 1, 3)  # heads before slots, in V
        padded = F.pad(codes.permute(order).float(), (0, 3 + i)).to(codes.dtype)
        made[f"{name}_cache"] = padded[1:-1, ..., : codes.shape[-1]].permute(order)
        if scales is not None:
            padded = F.pad(scales.permute(order[:3]), (0, 1, 0, 2 + i), value=float("nan"))
            made[f"{name}_scale"] = padded[1:-1, : -2 - i, :-1].permute(order[:3])
    return made


def log_sum_exp(q, k, scale):
    """[c, num_heads]: of query j's scores with the keys that it sees."""
    num_keys, count = len(k), len(q)
    if num_keys == 0:
        return torch.full(q.shape[:2], float("-inf"), dtype=q.dtype)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = scale * torch.einsum("chd,nhd->chn", q, k)
    visible = torch.arange(num_keys) <= torch.arange(num_keys - count, num_keys)[:, None]
    return scores.masked_fill(~visible[:, None], float("-inf")).logsumexp(-1)
