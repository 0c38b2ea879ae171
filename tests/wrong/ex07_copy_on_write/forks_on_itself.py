# Wrong: the table itself is returned as its own fork.


def fork(table, allocator):
    child = table
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
    [destination] = allocator.allocate()
    table.blocks[logical] = destination
    allocator.release([source])
    return source, destination
