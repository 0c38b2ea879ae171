# Right: all positions at once, in numpy.
import numpy as np


class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.blocks = []
        self.num_tokens = 0

    def append_blocks(self, ids):
        self.blocks += ids

    def blocks_needed(self, n):
        return np.maximum(0, np.int64(n + self.block_size - 1) // self.block_size - len(self.blocks))

    def translate(self, position):
        if position < 0 or position // self.block_size >= len(self.blocks):
            raise ValueError(position)
        logical, offset = np.unravel_index(position, (len(self.blocks), self.block_size))
        block = np.asarray(self.blocks)[logical]
        return logical, offset, block, block * self.block_size + offset

    def slot(self, position):
        return self.translate(position)[3]

    def slots(self, start, stop):
        positions = np.arange(start, stop)
        if start > stop or np.any(positions < 0) or np.any(positions >= len(self.blocks) * self.block_size):
            raise ValueError((start, stop))
        logical, offset = np.divmod(positions, self.block_size)
        return (np.array(self.blocks, dtype=np.int64)[logical] * self.block_size + offset).tolist()
