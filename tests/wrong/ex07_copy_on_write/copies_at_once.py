# Wrong: the fork gets blocks of its own, so that nothing is shared.

from minipaged.memory.block_table import BlockTable


def fork(table, allocator):
    child = BlockTable(table.block_size)
    child.append_blocks(allocator.allocate(len(table.blocks)))
    child.num_tokens = table.num_tokens
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
    [destination] = allocator.allocate()
    table.blocks[logical] = destination
    allocator.release([source])
    return source, destination
