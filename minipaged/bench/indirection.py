"""What the block table costs: attention through it beside attention over one contiguous slice for each sequence.

A decode step of a batch with equal lengths, one layer: K and V gathered by the table into one run and attended, and the
same K and V attended where they already lie in one run. The queries are folded alike, both use torch's own attention.
(The paper's kernel reads through the table while it attends, and took 20-26% longer than FasterTransformer's on slices:
section 7.1. Here everything is copied first.)
"""

import time

import torch
import torch.nn.functional as F

from minipaged.attention.batched import BatchedAttention
from minipaged.bench.measure import Spread, progress
from minipaged.model.weights import GPTConfig

BATCHES, CONTEXTS = (1, 8, 32), (128, 512)
CALLS = 20  # in a turn


def sides(batch, context, block_size, config):
    """(through tables, over slices): two functions without arguments that return the same output, [batch, num_heads,
    head_dim]. Blocks are scattered over the pool at random."""
    draw = torch.Generator().manual_seed(0)
    per_seq = -(-context // block_size)
    shape = (batch * per_seq, block_size, config.num_kv_heads, config.head_dim)
    k_cache, v_cache = (torch.randn(shape, generator=draw) for _ in range(2))
    q = torch.randn(batch, config.num_heads, config.head_dim, generator=draw)
    tables = torch.randperm(len(k_cache), generator=draw, dtype=torch.int32).view(batch, per_seq)
    lengths = torch.full((batch,), context, dtype=torch.int32)
    scale = config.head_dim**-0.5
    run = BatchedAttention().plan(tables, lengths, torch.arange(batch + 1, dtype=torch.int32))
    slices = [cache[tables.long()].flatten(1, 2)[:, :context].transpose(1, 2) for cache in (k_cache, v_cache)]
    folded = q.view(batch, config.num_kv_heads, -1, config.head_dim)
    return (
        lambda: run(q, k_cache, v_cache, scale),
        lambda: F.scaled_dot_product_attention(folded, *slices, scale=scale).flatten(1, 2),
    )


def timed(function):
    start = time.perf_counter()
    for _ in range(CALLS):
        function()
    return (time.perf_counter() - start) / CALLS


@torch.inference_mode()
def measure(block_size, runs=20):
    """A dict for each batch and context: microseconds of either side at the tiny GPT's sizes, and their ratio. The two
    take turns."""
    rows, config = [], GPTConfig()
    for batch in BATCHES:
        for context in CONTEXTS:
            progress(f"indirection: batch {batch}, context {context}")
            paged, contiguous = sides(batch, context, block_size, config)
            paged(), contiguous()
            times = [(timed(paged), timed(contiguous)) for _ in range(runs)]
            through, over = (Spread.of([1e6 * each for each in side])._asdict() for side in zip(*times))
            ratio = Spread.of([one / other for one, other in times])._asdict()
            about = {"batch": batch, "context": context, "block_size": block_size}
            rows.append({**about, "paged_us": through, "contiguous_us": over, "ratio": ratio})
    progress()
    return rows
