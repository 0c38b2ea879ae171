# Right: the work is done by an object, and the free block is taken by name from the front of the queue.

from minipaged.memory.allocator import OutOfBlocks
from minipaged.memory.block_table import BlockTable


class Shared:
    def __init__(self, table, allocator):
        self.table, self.allocator = table, allocator

    def twin(self):
        twin = type(self.table)(self.table.block_size)
        twin.append_blocks(self.table.blocks)
        twin.num_tokens = self.table.num_tokens
        self.allocator.share(self.table.blocks)
        return twin

    def own(self, logical):
        source = self.table.blocks[logical]
        free = self.allocator.free_order()
        if not free:
            raise OutOfBlocks("none is free")
        self.allocator.share(free[:1])  # a block with its first owner leaves the queue
        self.table.blocks[logical] = free[0]
        self.allocator.release([source])
        return source, free[0]


def fork(table: BlockTable, allocator):
    return Shared(table, allocator).twin()


def make_writable(table: BlockTable, position, allocator):
    if position < 0:
        raise ValueError(f"{position=}")
    logical = position // table.block_size
    is_shared = logical in range(len(table.blocks)) and allocator.ref_count(table.blocks[logical]) > 1
    return Shared(table, allocator).own(logical) if is_shared else None
