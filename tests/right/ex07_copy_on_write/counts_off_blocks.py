# Right: no division, the blocks are walked through one by one; the table gets a new list.

from minipaged.memory.block_table import BlockTable


def fork(table, allocator):
    child = BlockTable(table.block_size)
    for block in table.blocks:
        child.append_blocks([block])
    allocator.share(iter(table.blocks))
    child.num_tokens += table.num_tokens
    return child


def make_writable(table, position, allocator):
    if position < 0:
        raise ValueError("positions count from 0")
    first = 0
    for logical, source in enumerate(table.blocks):
        if first <= position < first + table.block_size:
            if allocator.ref_count(source) < 2:
                return None
            destination = allocator.allocate(1)[0]
            table.blocks = table.blocks[:logical] + [destination] + table.blocks[logical + 1 :]
            allocator.release([source])
            return (source, destination)
        first += table.block_size
    return None
