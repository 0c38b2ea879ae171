"""For the checks of exercise 06: memory in which a kernel that reads a wrong place gets a number, and no crash.

A kernel has bare addresses. One that looks up a block that isn't there reads far away from the cache, where there may
be no memory, and then the whole process dies without a word. So all caches lie in the middle of 16 GB of address space.
No page of it takes memory before it is written to.
"""

import mmap
from functools import cache
from typing import NamedTuple

WRAP = 2**31  # the first number that is none as int32
BETWEEN = 2**22  # numbers from the beginning of a K cache to that of its V cache


class Memory(NamedTuple):
    """numbers: all of it, float32, on the device where kernels run. middle: the number at which caches begin. reach: so
    many numbers may be read before and behind that."""

    numbers: object
    middle: int
    reach: int


@cache
def memory():
    import torch

    from minipaged.attention.triton.loader import wants_interpreter

    if wants_interpreter():
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        try:
            space = mmap.mmap(-1, 4 * (2 * WRAP + 3 * BETWEEN), flags=flags)
            return Memory(torch.frombuffer(space, dtype=torch.float32), WRAP + BETWEEN, WRAP)
        except OSError:  # an administrator's limit on address space
            pass
    device = "cpu" if wants_interpreter() else "cuda"
    return Memory(torch.zeros(5 * BETWEEN, device=device), 2 * BETWEEN, BETWEEN)


class Layout:
    """Where K or V of a pool lies: of which strides, and the views of it that a check needs."""

    def __init__(self, start, shape, strides):
        self.start, self.shape, self.strides = memory().middle + start, shape, strides

    def blocks(self, first, count):
        """Blocks first .. first + count - 1, also such as are not in the pool: [count, *shape]."""
        numbers = memory().numbers
        return numbers.as_strided((count, *self.shape), (*self.strides, 1), self.start + first * self.strides[0])

    def all_of(self, first, count):
        """The same blocks with everything that lies between their numbers: one flat run."""
        start = self.start + first * self.strides[0]
        return memory().numbers[start : start + count * self.strides[0]]


def layouts(block_size, num_kv_heads, head_dim, is_tight=False):
    """Those of K and V, which lie in different ways, unless they are tight: then no number lies between two blocks."""
    shape = block_size, num_kv_heads, head_dim
    if is_tight:
        strides = block_size * num_kv_heads * head_dim, num_kv_heads * head_dim, head_dim
        return [Layout(start, shape, strides) for start in (0, BETWEEN)]
    head = head_dim + 3
    slot = num_kv_heads * head + 5
    k = Layout(0, shape, (block_size * slot + 7, slot, head))
    slot = head_dim + 1
    head = block_size * slot + 2
    return [k, Layout(BETWEEN, shape, (num_kv_heads * head + 9, slot, head))]
