"""One tile of keys: where it lies, how it is read, and how it changes what a program has summed so far.

decode.py and prefill.py walk over such tiles. A tile is a run of positions of one sequence, wherever its blocks are:

    positions       8  9 10 11 12 13 14 15      a tile of 8, block_size 4
    logical block   2  2  2  2  3  3  3  3      position // block_size
    block id        5  5  5  5  0  0  0  0      the table's entries 2 and 3
    slot in it      0  1  2  3  0  1  2  3      position % block_size
"""

from minipaged.attention.triton.loader import load

triton, tl = load()


@triton.jit
def locate(table_ptr, positions, in_use, BLOCK_SIZE: tl.constexpr):
    """Block ids and slots of these positions. Where in_use is false the table is not looked at."""
    block_ids = tl.load(table_ptr + positions // BLOCK_SIZE, mask=in_use, other=0)
    # As int32, a block id times the numbers in a block would pass 2**31 in a pool of a few GB.
    return block_ids.to(tl.int64), positions % BLOCK_SIZE


@triton.jit
def read(cache_ptr, block_ids, slots, in_use, stride_block, stride_slot, HEAD_DIM: tl.constexpr, DIMS: tl.constexpr):
    """A tile of K or V: [len(block_ids), DIMS] float32. What is not in use, or past HEAD_DIM, is 0 and not read.

    Masking V's load matters as much as masking the scores: 0 times a stale NaN is NaN.
    """
    dims = tl.arange(0, DIMS)
    offsets = block_ids * stride_block + slots * stride_slot
    mask = in_use[:, None] & (dims < HEAD_DIM)[None, :]
    return tl.load(cache_ptr + offsets[:, None] + dims[None, :], mask=mask, other=0.0).to(tl.float32)


@triton.jit
def add_tile(q, k, v, visible, scale, running_max, running_sum, weighted_sum, PRECISION: tl.constexpr):
    """The online softmax: what reference.attention_steps does with a block, for many queries at a time.

    q: [rows, DIMS]. k, v: [TILE, DIMS]. visible: which row sees which key. In the first tile every row must see one,
    or its maximum would stay -inf, and -inf minus -inf is NaN.
    """
    scores = scale * tl.dot(q, tl.trans(k), input_precision=PRECISION)
    scores = tl.where(visible, scores, float("-inf"))
    new_max = tl.maximum(running_max, tl.max(scores, axis=1))
    correction = tl.exp(running_max - new_max)  # what was summed so far was relative to the old maximum
    weights = tl.exp(scores - new_max[:, None])
    running_sum = running_sum * correction + tl.sum(weights, axis=1)
    weighted_sum = weighted_sum * correction[:, None] + tl.dot(weights, v, input_precision=PRECISION)
    return new_max, running_sum, weighted_sum
