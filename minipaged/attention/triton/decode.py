"""Decode: one query for each sequence, over all of its keys. Where there are few sequences, several programs share one.

One program serves one sequence and one KV head, with all query heads that read it, so that K and V are loaded once.
With num_splits of 2 there are two such programs, each with its part of the keys, and a second kernel merges them:

    table of sequence s     [ 5 | 0 | 7 | 2 | 9 | -1 ]      seq_len 18, block_size 4
    program (s, kv head, 0)  '-------'                      tile 0: positions  0 .. 7
    program (s, kv head, 1)          '-------'  '..'        tiles 1 and 2: 8 .. 15, 16 .. 17
    merge   (s, head)        two states -> one              tile size 8

No program looks at the last entry. Lesson 06 builds the loop and the merge.
"""

import torch

from minipaged.attention.triton import geometry
from minipaged.attention.triton.checks import check_attention
from minipaged.attention.triton.loader import load
from minipaged.attention.triton.tile import add_tile, kind_of, locate, raw, read, read_scale, strides

triton, tl = load()


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, out_ptr, lse_ptr, tables_ptr, seq_lens_ptr, scale,
    q_stride_row, q_stride_head, k_stride_block, k_stride_slot, k_stride_head, v_stride_block, v_stride_slot,
    v_stride_head, k_scale_stride_block, k_scale_stride_slot, k_scale_stride_head, v_scale_stride_block,
    v_scale_stride_slot, v_scale_stride_head, out_stride_split, out_stride_row, out_stride_head, lse_stride_split,
    lse_stride_row, table_stride,
    NUM_SPLITS: tl.constexpr, BLOCK_SIZE: tl.constexpr, GROUP: tl.constexpr, PADDED_GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention of one sequence's query heads that read one KV head, over the keys of one split: a state."""
    sequence, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64), tl.program_id(2)
    seq_len = tl.load(seq_lens_ptr + sequence)
    # As geometry.split_range has it.
    positions_per_split = tl.cdiv(tl.cdiv(seq_len, TILE), NUM_SPLITS) * TILE
    first = split * positions_per_split
    stop = tl.minimum(first + positions_per_split, seq_len)  # not above first: an empty split

    group, dims = tl.arange(0, PADDED_GROUP), tl.arange(0, PADDED_DIM)
    heads = kv_head * GROUP + group
    in_use = (group < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    q_offsets = sequence * q_stride_row + heads[:, None] * q_stride_head + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=in_use, other=0.0).to(tl.float32)

    running_max = tl.full([PADDED_GROUP], float("-inf"), tl.float32)
    running_sum = tl.zeros([PADDED_GROUP], tl.float32)
    weighted_sum = tl.zeros([PADDED_GROUP, PADDED_DIM], tl.float32)
    table_ptr = tables_ptr + sequence * table_stride
    k_ptr, v_ptr = k_ptr + kv_head * k_stride_head, v_ptr + kv_head * v_stride_head
    for start in range(first, stop, TILE):
        positions = start + tl.arange(0, TILE)
        visible = positions < stop
        block_ids, in_block = locate(table_ptr, positions, visible, BLOCK_SIZE)
        k = read(k_ptr, block_ids, in_block, visible, k_stride_block, k_stride_slot, HEAD_DIM, PADDED_DIM)
        v = read(v_ptr, block_ids, in_block, visible, v_stride_block, v_stride_slot, HEAD_DIM, PADDED_DIM)
        k_scale = read_scale(
            k_scale_ptr, kv_head, block_ids, in_block, visible,
            k_scale_stride_block, k_scale_stride_slot, k_scale_stride_head,
        )  # fmt: skip
        v_scale = read_scale(
            v_scale_ptr, kv_head, block_ids, in_block, visible,
            v_scale_stride_block, v_scale_stride_slot, v_scale_stride_head,
        )  # fmt: skip
        running_max, running_sum, weighted_sum = add_tile(
            q, k, v, k_scale, v_scale, visible[None, :], scale, running_max, running_sum, weighted_sum, PRECISION
        )

    # No keys: zeros, and a log-sum-exp of -inf. A sum that is NaN stays it.
    total = tl.where(running_sum == 0, 1.0, running_sum)
    out_offsets = split.to(tl.int64) * out_stride_split + sequence * out_stride_row + heads[:, None] * out_stride_head
    out = (weighted_sum / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + out_offsets + dims[None, :], out, mask=in_use)
    lse_offsets = split.to(tl.int64) * lse_stride_split + sequence * lse_stride_row + heads
    tl.store(lse_ptr + lse_offsets, running_max + tl.log(total), mask=group < GROUP)


