"""Exercise 06: the decode kernel's loop, and the merge of two parts.

Goal: attention of one query for each sequence as a Triton kernel; and one attention made out of two. Triton needs
Linux, but no GPU: its interpreter runs the kernel, one program after the other.

    q             [num_seqs, num_heads, head_dim] float32
    k_cache       [num_blocks, block_size, num_kv_heads, head_dim] float32; block_size is any number from 1
    v_cache       the same shape. Its strides may be others than those of k_cache; that of head_dim is always 1
    block_tables  [num_seqs, max_blocks] int32
    seq_lens      [num_seqs] int32: how many keys each query sees; 0: none
    scale         what q . k is multiplied by
    out, lse      [num_seqs, num_heads, head_dim] and [num_seqs, num_heads], both float32

A program serves one sequence and one KV head, with all GROUP query heads that read it. A tile is TILE positions;
position p lies at offset p % BLOCK_SIZE in the block that the table's entry p // BLOCK_SIZE names.

Every load needs a mask, and `other=`. Slots past seq_len, and blocks that the table doesn't name, hold NaN or inf, in K
and in V, and 0 * NaN is NaN. Table entries past ceil(seq_len / block_size) hold anything: never look a block up by one.
A block id is an int32, and a block id times a stride may pass 2**31: as int32 it wraps around.

Sizes of tl.arange are powers of two, and tl.dot on a GPU wants 16 or more: hence PADDED_GROUP and PADDED_DIM.

Edit below the line, not the tests. About 25 lines, 40 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex06 --impl yours -x

Hints: python -m minipaged.exercises hint ex06
"""

import torch  # noqa: F401 (for you to use)

from minipaged.attention.triton.geometry import padded
from minipaged.attention.triton.loader import load

triton, tl = load()  # in place of `import triton`: it sees to it that kernels are interpreted where there is no GPU

# ------------------------------------------------------------------------------------------------ edit below this line


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, tables_ptr, seq_lens_ptr, scale,
    q_stride_row, q_stride_head, k_stride_block, k_stride_slot, k_stride_head, v_stride_block, v_stride_slot,
    v_stride_head, table_stride, num_heads,
    BLOCK_SIZE: tl.constexpr, GROUP: tl.constexpr, PADDED_GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    # Given: which program this is, and its queries, [PADDED_GROUP, PADDED_DIM], 0 where there are none.
    sequence, kv_head = tl.program_id(0), tl.program_id(1)
    seq_len = tl.load(seq_lens_ptr + sequence)
    table_ptr = tables_ptr + sequence * table_stride  # the entries of this sequence's table begin here
    group, dims = tl.arange(0, PADDED_GROUP), tl.arange(0, PADDED_DIM)
    heads = kv_head * GROUP + group  # the query heads that read this KV head
    in_use = (group < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    q_offsets = sequence * q_stride_row + heads[:, None] * q_stride_head + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=in_use, other=0.0)

    # Yours: what is carried from tile to tile, and the loop over the tiles: `for start in range(0, seq_len, TILE)`.

    # Yours: the outputs, zeros if there is no key; the natural logarithm of sum(exp(scores)), -inf if there is none.
    out = tl.zeros([PADDED_GROUP, PADDED_DIM], tl.float32)
    lse = tl.zeros([PADDED_GROUP], tl.float32)

    # Given: the stores.
    rows = sequence * num_heads + heads
    tl.store(out_ptr + rows[:, None] * HEAD_DIM + dims[None, :], out, mask=in_use)
    tl.store(lse_ptr + rows, lse, mask=group < GROUP)


def decode(q, k_cache, v_cache, block_tables, seq_lens, scale):
    """Attention of one query for each sequence. Returns (out, lse). Given: it launches the kernel above.

    lse is log(sum(exp(scores))), natural logarithm, for each query head; -inf where there are no keys.
    """
    raise NotImplementedError("ex06: decode is yours to write")  # the kernel is; take this line away when it is written
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


def merge_states(out_a, lse_a, out_b, lse_b):
    """Attention over two sets of keys that have none in common -> attention over all of them. Returns (out, lse).

    out_a, out_b: [..., head_dim]. lse_a, lse_b: [...], the natural logarithm of the sum of exp(scores) over each set.

    An empty set has an lse of -inf, and its out may hold anything, even NaN. If both are empty, out is zeros and lse is
    -inf. The lse may be large: exp(lse) overflows unless the larger of both is taken off first. Plain PyTorch; nothing
    that is given may be changed.
    """
    raise NotImplementedError("ex06: merge_states is yours to write")
