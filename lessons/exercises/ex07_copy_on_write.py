"""Exercise 07: copy-on-write.

Goal: let two sequences that begin alike share their blocks, until one of them writes into a block that both read.

    table         a BlockTable. block_size: how many slots a block has; blocks: a list of block ids, blocks[i] is the
                  physical block of logical block i; num_tokens: how many tokens are stored. BlockTable(block_size) is
                  an empty one, and append_blocks(ids) appends to its blocks
    allocator     counts the owners of every block. allocate(n=1) takes n free blocks, each has one owner then, and
                  returns their ids, a list; it raises OutOfBlocks, with nothing changed, if fewer are free. share(ids)
                  adds an owner to each id, release(ids) takes one away, ref_count(id) tells how many there are. It has
                  num_free and free_order() too. Use nothing else of it: what is inside may be of any kind
    position      where a token stands in its sequence, counted from 0; any block_size of them lie in a block
    source        the id of a block that is to be copied
    destination   the id of the block that it is to be copied to

Edit below the line, not the tests. About 15 lines, 25 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex07 --impl yours -x

Hints: python -m minipaged.exercises hint ex07
"""

from minipaged.memory.allocator import OutOfBlocks  # noqa: F401 (for you to use)
from minipaged.memory.block_table import BlockTable  # noqa: F401 (for you to use)

# ------------------------------------------------------------------------------------------------ edit below this line


def fork(table, allocator):
    """A second table, for a sequence that goes on from where `table`'s has come to. Returns a new BlockTable.

    It has the same block_size and num_tokens, and names the same blocks in the same order: all of them, full or not.
    Each of these blocks has one owner more then; no block is taken or copied. `table` itself stays as it is. From here
    on the two go different ways: what is appended to one table, or replaced in it, doesn't show in the other.
    """
    raise NotImplementedError("ex07: fork is yours to write")


def make_writable(table, position, allocator):
    """The sequence of `table` is about to write its token at `position`: see to it that nobody else owns that block.

    If the block has other owners, a free one takes its place in table.blocks, and the sequence gives up its share of
    the old one. Returns the tuple (source, destination), the old block and the new one: whoever called this copies what
    is in them, before anything is written. Nothing else changes: no other entry, no other table, not num_tokens.

    Returns None, with nothing changed, if there is nothing to copy: the block has this one owner only, or `position`
    lies past the blocks of the table. (A block for it is taken later, and not here.)

    `position` may lie in any block, not only the last, whether a token is stored there yet or not. Raises ValueError
    for a position below 0, and OutOfBlocks if a block is needed and none is free, both with nothing changed.
    """
    raise NotImplementedError("ex07: make_writable is yours to write")
