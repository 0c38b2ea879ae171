"""Copy: whole blocks, within a pool, as copy-on-write asks for, or between two pools on one device. (Swapping crosses
from the device to the host: KVCache does that.)

One program serves one offset in one pair of blocks, so a pair has block_size programs:

    pairs          (3, 7)          (0, 2)          source, destination; block_size 4
    programs       0  1  2  3      4  5  6  7

Programs run in any order. A block that is read by one pair and written by another would hold sometimes the old numbers
and sometimes the new: such copies go through a pool of their own, in two launches, and the second begins when the first
has ended.
"""

import torch

from minipaged.attention.triton.checks import check_last_stride, check_one_device
from minipaged.attention.triton.geometry import padded
from minipaged.attention.triton.loader import load
from minipaged.attention.triton.tile import raw

triton, tl = load()


@triton.jit
def copy_kernel(
    source_ptr, destination_ptr, pairs_ptr, source_stride_block, source_stride_slot, source_stride_head,
    destination_stride_block, destination_stride_slot, destination_stride_head,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, PADDED_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
):  # fmt: skip
    """One slot: [NUM_KV_HEADS, HEAD_DIM]."""
    pair, offset = tl.program_id(0) // BLOCK_SIZE, (tl.program_id(0) % BLOCK_SIZE).to(tl.int64)
    source = tl.load(pairs_ptr + 2 * pair).to(tl.int64)  # int64: times a stride it may pass 2**31
    destination = tl.load(pairs_ptr + 2 * pair + 1).to(tl.int64)
    heads, dims = tl.arange(0, PADDED_HEADS).to(tl.int64)[:, None], tl.arange(0, PADDED_DIM)[None, :]
    mask = (heads < NUM_KV_HEADS) & (dims < HEAD_DIM)
    source_ptr += source * source_stride_block + offset * source_stride_slot
    numbers = tl.load(source_ptr + heads * source_stride_head + dims, mask=mask, other=0)
    destination_ptr += destination * destination_stride_block + offset * destination_stride_slot
    tl.store(destination_ptr + heads * destination_stride_head + dims, numbers, mask=mask)


def copy_blocks(source, destination, pairs):
    """Copy blocks of one pool into blocks of another, or of the same.

    source, destination: [num_blocks, block_size, num_kv_heads, head_dim], of any numbers of blocks. pairs: a list of
    (source block, destination block). All sources are read before a destination is written: (a, b) and (b, c) in one
    call give b what a held, and c what b held. Raises ValueError, with nothing copied, for pools that differ in what a
    block is, or a block that isn't there or is the destination of two pairs.
    """
    check(source, destination, pairs)
    is_one_pool = source.untyped_storage().data_ptr() == destination.untyped_storage().data_ptr()
    if is_one_pool and {pair[0] for pair in pairs} & {pair[1] for pair in pairs}:
        between = source.new_empty(len(pairs), *source.shape[1:])
        launch(source, between, [(pair[0], i) for i, pair in enumerate(pairs)])
        launch(between, destination, [(i, pair[1]) for i, pair in enumerate(pairs)])
    else:
        launch(source, destination, pairs)


def check(source, destination, pairs):
    """Raises ValueError for arguments of copy_blocks that don't fit."""
    if source.shape[1:] != destination.shape[1:] or source.dtype != destination.dtype:
        one, other = (f"{tuple(pool.shape)} {pool.dtype}" for pool in (source, destination))
        raise ValueError(f"copies from {one} to {other}: their blocks must have the same shape and type")
    check_last_stride(source=source, destination=destination)
    check_one_device(source=source, destination=destination)
    for pool, ids in ((source, [pair[0] for pair in pairs]), (destination, [pair[1] for pair in pairs])):
        for block in ids:
            if not 0 <= block < len(pool):
                raise ValueError(f"block {block} is not in this cache: ids run from 0 to {len(pool) - 1}")
    if len({pair[1] for pair in pairs}) < len(pairs):
        raise ValueError(f"copies {list(pairs)}: a block can be the destination of only one")


def launch(source, destination, pairs):
    """Copy, without the checks."""
    if not pairs:
        return
    pairs = torch.tensor(pairs, dtype=torch.int32, device=source.device)
    _, block_size, num_kv_heads, head_dim = source.shape
    copy_kernel[len(pairs) * block_size,](
        raw(source), raw(destination), pairs, *source.stride()[:3], *destination.stride()[:3],
        BLOCK_SIZE=block_size, NUM_KV_HEADS=num_kv_heads, PADDED_HEADS=padded(num_kv_heads),
        HEAD_DIM=head_dim, PADDED_DIM=padded(head_dim),
    )  # fmt: skip