@triton.jit
def merge_kernel(
    parts_ptr, part_lse_ptr, out_ptr, lse_ptr, parts_stride_split, parts_stride_row, parts_stride_head,
    lse_stride_split, lse_stride_row, out_stride_row, out_stride_head,
    NUM_SPLITS: tl.constexpr, PADDED_SPLITS: tl.constexpr, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
):  # fmt: skip
    """One sequence's and head's states -> one. The rule is that of states.merge_states, for all splits at once."""
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    splits, dims = tl.arange(0, PADDED_SPLITS).to(tl.int64), tl.arange(0, PADDED_DIM)
    lse_offsets = splits * lse_stride_split + sequence * lse_stride_row + head
    lse = tl.load(part_lse_ptr + lse_offsets, mask=splits < NUM_SPLITS, other=float("-inf"))
    highest = tl.max(lse, axis=0)
    reference = tl.where(highest == float("-inf"), 0.0, highest)
    weights = tl.exp(lse - reference)
    # An empty split's output is not even read: nothing that it holds can matter.
    part_offsets = splits * parts_stride_split + sequence * parts_stride_row + head * parts_stride_head
    mask = (lse > float("-inf"))[:, None] & (dims < HEAD_DIM)[None, :]
    parts = tl.load(parts_ptr + part_offsets[:, None] + dims[None, :], mask=mask, other=0.0)
    total = tl.sum(weights, axis=0)
    total = tl.where(total == 0, 1.0, total)
    out = (tl.sum(weights[:, None] * parts, axis=0) / total).to(out_ptr.dtype.element_ty)
    out_offsets = sequence * out_stride_row + head * out_stride_head
    tl.store(out_ptr + out_offsets + dims, out, mask=dims < HEAD_DIM)
    # The parts' log-sum-exps and the merged ones both have num_heads numbers to a row.
    tl.store(lse_ptr + sequence * lse_stride_row + head, highest + tl.log(total))


def decode(
    q, k_cache, v_cache, block_tables, seq_lens, scale, *, k_scale=None, v_scale=None, num_splits=None, tile_size=None
):
    """Attention of one query for each sequence: (out [num_seqs, num_heads, head_dim], lse [num_seqs, num_heads]).

    q: [num_seqs, num_heads, head_dim]; everything else as in reference.paged_attention. lse: log(sum(exp(scores))) in
    float32, natural logarithm; -inf where there are no keys. num_splits: 1 to 64; None: as many as fill the device.
    tile_size: a power of two from 16 on. Raises ValueError for arguments that don't fit.
    """
    starts = torch.arange(len(q) + 1, dtype=torch.int32, device=q.device)
    check_attention(q, k_cache, v_cache, block_tables, seq_lens, starts, k_scale, v_scale)
    if num_splits is None:
        num_splits = choose_num_splits(q, k_cache, max(seq_lens.tolist(), default=0), tile_size)
    elif not 1 <= num_splits <= geometry.MAX_SPLITS:
        raise ValueError(f"num_splits={num_splits}: must be from 1 to {geometry.MAX_SPLITS}")
    geometry.check_tile_size(tile_size)
    return launch(q, k_cache, v_cache, block_tables, seq_lens, scale, k_scale, v_scale, num_splits, tile_size)


def choose_num_splits(q, k_cache, longest, tile_size=None):
    """geometry.num_splits_for on the device of q."""
    is_gpu = q.device.type == "cuda"
    num_processors = torch.cuda.get_device_properties(q.device).multi_processor_count if is_gpu else 0
    tile_size = tile_size or geometry.SIZES[kind_of(q, k_cache)].decode_tile
    return geometry.num_splits_for(max(1, len(q)), k_cache.shape[2], longest, tile_size, num_processors)


def launch(
    q, k_cache, v_cache, block_tables, seq_lens, scale, k_scale=None, v_scale=None, num_splits=1, tile_size=None
):
    """decode, without the checks: once they are made, they hold for every layer of a step."""
    num_seqs, num_heads, head_dim = q.shape
    _, block_size, num_kv_heads, _ = k_cache.shape
    out = q.new_empty(q.shape)
    lse = q.new_empty(num_seqs, num_heads, dtype=torch.float32)
    if num_seqs == 0:
        return out, lse
    parts, part_lse = out[None], lse[None]  # unsplit, a state is the result
    if num_splits > 1:
        parts = q.new_empty(num_splits, *q.shape, dtype=torch.float32)
        part_lse = lse.new_empty(num_splits, *lse.shape)
    shape = num_heads, num_kv_heads, head_dim, block_size
    sizes = geometry.decode_constants(*shape, kind_of(q, k_cache), tile_size, num_splits)
    decode_kernel[num_seqs, num_kv_heads, num_splits](
        q, raw(k_cache), raw(v_cache), k_scale, v_scale, parts, part_lse, block_tables, seq_lens, scale,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], *strides(k_scale), *strides(v_scale),
        *parts.stride()[:3], *part_lse.stride()[:2], block_tables.stride(0), **sizes,
    )  # fmt: skip
    if num_splits > 1:
        merge_kernel[num_seqs, num_heads](
            parts, part_lse, out, lse, *parts.stride()[:3], *part_lse.stride()[:2], *out.stride()[:2],
            **geometry.merge_constants(num_splits, head_dim),
        )  # fmt: skip
    return out, lse
