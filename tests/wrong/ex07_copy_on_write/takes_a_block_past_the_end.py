# Wrong: past the table a new block is appended here.

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
        table.append_blocks(allocator.allocate())
        return None
    source = table.blocks[logical]
    if allocator.ref_count(source) == 1:
        return None
    [destination] = allocator.allocate()
    table.blocks[logical] = destination
    allocator.release([source])
    return source, destination
