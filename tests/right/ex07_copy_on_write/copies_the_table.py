# Right: fork copies the whole table deeply; a full pool is seen beforehand, and the old block given up first.

from copy import deepcopy

from minipaged.memory.allocator import OutOfBlocks


def fork(table, allocator):
    child = deepcopy(table)
    for block in table.blocks:
        allocator.share([block])
    return child


def make_writable(table, position, allocator):
    if position < 0:
        raise ValueError(f"position {position} is negative")
    logical, _ = divmod(position, table.block_size)
    if logical < len(table.blocks):
        source = table.blocks[logical]
        if allocator.ref_count(source) > 1:
            if not allocator.num_free:
                raise OutOfBlocks("no block is free for a copy")
            allocator.release((source,))
            (table.blocks[logical],) = allocator.allocate()
            return source, table.blocks[logical]
    return None
