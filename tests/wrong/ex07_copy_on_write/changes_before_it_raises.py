# Wrong: the old block is given up before a new one is had: it is lost where none is free.

from minipaged.memory.block_table import BlockTable


def fork(table, allocator):
    child = BlockTable(table.block_size)
    child.append_blocks(table.blocks)
    child.num_tokens = table.num_tokens
    allocator.share(table.blocks)
    return child


def make_writable(table, position, allocator):
    if position < 0:
        raise ValueError(f"position {position} is below 0")
    logical = position // table.block_size
    if logical >= len(table.blocks):
        return None
    source = table.blocks[logical]
    if allocator.ref_count(source) == 1:
        return None
    allocator.release([source])
    [destination] = allocator.allocate()
    table.blocks[logical] = destination
    return source, destination
