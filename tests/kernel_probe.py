"""A kernel that tells where tile.py says that a tile lies. Triton wants kernels at the top of a file."""

from minipaged.attention.triton.loader import load
from minipaged.attention.triton.tile import locate

triton, tl = load()


@triton.jit
def offsets_kernel(
    table_ptr, out_ptr, num_keys, stride_block, stride_slot, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr  # noqa: N803
):  # fmt: skip
    positions = tl.arange(0, TILE)
    blocks, slots = locate(table_ptr, positions, positions < num_keys, BLOCK_SIZE)
    tl.store(out_ptr + positions, blocks * stride_block + slots * stride_slot)
