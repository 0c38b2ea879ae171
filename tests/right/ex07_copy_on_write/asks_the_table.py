# Right: the table's own translate says which block covers a position, and its ValueError that none does.

from minipaged.memory.block_table import BlockTable


def fork(table, allocator):
    child = BlockTable(table.block_size)
    child.blocks, child.num_tokens = [*table.blocks], table.num_tokens
    allocator.share(child.blocks)
    return child


def make_writable(table, position, allocator):
    try:
        logical, _, source, _ = table.translate(position)
    except ValueError:
        if position < 0:
            raise
        return None
    if allocator.ref_count(source) == 1:
        return None
    allocated = allocator.allocate(1)
    allocator.release([source])
    table.blocks[logical : logical + 1] = allocated
    return source, *allocated
