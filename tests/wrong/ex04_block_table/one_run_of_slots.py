# Wrong: slots counts on from the first slot, as if the next block lay behind.


class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.blocks = []
        self.num_tokens = 0

    def append_blocks(self, ids):
        self.blocks.extend(ids)

    def blocks_needed(self, n):
        return max(0, -(-n // self.block_size) - len(self.blocks))

    def translate(self, position):
        if not 0 <= position < len(self.blocks) * self.block_size:
            raise ValueError(f"position {position} has no slot")
        logical, offset = divmod(position, self.block_size)
        block = self.blocks[logical]
        return logical, offset, block, block * self.block_size + offset

    def slot(self, position):
        return self.translate(position)[3]

    def slots(self, start, stop):
        if start > stop:
            raise ValueError(f"start {start} lies behind stop {stop}")
        if start == stop:
            return []
        self.translate(stop - 1)
        first = self.slot(start)
        return list(range(first, first + stop - start))
