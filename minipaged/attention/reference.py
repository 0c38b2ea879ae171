"""Attention through a block table, as the textbook has it: one query, one block after another, in plain loops.

Slow, and meant to be read aloud. It never gathers a sequence's keys into one tensor: it walks over the blocks and keeps
a running maximum, a running sum and a running output (the online softmax), so the scores of all keys never stand side
by side. attention/batched.py computes the same sum fast. Lesson 05 builds it.
"""

from itertools import pairwise
from typing import NamedTuple

import torch

from minipaged.attention.kv_codec import CODES, decode


class Step(NamedTuple):
    """Where one query stands after it has read one more block. Every quantity is per query head.

    With s the scores seen so far: running_max = max(s), running_sum = sum(exp(s - running_max)), and weighted_sum is
    that sum with each term times the value of its key.
    """

    logical_block: int
    block_id: int
    positions: range  # the keys read in this block
    scores: torch.Tensor  # [num_heads, len(positions)]
    running_max: torch.Tensor  # [num_heads]
    running_sum: torch.Tensor  # [num_heads]
    weighted_sum: torch.Tensor  # [num_heads, head_dim]

    @property
    def output(self):
        """Attention over the keys read so far: [num_heads, head_dim]. After the last block it is the answer."""
        return self.weighted_sum / self.running_sum[:, None]

    @property
    def log_sum_exp(self):
        """log(sum(exp(scores))) over the keys read so far, natural logarithm: [num_heads]."""
        return self.running_max + self.running_sum.log()


def attention_steps(q, k_cache, v_cache, block_table, num_keys, scale, k_scale=None, v_scale=None):
    """One query over the first num_keys positions of one sequence. Yields a Step after each block.

    q: [num_heads, head_dim]. k_cache, v_cache: [num_blocks, block_size, num_kv_heads, head_dim].
    block_table: the sequence's physical block ids, logical order; never looked at past ceil(num_keys / block_size).
    k_scale, v_scale: what the cache's codes are multiplied by, as kv_codec has it; None where it holds the numbers
    themselves. Query head h reads KV head h // (num_heads // num_kv_heads). Raises ValueError for a block that isn't in
    the cache.
    """
    num_blocks, block_size, num_kv_heads, _ = k_cache.shape
    heads_per_kv_head = len(q) // num_kv_heads
    kv_head = torch.arange(len(q), device=q.device) // heads_per_kv_head  # [num_heads]: the KV head that each reads
    dtype = q.dtype if q.dtype in (torch.float32, torch.float64) else torch.float32
    q = q.to(dtype)
    running_max = torch.full_like(q[:, 0], float("-inf"))
    running_sum = torch.zeros_like(q[:, 0])
    weighted_sum = torch.zeros_like(q)

    for logical_block, start in enumerate(range(0, num_keys, block_size)):
        positions = range(start, min(start + block_size, num_keys))
        block_id = int(block_table[logical_block])
        if not 0 <= block_id < num_blocks:
            raise ValueError(f"block {block_id} is not in this cache: ids run from 0 to {num_blocks - 1}")
        # Only the slots in use are read: a masked NaN would still spread, because 0 times NaN is NaN.
        used = block_id, slice(len(positions))
        keys = decode(k_cache[used], None if k_scale is None else k_scale[used])
        values = decode(v_cache[used], None if v_scale is None else v_scale[used])
        keys, values = (x.transpose(0, 1)[kv_head].to(dtype) for x in (keys, values))

        scores = scale * (q[:, None] * keys).sum(-1)  # keys, values: [num_heads, len(positions), head_dim]
        new_max = torch.maximum(running_max, scores.amax(-1))
        correction = (running_max - new_max).exp()  # what was summed so far was relative to the old maximum
        weights = (scores - new_max[:, None]).exp()
        running_sum = running_sum * correction + weights.sum(-1)
        weighted_sum = weighted_sum * correction[:, None] + (weights[:, :, None] * values).sum(1)
        running_max = new_max
        yield Step(logical_block, block_id, positions, scores, running_max, running_sum, weighted_sum)


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale, *, k_scale=None, v_scale=None):
    """One query over the first seq_len positions of one sequence: the last of attention_steps.

    q: [num_heads, head_dim]. k_cache, v_cache: [num_blocks, block_size, num_kv_heads, head_dim]. block_table: physical
    block ids, logical order; entries past ceil(seq_len / block_size) may hold anything. k_scale, v_scale: as in
    attention_steps. Returns [num_heads, head_dim]; zeros if seq_len is 0. Halves are summed in float32. Raises
    ValueError for a block that isn't in the cache. (Paper: equation 4. The online softmax: Milakov and Gimelshein,
    2018.)
    """
    steps = list(attention_steps(q, k_cache, v_cache, block_table, seq_len, scale, k_scale, v_scale))
    return steps[-1].output.to(q.dtype) if steps else torch.zeros_like(q)


