# Right: all slots in a row, then a slice of them.
import math
from itertools import chain


class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.blocks = []
        self.num_tokens = 0

    def append_blocks(self, ids):
        self.blocks = self.blocks + list(ids)

    def blocks_needed(self, n):
        missing = n - len(self.blocks) * self.block_size
        return math.ceil(missing / self.block_size) if missing > 0 else 0

    def _all(self):
        size = self.block_size
        return list(chain.from_iterable(range(block * size, block * size + size) for block in self.blocks))

    def translate(self, position):
        [slot] = self.slots(position, position + 1)
        return position // self.block_size, position % self.block_size, slot // self.block_size, slot

    def slot(self, position):
        return self.translate(position)[3]

    def slots(self, start, stop):
        slots = self._all()
        if not 0 <= start <= stop <= len(slots):
            raise ValueError(f"positions {start} to {stop - 1}: there are {len(slots)}")
        return slots[start:stop]
