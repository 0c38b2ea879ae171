"""Prefill: chunks of prompts and decodes in one batch, each query over the keys up to its own position.

One program serves some neighbouring queries of one sequence and one KV head. Each query has a row for every query head
that reads it, so that a tile of K and V is loaded once for all of them. Here a sequence has 6 keys in the cache
already and 5 queries behind them; there are two queries to a program and a tile holds 4 keys:

    keys                 0  1  2  3 | 4  5  6  7 | 8  9 10
    program, queries 6, 7  tile 0     tile 1                  query 6 doesn't see key 7: masked
    program, queries 8, 9  tile 0     tile 1       tile 2     query 8 doesn't see key 9; key 10 is not read
    program, query 10      tile 0     tile 1       tile 2

The programs of all sequences stand in one list (geometry.query_tiles), so that a batch of one long prompt and many
decodes has no idle ones.
"""

import torch

from minipaged.attention.triton import geometry
from minipaged.attention.triton.checks import check_attention
from minipaged.attention.triton.loader import load
from minipaged.attention.triton.tile import add_tile, kind_of, locate, raw, read, read_scale, strides

triton, tl = load()


@triton.jit
def prefill_kernel(
    q_ptr, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, out_ptr,
    tiles_ptr, tables_ptr, seq_lens_ptr, query_start_loc_ptr, scale,
    q_stride_row, q_stride_head, k_stride_block, k_stride_slot, k_stride_head, v_stride_block, v_stride_slot,
    v_stride_head, k_scale_stride_block, k_scale_stride_slot, k_scale_stride_head, v_scale_stride_block,
    v_scale_stride_slot, v_scale_stride_head, out_stride_row, out_stride_head, table_stride,
    ROWS: tl.constexpr, QUERIES: tl.constexpr, BLOCK_SIZE: tl.constexpr, GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention of QUERIES queries of one sequence, and of all query heads that read one KV head."""
    tile, kv_head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    sequence, first_query = tl.load(tiles_ptr + 2 * tile), tl.load(tiles_ptr + 2 * tile + 1)
    seq_len, first_row = tl.load(seq_lens_ptr + sequence), tl.load(query_start_loc_ptr + sequence)
    num_queries = tl.load(query_start_loc_ptr + sequence + 1) - first_row
    num_cached = seq_len - num_queries  # the queries are the sequence's last positions

    rows, dims = tl.arange(0, ROWS), tl.arange(0, PADDED_DIM)
    queries, heads = first_query + rows // GROUP, kv_head * GROUP + rows % GROUP
    in_use = ((rows < QUERIES * GROUP) & (queries < num_queries))[:, None] & (dims < HEAD_DIM)[None, :]
    q_rows = (first_row + queries).to(tl.int64)
    q_offsets = q_rows[:, None] * q_stride_row + heads[:, None] * q_stride_head + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=in_use, other=0.0).to(tl.float32)

    running_max = tl.full([ROWS], float("-inf"), tl.float32)
    running_sum = tl.zeros([ROWS], tl.float32)
    weighted_sum = tl.zeros([ROWS, PADDED_DIM], tl.float32)
    table_ptr = tables_ptr + sequence.to(tl.int64) * table_stride
    k_ptr, v_ptr = k_ptr + kv_head * k_stride_head, v_ptr + kv_head * v_stride_head
    stop = tl.minimum(seq_len, num_cached + first_query + QUERIES)  # what the last of these queries sees
    for start in range(0, stop, TILE):
        positions = start + tl.arange(0, TILE)
        in_sequence = positions < stop
        block_ids, in_block = locate(table_ptr, positions, in_sequence, BLOCK_SIZE)
        k = read(k_ptr, block_ids, in_block, in_sequence, k_stride_block, k_stride_slot, HEAD_DIM, PADDED_DIM)
        v = read(v_ptr, block_ids, in_block, in_sequence, v_stride_block, v_stride_slot, HEAD_DIM, PADDED_DIM)
        visible = in_sequence[None, :] & (positions[None, :] <= (num_cached + queries)[:, None])
        k_scale = read_scale(
            k_scale_ptr, kv_head, block_ids, in_block, in_sequence,
            k_scale_stride_block, k_scale_stride_slot, k_scale_stride_head,
        )  # fmt: skip
        v_scale = read_scale(
            v_scale_ptr, kv_head, block_ids, in_block, in_sequence,
            v_scale_stride_block, v_scale_stride_slot, v_scale_stride_head,
        )  # fmt: skip
        running_max, running_sum, weighted_sum = add_tile(
            q, k, v, k_scale, v_scale, visible, scale, running_max, running_sum, weighted_sum, PRECISION
        )

    total = tl.where(running_sum == 0, 1.0, running_sum)  # no keys: zeros
    out_offsets = q_rows[:, None] * out_stride_row + heads[:, None] * out_stride_head + dims[None, :]
    tl.store(out_ptr + out_offsets, (weighted_sum / total[:, None]).to(out_ptr.dtype.element_ty), mask=in_use)


def prefill(
    q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, scale, k_scale=None, v_scale=None, *, tile_size=None
):
    """Causal attention of a flat batch of queries. Arguments and result are those of reference.paged_attention.

    tile_size: a power of two from 16 on. Raises ValueError for arguments that don't fit.
    """
    check_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, k_scale, v_scale)
    geometry.check_tile_size(tile_size)
    tiles = tiles_of(q, k_cache, query_start_loc)
    tables = block_tables, seq_lens, query_start_loc
    return launch(q, k_cache, v_cache, tiles, *tables, scale, k_scale, v_scale, tile_size)


def tiles_of(q, k_cache, query_start_loc):
    """geometry.query_tiles as a tensor: [num_tiles, 2] int32, a sequence and its first query."""
    group = q.shape[1] // k_cache.shape[2]
    tiles = geometry.query_tiles(query_start_loc.tolist(), group, kind_of(q, k_cache))
    return torch.tensor(tiles, dtype=torch.int32, device=q.device).view(-1, 2)


def launch(
    q,
    k_cache,
    v_cache,
    tiles,
    block_tables,
    seq_lens,
    query_start_loc,
    scale,
    k_scale=None,
    v_scale=None,
    tile_size=None,
):
    """prefill, without the checks: once they are made, they hold for every layer of a step. tiles: of tiles_of."""
    _, num_heads, head_dim = q.shape
    _, block_size, num_kv_heads, _ = k_cache.shape
    out = q.new_empty(q.shape)
    if len(tiles) == 0:
        return out
    prefill_kernel[len(tiles), num_kv_heads](
        q, raw(k_cache), raw(v_cache), k_scale, v_scale, out, tiles, block_tables, seq_lens, query_start_loc, scale,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], *strides(k_scale), *strides(v_scale),
        *out.stride()[:2], block_tables.stride(0),
        **geometry.prefill_constants(num_heads, num_kv_heads, head_dim, block_size, kind_of(q, k_cache), tile_size),
    )  # fmt: skip
    return out