def paged_attention(
    q,
    k_cache,
    v_cache,
    block_tables,
    seq_lens,
    query_start_loc,
    scale,
    k_scale=None,
    v_scale=None,
    attend_one=attend_one,
):
    """Causal attention of a flat batch of queries, each over its own sequence's cached keys.

    q: [num_query_tokens, num_heads, head_dim], the sequences' queries one after the other.
    k_cache, v_cache: [num_blocks, block_size, num_kv_heads, head_dim]; the queries' own K and V are in it already.
    block_tables: [num_seqs, max_blocks] int32; entries past ceil(seq_len / block_size) may hold anything.
    seq_lens: [num_seqs] int32, keys visible to the sequence's last query.
    query_start_loc: [num_seqs + 1] int32, prefix sums: where each sequence's queries begin in q.
    k_scale, v_scale: [num_blocks, block_size, num_kv_heads] float32, where the cache holds codes (kv_codec); else None.
    Returns [num_query_tokens, num_heads, head_dim]; zeros where there is no key to see. Halves are summed in float32.

    A sequence's queries are its last positions: of n keys and c queries, query j sees keys 0 .. n - c + j. Raises
    ValueError where sizes don't fit or a table names a block that isn't in the cache. (Paper: section 4.1, equation
    4. vLLM: v1/attention/backends/flash_attn.py, whose metadata has these names.)

    attend_one: what computes one row; any function of its arguments, without scales where there are none.
    """
    check_arguments(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, k_scale, v_scale)
    scales = {} if k_scale is None else {"k_scale": k_scale, "v_scale": v_scale}
    out = torch.zeros_like(q)
    starts = query_start_loc.tolist()
    for sequence, seq_len in enumerate(seq_lens.tolist()):
        start, stop = starts[sequence], starts[sequence + 1]
        for row in range(start, stop):
            num_keys = max(0, seq_len - (stop - 1 - row))  # the last query sees all, each one before it one fewer
            out[row] = attend_one(q[row], k_cache, v_cache, block_tables[sequence], num_keys, scale, **scales)
    return out


class ReferenceAttention:
    """The textbook as a backend of the model: plan once a step, then run once a layer.

    attend_one: as for paged_attention.
    """

    def __init__(self, attend_one=attend_one):
        self._attend_one = attend_one

    def plan(self, block_tables, seq_lens, query_start_loc):
        """Returns run(q, k_cache, v_cache, scale, k_scale=None, v_scale=None) -> out, shapes as in paged_attention.
        Nothing is worth preparing."""

        def run(q, k_cache, v_cache, scale, k_scale=None, v_scale=None):
            tables = block_tables, seq_lens, query_start_loc
            return paged_attention(q, k_cache, v_cache, *tables, scale, k_scale, v_scale, self._attend_one)

        return run


def check_arguments(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, k_scale=None, v_scale=None):
    """Raises ValueError, with the values, if arguments of paged_attention don't fit each other."""
    if k_cache.shape != v_cache.shape:
        raise ValueError(f"k_cache {tuple(k_cache.shape)} and v_cache {tuple(v_cache.shape)} must have the same shape")
    _, block_size, num_kv_heads, head_dim = k_cache.shape
    _, num_heads, query_dim = q.shape
    if query_dim != head_dim or num_heads % num_kv_heads:
        raise ValueError(
            f"{num_heads} query heads of {query_dim} on {num_kv_heads} KV heads of {head_dim}: the sizes must be equal "
            "and the number of query heads a multiple of the number of KV heads"
        )
    check_stored(q, k_cache, v_cache, k_scale, v_scale)
    lengths, starts = seq_lens.tolist(), query_start_loc.tolist()
    if not len(block_tables) == len(lengths) == len(starts) - 1:
        raise ValueError(
            f"{len(block_tables)} block tables, {len(lengths)} seq_lens and {len(starts)} query_start_loc: "
            "must be as many tables as lengths, and one start more"
        )
    counts = [stop - start for start, stop in pairwise(starts)]
    if starts[0] != 0 or starts[-1] != len(q) or min(counts, default=0) < 0:
        raise ValueError(f"query_start_loc {starts}: must rise from 0 to the number of queries, {len(q)}")
    for count, length in zip(counts, lengths):
        if length < 0 or 0 < length < count:
            raise ValueError(f"a sequence of {length} keys has {count} queries: a query's own key must be among them")
    slots = block_tables.shape[1] * block_size
    if max(lengths, default=0) > slots:
        raise ValueError(f"seq_lens up to {max(lengths)}, but block_tables reach only over {slots} positions")


def check_stored(q, k_cache, v_cache, k_scale, v_scale):
    """Raises ValueError, with the values, unless a cache holds floating point numbers, or codes with their scales."""
    if k_cache.dtype != v_cache.dtype or k_cache.dtype.itemsize > q.dtype.itemsize:
        given = f"q is {q.dtype}, k_cache {k_cache.dtype}, v_cache {v_cache.dtype}"
        raise ValueError(f"{given}: the two caches must be of the same type, and no wider than q")
    if k_cache.dtype.itemsize > 1 and k_cache.is_floating_point():
        if k_scale is not None or v_scale is not None:
            raise ValueError(f"k_scale and v_scale for a cache of {k_cache.dtype}: only codes of a byte have scales")
        return
    if k_cache.dtype not in CODES:
        raise ValueError(f"the caches are {k_cache.dtype}: codes must be one of {', '.join(map(str, CODES))}")
    for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
        given = None if scale is None else (tuple(scale.shape), scale.dtype)
        if given != (tuple(k_cache.shape[:-1]), torch.float32):
            told = "None" if scale is None else f"{given[0]} {given[1]}"
            expected = f"{tuple(k_cache.shape[:-1])} torch.float32"
            raise ValueError(f"{name} is {told}: a cache of {k_cache.dtype} needs one scale a head, {expected}")
