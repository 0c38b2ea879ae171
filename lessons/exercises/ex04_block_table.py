"""Exercise 04: the block table.

Goal: remember a sequence's physical blocks in logical order, and say in which slot each of its tokens lies.

    block_size    how many slots a block has: any whole number from 1, not only powers of two
    blocks        a list: blocks[i] is the physical id of logical block i. Ids count from 0 and come in any order.
                  Others read this list too, and lesson 07 puts another id into an entry: always go by what it says now
    num_tokens    how many tokens are stored. Whoever uses the table sets it; no method here changes it
    position      where a token stands in its sequence, counted from 0. The table covers the positions from 0 to
                  len(blocks) * block_size - 1: these have a slot, whether a token is stored there yet or not
    slot          a place in the pool: slots 0 .. block_size - 1 are those of block 0, the next block_size are those of
                  block 1, and so on

Edit below the line, not the tests. About 10 lines, 20 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex04 --impl yours -x

Hints: python -m minipaged.exercises hint ex04
"""

# ------------------------------------------------------------------------------------------------ edit below this line


class BlockTable:
    """One sequence's map from logical to physical. It never allocates or frees a block."""

    def __init__(self, block_size):  # given
        self.block_size = block_size
        self.blocks = []
        self.num_tokens = 0

    def append_blocks(self, ids):
        """Continue the sequence in these physical blocks. ids: a list or a tuple, perhaps an empty one.

        It belongs to the caller: it is not changed here, and what the caller does to it later changes nothing here.
        """
        raise NotImplementedError("ex04: BlockTable.append_blocks is yours to write")

    def blocks_needed(self, n):
        """How many blocks must still be appended so that n tokens in all have slots? A whole number, 0 or more.

        n is 0 or more and counts from the sequence's first token: tokens that have a slot already are among the n.
        """
        raise NotImplementedError("ex04: BlockTable.blocks_needed is yours to write")

    def translate(self, position):
        """Position -> (logical block, offset in it, physical block id, slot), a tuple of four whole numbers.

        Raises ValueError for a position that the table doesn't cover, be it negative or too large.
        """
        raise NotImplementedError("ex04: BlockTable.translate is yours to write")

    def slot(self, position):  # given
        """Position -> slot. Raises ValueError as translate does."""
        return self.translate(position)[3]

    def slots(self, start, stop):
        """The slots of positions start .. stop - 1, in this order: a list, empty if start == stop.

        Raises ValueError if start > stop, and if the table doesn't cover every one of these positions.
        """
        raise NotImplementedError("ex04: BlockTable.slots is yours to write")
