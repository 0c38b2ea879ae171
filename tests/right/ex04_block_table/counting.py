# Right: no division, blocks are counted off one by one.


class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.blocks = []
        self.num_tokens = 0

    def append_blocks(self, ids):
        for block in ids:
            self.blocks.append(block)

    def blocks_needed(self, n):
        needed = 0
        while (len(self.blocks) + needed) * self.block_size < n:
            needed += 1
        return needed

    def translate(self, position):
        offset = position
        if position >= 0:
            for logical, block in enumerate(self.blocks):
                if offset < self.block_size:
                    return (logical, offset, block, block * self.block_size + offset)
                offset -= self.block_size
        raise ValueError(f"position {position}: the table has {len(self.blocks)} blocks of {self.block_size}")

    def slot(self, position):
        return self.translate(position)[3]

    def slots(self, start, stop):
        if stop < start:
            raise ValueError(f"from {start} to {stop}")
        slots = []
        while start < stop:
            slots.append(self.slot(start))
            start += 1
        return slots
