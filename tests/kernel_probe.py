"""Kernels that tell where tile.py says that a tile lies, and what it makes of a byte.

Triton wants kernels at the top of a file.
"""

from minipaged.attention.triton.loader import load
from minipaged.attention.triton.tile import fp8_to_float, locate

triton, tl = load()


@triton.jit
def offsets_kernel(
    table_ptr, out_ptr, num_keys, stride_block, stride_slot, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr  # noqa: N803
):  # fmt: skip
    positions = tl.arange(0, TILE)
    blocks, slots = locate(table_ptr, positions, positions < num_keys, BLOCK_SIZE)
    tl.store(out_ptr + positions, blocks * stride_block + slots * stride_slot)


@triton.jit
def fp8_kernel(bytes_ptr, out_ptr, SIZE: tl.constexpr):  # noqa: N803
    index = tl.arange(0, SIZE)
    tl.store(out_ptr + index, fp8_to_float(tl.load(bytes_ptr + index)))
