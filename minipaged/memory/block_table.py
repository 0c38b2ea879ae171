"""One sequence's map from logical to physical: its tokens look like one run and lie scattered over blocks.

The table only remembers and translates. It never allocates or frees a block; PagedMemory does. Lesson 04 builds it.
"""

from minipaged.arguments import whole


def blocks_for(num_tokens, block_size):
    """How many blocks hold num_tokens tokens: the quotient rounded up (// rounds down, so negate twice)."""
    return -(-num_tokens // block_size)


class BlockTable:
    """blocks[i] is the physical block that holds positions i * block_size up to (i + 1) * block_size - 1.

    num_tokens is how many tokens own a slot. Between steps it equals the sequence's num_computed_tokens.
    Raises ValueError for block_size < 1. (Paper: section 4.2. vLLM: v1/core/single_type_kv_cache_manager.py keeps each
    request's list as req_to_blocks, v1/worker/block_table.py turns lists into slots.)
    """

    __slots__ = ("block_size", "blocks", "num_tokens")  # read for every sequence in every step: faster so

    def __init__(self, block_size):
        self.block_size = whole("block_size", block_size, least=1)
        self.blocks = []
        self.num_tokens = 0

    def append_blocks(self, ids):
        """Continue the sequence in these physical blocks."""
        self.blocks.extend(ids)

    def blocks_needed(self, n):
        """How many blocks are still to be appended so that n tokens in all have slots."""
        return max(0, blocks_for(n, self.block_size) - len(self.blocks))

    def translate(self, position):
        """Position -> (logical block, offset in it, physical block id, slot).

        Raises ValueError for a position that no block of the table covers.
        """
        if not 0 <= position < len(self.blocks) * self.block_size:
            raise ValueError(
                f"position {position} has no slot: the table's {len(self.blocks)} blocks of {self.block_size} "
                f"cover {len(self.blocks) * self.block_size} positions, counted from 0"
            )
        logical, offset = divmod(position, self.block_size)
        block_id = self.blocks[logical]
        return logical, offset, block_id, block_id * self.block_size + offset

    def slot(self, position):
        """Position -> slot: where this token's K and V live. Raises ValueError as translate does."""
        return self.translate(position)[3]

    def slots(self, start, stop):
        """The slots of positions start .. stop - 1. Raises ValueError as translate does."""
        if start > stop:
            raise ValueError(f"slots from {start} to {stop}: the start must not lie behind the stop")
        blocks, size = self.blocks, self.block_size
        if start < stop and not 0 <= start < stop <= len(blocks) * size:
            for position in (start, stop - 1):
                self.translate(position)  # raises for the one that has no slot
        return [blocks[position // size] * size + position % size for position in range(start, stop)]
