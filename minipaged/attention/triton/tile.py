"""One tile of keys: where it lies, how it is read, and how it changes what a program has summed so far.

decode.py and prefill.py walk over such tiles. A tile is a run of positions of one sequence, wherever its blocks are:

    positions       8  9 10 11 12 13 14 15      a tile of 8, block_size 4
    logical block   2  2  2  2  3  3  3  3      position // block_size
    block id        5  5  5  5  0  0  0  0      the table's entries 2 and 3
    offset in it    0  1  2  3  0  1  2  3      position % block_size
"""

import torch

from minipaged.attention.triton import geometry
from minipaged.attention.triton.loader import load

triton, tl = load()


@triton.jit
def locate(table_ptr, positions, in_use, BLOCK_SIZE: tl.constexpr):
    """Block ids of these positions, and their offsets in the block. Where in_use is false the table isn't looked at."""
    block_ids = tl.load(table_ptr + positions // BLOCK_SIZE, mask=in_use, other=0)
    # As int32, a block id times the numbers in a block would pass 2**31 in a pool of a few GB. So would an offset in
    # the block, if neighbouring slots lay far apart.
    return block_ids.to(tl.int64), (positions % BLOCK_SIZE).to(tl.int64)


@triton.jit
def read(
    cache_ptr, block_ids, in_block, in_use, stride_block, stride_slot, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr
):
    """A tile of K or V: [len(block_ids), PADDED_DIM] float32. What is not in use, or past HEAD_DIM, is 0 and not read.

    Masking V's load matters as much as masking the scores: 0 times a stale NaN is NaN.
    """
    dims = tl.arange(0, PADDED_DIM)
    offsets = block_ids * stride_block + in_block * stride_slot
    mask = in_use[:, None] & (dims < HEAD_DIM)[None, :]
    stored = tl.load(cache_ptr + offsets[:, None] + dims[None, :], mask=mask, other=0)
    # int8 becomes float32 too: its codes are exact in any type of float.
    return fp8_to_float(stored) if cache_ptr.dtype.element_ty == tl.uint8 else stored.to(tl.float32)


@triton.jit
def fp8_to_float(byte):
    """The number that a byte of fp8 (e4m3) is. Done by hand, since not every GPU's Triton knows the type.

    A float32 has wider fields for the exponent and the fraction. Shifted by 20 the two fields of the byte stand at
    their places in it, and the number is too small by the difference of the exponents' offsets: 127 - 7. Codes that
    mean NaN are not stored: what isn't finite has a scale that is NaN.
    """
    magnitude = ((byte & 0x7F).to(tl.int32) << 20).to(tl.float32, bitcast=True) * 2.0**120
    return tl.where(byte >= 0x80, -magnitude, magnitude)


@triton.jit
def read_scale(scale_ptr, kv_head, block_ids, in_block, in_use, stride_block, stride_slot, stride_head):
    """What each key's codes are multiplied by: [1, len(block_ids)] float32. Where scale_ptr is None, 1."""
    scales = 1.0
    if scale_ptr is not None:
        offsets = block_ids * stride_block + in_block * stride_slot + kv_head * stride_head
        scales = tl.load(scale_ptr + offsets, mask=in_use, other=0.0)[None, :]
    return scales


@triton.jit
def add_tile(
    q, k, v, k_scale, v_scale, visible, scale, running_max, running_sum, weighted_sum, PRECISION: tl.constexpr
):
    """The online softmax: what reference.attention_steps does with a block, for many queries at a time.

    q: [rows, PADDED_DIM]. k, v: [TILE, PADDED_DIM]. k_scale, v_scale: [1, TILE], or 1 where k and v are the numbers
    themselves: a key's scale is a factor of its score, a value's one of its weight, so no tile of K or V is ever
    multiplied. visible: which row sees which key. In the first tile every row must see one, or its maximum would stay
    -inf, and -inf minus -inf is NaN.
    """
    scores = scale * tl.dot(q, tl.trans(k), input_precision=PRECISION) * k_scale
    scores = tl.where(visible, scores, float("-inf"))
    new_max = tl.maximum(running_max, tl.max(scores, axis=1))
    correction = tl.exp(running_max - new_max)  # what was summed so far was relative to the old maximum
    weights = tl.exp(scores - new_max[:, None])
    running_sum = running_sum * correction + tl.sum(weights, axis=1)
    weighted_sum = weighted_sum * correction[:, None] + tl.dot(weights * v_scale, v, input_precision=PRECISION)
    return new_max, running_sum, weighted_sum


def raw(cache):
    """What a kernel is given of a cache: fp8 as bytes, see fp8_to_float."""
    is_fp8 = cache.is_floating_point() and cache.dtype.itemsize == 1
    return cache.view(torch.uint8) if is_fp8 else cache


def strides(scale):
    """Those of the scales' blocks, slots and heads, as they really lie in memory; anything where there are none."""
    return scale.stride() if scale is not None else (0, 0, 0)


def kind_of(q, k_cache):
    """geometry.kind_of, of tensors."""
    return geometry.kind_of(q.dtype.itemsize, k_cache.dtype.itemsize)
