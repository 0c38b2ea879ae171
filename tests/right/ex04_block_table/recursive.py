# Right: slots split in two at each call; an IndexError becomes a ValueError.


class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.blocks = []
        self.num_tokens = 0

    def append_blocks(self, ids):
        self.blocks[len(self.blocks) :] = ids

    def blocks_needed(self, n, have=None):
        have = len(self.blocks) * self.block_size if have is None else have
        return 0 if n <= have else 1 + self.blocks_needed(n, have + self.block_size)

    def translate(self, position):
        logical = position // self.block_size
        offset = position - logical * self.block_size
        try:
            if logical < 0:
                raise IndexError(logical)
            block = self.blocks[logical]
        except IndexError:
            raise ValueError(f"no block for position {position}") from None
        return logical, offset, block, self.block_size * block + offset

    def slot(self, position):
        return self.translate(position)[3]

    def slots(self, start, stop):
        if start > stop:
            raise ValueError("start > stop")
        if start == stop:
            return []
        if stop - start == 1:
            return [self.slot(start)]
        middle = (start + stop) // 2
        return self.slots(start, middle) + self.slots(middle, stop)
