# Right: a program for each query head, block by block; a first walk finds the largest score, a second one sums.

import torch

from minipaged.attention.triton.loader import load

triton, tl = load()


@triton.jit
def scores_of(q, k_ptr, block, slots, seen, dims, scale, k_block, k_slot, HEAD_DIM: tl.constexpr):
    """The scores of one block's keys; -inf past its end."""
    mask = seen[:, None] & (dims < HEAD_DIM)[None, :]
    k = tl.load(k_ptr + block * k_block + slots[:, None] * k_slot + dims[None, :], mask=mask, other=0.0)
    return tl.where(seen, scale * tl.sum(k * q[None, :], axis=1), float("-inf"))


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, tables_ptr, seq_lens_ptr, scale, q_row, q_head, k_block, k_slot, k_head,
    v_block, v_slot, v_head, table_row, num_heads,
    BLOCK_SIZE: tl.constexpr, SLOTS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, DIMS: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(0), tl.program_id(1)
    seq_len = tl.load(seq_lens_ptr + sequence)
    slots, dims = tl.arange(0, SLOTS), tl.arange(0, DIMS)
    q = tl.load(q_ptr + sequence * q_row + head * q_head + dims, mask=dims < HEAD_DIM, other=0.0)
    k_ptr += head // GROUP * k_head
    v_ptr += head // GROUP * v_head
    largest = tl.max(tl.full([SLOTS], float("-inf"), tl.float32), axis=0)
    num_blocks = tl.cdiv(seq_len, BLOCK_SIZE)
    for logical in range(num_blocks):
        block = tl.load(tables_ptr + sequence * table_row + logical).to(tl.int64)
        seen = (slots < BLOCK_SIZE) & (logical * BLOCK_SIZE + slots < seq_len)
        scores = scores_of(q, k_ptr, block, slots, seen, dims, scale, k_block, k_slot, HEAD_DIM)
        largest = tl.maximum(largest, tl.max(scores, axis=0))
    weights = tl.zeros([SLOTS], tl.float32)
    values = tl.zeros([SLOTS, DIMS], tl.float32)
    for logical in range(num_blocks):
        block = tl.load(tables_ptr + sequence * table_row + logical).to(tl.int64)
        seen = (slots < BLOCK_SIZE) & (logical * BLOCK_SIZE + slots < seq_len)
        own = tl.exp(scores_of(q, k_ptr, block, slots, seen, dims, scale, k_block, k_slot, HEAD_DIM) - largest)
        mask = seen[:, None] & (dims < HEAD_DIM)[None, :]
        v = tl.load(v_ptr + block * v_block + slots[:, None] * v_slot + dims[None, :], mask=mask, other=0.0)
        weights += own
        values += own[:, None] * v
    total = tl.sum(weights, axis=0)
    out = tl.sum(values, axis=0) / tl.maximum(total, 1.0e-30)
    row = sequence * num_heads + head
    tl.store(out_ptr + row * HEAD_DIM + dims, out, mask=dims < HEAD_DIM)
    tl.store(lse_ptr + row, tl.where(total > 0, largest + tl.log(tl.maximum(total, 1.0e-30)), float("-inf")))


def decode(q, k_cache, v_cache, block_tables, seq_lens, scale):
    (num_seqs, num_heads, head_dim), (_, block_size, num_kv_heads, _) = q.shape, k_cache.shape
    out, lse = q.new_zeros(q.shape), q.new_zeros(num_seqs, num_heads)
    decode_kernel[num_seqs, num_heads](
        q, k_cache, v_cache, out, lse, block_tables, seq_lens, scale,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], block_tables.stride(0), num_heads,
        BLOCK_SIZE=block_size, SLOTS=triton.next_power_of_2(block_size), GROUP=num_heads // num_kv_heads,
        HEAD_DIM=head_dim, DIMS=triton.next_power_of_2(head_dim),
    )  # fmt: skip
    return out, lse


def merge_states(out_a, lse_a, out_b, lse_b):
    lse = torch.stack([lse_a, lse_b])
    weights = lse.softmax(0).nan_to_num(0.0)[..., None]  # of two empty parts: NaN
    outs = torch.stack([out_a, out_b]).masked_fill(weights == 0, 0)
    return (weights * outs).sum(0), lse.logsumexp(0)
