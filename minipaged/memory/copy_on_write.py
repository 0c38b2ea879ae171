"""Two sequences that begin alike share blocks, until one of them writes: a fork copies block ids, and no K or V.

A block may only be written by its single owner. So whoever is to write into one that others share takes a block of its
own first, and the content is copied into it. Nothing here copies the content: that is told, and the cache does it.
Lesson 07 builds it. (Paper: section 4.4, Figure 8. vLLM's v1 has none: each sample is a request that hits the prompt's
full blocks.)
"""

from collections import Counter

from minipaged.arguments import whole


def fork(table, allocator):
    """A second table that names the same blocks: each of them has one owner more then. Returns it.

    Raises what the allocator raises, with nothing changed.
    """
    child = type(table)(table.block_size)
    child.append_blocks(list(table.blocks))  # copied, whatever append_blocks does: from here on the two go apart
    child.num_tokens = table.num_tokens
    allocator.share(child.blocks)
    return child


def make_writable(table, position, allocator):
    """See to it that a sequence is the only owner of the block in which it is about to write `position`.

    If others share that block, a fresh one takes its place in the table: returns (source, destination), and the source
    must be copied to the destination before anything is written. Returns None where there is nothing to copy: the last
    owner of a block writes in place, and no block covers a position past the end of the table. Raises OutOfBlocks, and
    ValueError for a position below 0, with nothing changed.
    """
    logical = whole("position", position, least=0) // table.block_size
    if logical >= len(table.blocks):
        return None
    source = table.blocks[logical]
    if allocator.ref_count(source) == 1:
        return None
    [destination] = allocator.allocate(1)
    table.blocks[logical] = destination
    allocator.release([source])  # one owner fewer: somebody else still reads it
    return source, destination


def num_copies_for(blocks, allocator):
    """How many blocks must be copied if each of these is written into, once for each time that it is named.

    A block that m of its owners are about to write into costs m copies, or m - 1 if nobody else owns it: the last of
    them writes in place.
    """
    return sum(min(times, allocator.ref_count(block) - 1) for block, times in Counter(blocks).items())
