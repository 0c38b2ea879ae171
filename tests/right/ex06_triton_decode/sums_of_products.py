# Right: sums of products in the place of tl.dot, tiles of 32, and a finite number where nothing is seen.

import torch

from minipaged.attention.triton.loader import load

triton, tl = load()


@triton.jit
def tile_of(cache_ptr, slots, seen, dims, HEAD_DIM: tl.constexpr):
    return tl.load(
        cache_ptr + slots[:, None] + dims[None, :], mask=seen[:, None] & (dims < HEAD_DIM)[None, :], other=0.0
    )


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, tables_ptr, seq_lens_ptr, scale, q_row, q_head, k_block, k_slot, k_head,
    v_block, v_slot, v_head, table_row, BLOCK_SIZE: tl.constexpr, GROUP: tl.constexpr, LANES: tl.constexpr,
    HEAD_DIM: tl.constexpr, DIMS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    kv_head, sequence = tl.program_id(0), tl.program_id(1)
    length = tl.load(seq_lens_ptr + sequence)
    lanes, dims = tl.arange(0, LANES), tl.arange(0, DIMS)
    heads = kv_head * GROUP + lanes
    used = (lanes < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(q_ptr + sequence * q_row + heads[:, None] * q_head + dims[None, :], mask=used, other=0.0) * scale
    least = -3.0e38
    largest = tl.full([LANES], least, tl.float32)
    total = tl.zeros([LANES], tl.float32)
    values = tl.zeros([LANES, DIMS], tl.float32)
    start = 0
    while start < length:
        positions = start + tl.arange(0, TILE)
        seen = positions < length
        ids = tl.load(tables_ptr + sequence * table_row + positions // BLOCK_SIZE, mask=seen, other=0).to(tl.int64)
        k = tile_of(k_ptr + kv_head * k_head, ids * k_block + positions % BLOCK_SIZE * k_slot, seen, dims, HEAD_DIM)
        scores = tl.sum(q[:, None, :] * k[None, :, :], axis=2)
        scores = tl.where(seen[None, :], scores, least)
        before = largest
        largest = tl.maximum(before, tl.max(scores, axis=1))
        weights = tl.where(seen[None, :], tl.exp(scores - largest[:, None]), 0.0)
        shrink = tl.exp(before - largest)
        v = tile_of(v_ptr + kv_head * v_head, ids * v_block + positions % BLOCK_SIZE * v_slot, seen, dims, HEAD_DIM)
        total = total * shrink + tl.sum(weights, axis=1)
        values = values * shrink[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], axis=1)
        start += TILE
    is_empty = length == 0
    rows = sequence * tl.num_programs(0) * GROUP + heads
    out = tl.where(is_empty, 0.0, values / tl.where(is_empty, 1.0, total)[:, None])
    tl.store(out_ptr + rows[:, None] * HEAD_DIM + dims[None, :], out, mask=used)
    lse = tl.where(is_empty, float("-inf"), largest + tl.log(tl.where(is_empty, 1.0, total)))
    tl.store(lse_ptr + rows, lse, mask=lanes < GROUP)


def decode(q, k_cache, v_cache, block_tables, seq_lens, scale):
    _, block_size, num_kv_heads, head_dim = k_cache.shape
    group = q.shape[1] // num_kv_heads
    out, lse = torch.empty(q.shape, device=q.device), torch.empty(q.shape[:2], device=q.device)
    decode_kernel[num_kv_heads, len(q)](
        q, k_cache, v_cache, out, lse, block_tables, seq_lens, scale, *q.stride()[:2], *k_cache.stride()[:3],
        *v_cache.stride()[:3], block_tables.stride(0), BLOCK_SIZE=block_size, GROUP=group,
        LANES=triton.next_power_of_2(group), HEAD_DIM=head_dim, DIMS=triton.next_power_of_2(head_dim), TILE=32,
    )  # fmt: skip
    return out, lse


def merge_states(out_a, lse_a, out_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    out = torch.zeros_like(out_a)
    for part, its_lse in ((out_a, lse_a), (out_b, lse_b)):
        share = torch.where(its_lse == -torch.inf, 0, (its_lse - lse).exp())[..., None]
        out = out + torch.where(share > 0, share * part, 0)
    return out, lse
