# Wrong: exp of the scores themselves is infinite for large ones.

from minipaged.attention.states import merge_states  # noqa: F401
from minipaged.attention.triton.geometry import padded
from minipaged.attention.triton.loader import load

triton, tl = load()


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, tables_ptr, seq_lens_ptr, scale,
    q_stride_row, q_stride_head, k_stride_block, k_stride_slot, k_stride_head, v_stride_block, v_stride_slot,
    v_stride_head, table_stride, num_heads,
    BLOCK_SIZE: tl.constexpr, GROUP: tl.constexpr, PADDED_GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    sequence, kv_head = tl.program_id(0), tl.program_id(1)
    seq_len = tl.load(seq_lens_ptr + sequence)
    table_ptr = tables_ptr + sequence * table_stride
    group, dims = tl.arange(0, PADDED_GROUP), tl.arange(0, PADDED_DIM)
    heads = kv_head * GROUP + group
    in_use = (group < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    q_offsets = sequence * q_stride_row + heads[:, None] * q_stride_head + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=in_use, other=0.0)
    largest = tl.zeros([PADDED_GROUP], tl.float32)
    total = tl.zeros([PADDED_GROUP], tl.float32)
    weighted = tl.zeros([PADDED_GROUP, PADDED_DIM], tl.float32)
    k_ptr += kv_head * k_stride_head
    v_ptr += kv_head * v_stride_head
    for start in range(0, seq_len, TILE):
        positions = start + tl.arange(0, TILE)
        visible = positions < seq_len
        blocks = tl.load(table_ptr + positions // BLOCK_SIZE, mask=visible, other=0).to(tl.int64)
        slots = positions % BLOCK_SIZE
        mask = visible[:, None] & (dims < HEAD_DIM)[None, :]
        k_offsets = (blocks * k_stride_block + slots * k_stride_slot)[:, None] + dims[None, :]
        v_offsets = (blocks * v_stride_block + slots * v_stride_slot)[:, None] + dims[None, :]
        k = tl.load(k_ptr + k_offsets, mask=mask, other=0.0)
        v = tl.load(v_ptr + v_offsets, mask=mask, other=0.0)
        scores = scale * tl.dot(q, tl.trans(k), input_precision="ieee")
        scores = tl.where(visible[None, :], scores, float("-inf"))
        new = tl.zeros([PADDED_GROUP], tl.float32)
        correction = tl.exp(largest - new)
        weights = tl.exp(scores - new[:, None])
        total = total * correction + tl.sum(weights, axis=1)
        weighted = weighted * correction[:, None] + tl.dot(weights, v, input_precision="ieee")
        largest = new
    some = tl.where(total > 0, total, 1.0)
    out = weighted / some[:, None]
    lse = tl.where(total > 0, tl.log(some), float("-inf"))
    rows = sequence * num_heads + heads
    tl.store(out_ptr + rows[:, None] * HEAD_DIM + dims[None, :], out, mask=in_use)
    tl.store(lse_ptr + rows, lse, mask=group < GROUP)


def decode(q, k_cache, v_cache, block_tables, seq_lens, scale):
    (num_seqs, num_heads, head_dim), (_, block_size, num_kv_heads, _) = q.shape, k_cache.shape
    out, lse = q.new_empty(q.shape), q.new_empty(num_seqs, num_heads)
    group = num_heads // num_kv_heads
    decode_kernel[num_seqs, num_kv_heads](
        q, k_cache, v_cache, out, lse, block_tables, seq_lens, scale,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], block_tables.stride(0), num_heads,
        BLOCK_SIZE=block_size, GROUP=group, PADDED_GROUP=padded(group, 16),
        HEAD_DIM=head_dim, PADDED_DIM=padded(head_dim, 16), TILE=16,
    )  # fmt: skip
    return out, lse
