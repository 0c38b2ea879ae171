# Wrong: all shared blocks of the table are replaced, not only the one that is written.

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
    for place, block in enumerate(table.blocks):
        if allocator.ref_count(block) > 1:
            [table.blocks[place]] = allocator.allocate()
            allocator.release([block])
    destination = table.blocks[logical]
    return source, destination
