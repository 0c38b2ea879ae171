# Wrong: the slots are computed when blocks are appended, so an entry that is replaced later isn't seen.


class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.blocks = []
        self.num_tokens = 0
        self._slots = []

    def append_blocks(self, ids):
        self.blocks.extend(ids)
        for block in ids:
            self._slots.extend(range(block * self.block_size, (block + 1) * self.block_size))

    def blocks_needed(self, n):
        return max(0, -(-n // self.block_size) - len(self.blocks))

    def translate(self, position):
        if not 0 <= position < len(self._slots):
            raise ValueError(f"position {position} has no slot")
        logical, offset = divmod(position, self.block_size)
        return logical, offset, self._slots[position] // self.block_size, self._slots[position]

    def slot(self, position):
        return self.translate(position)[3]

    def slots(self, start, stop):
        if start > stop:
            raise ValueError(f"start {start} lies behind stop {stop}")
        return [self.slot(position) for position in range(start, stop)]
