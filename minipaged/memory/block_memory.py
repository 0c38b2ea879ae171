"""BlockMemory: what both memories have, the paged one and the one it replaces: a pool of blocks, a block table for each
sequence, and a note of the blocks that changed hands. Each of the two says for itself who gets which blocks.
"""

from minipaged.arguments import whole
from minipaged.events import BlocksTaken
from minipaged.memory.usage import filled_of, usage_of


class BlockMemory:
    """num_blocks blocks of block_size slots. A sequence is known by its name only.

    log: a list that events are appended to, or None. Raises ValueError for sizes below 1.
    """

    prefix_cache = None  # unless a memory has one
    host = None  # a second pool, likewise

    def __init__(self, num_blocks, block_size):
        self.block_size = whole("block_size", block_size, least=1)
        self.num_blocks = whole("num_blocks", num_blocks, least=1)
        self.log = None
        self.clear()

    def clear(self):
        """Forget every sequence: a fresh pool. It holds even where a call was interrupted halfway."""
        self._tables = {}
        self._handed_out, self._released = set(), set()

    def lookup(self, token_ids):
        """How many of these tokens a prefix hit would save. Changes nothing."""
        return 0

    def grow_one(self, seq_id, num_new_tokens):
        """As grow([(seq_id, num_new_tokens)])."""
        return self.grow([(seq_id, num_new_tokens)])

    def commit(self, seq_id, token_ids, num_computed_tokens):
        """Note that K and V of a sequence's first num_computed_tokens tokens are written: of these token_ids.

        Raises ValueError, with nothing changed, unless exactly so many have slots (the memory and the scheduler then
        disagree).
        """
        num_slots = self.table(seq_id).num_tokens
        if num_computed_tokens != num_slots:
            raise ValueError(f"sequence {seq_id!r}: {num_computed_tokens} tokens computed, but {num_slots} have slots")

    def table(self, seq_id):
        """A sequence's block table, to be read only. Raises ValueError for a sequence that has none."""
        if seq_id not in self._tables:
            raise ValueError(f"sequence {seq_id!r} is not in this memory")
        return self._tables[seq_id]

    def sequences(self):
        """The names of all sequences that have a table, in the order in which these were opened."""
        return list(self._tables)

    def take_moved(self):
        """The blocks handed out since this was last asked, and those freed whose content can't be hit: two lists of
        ids, ascending. Nobody may read them before they are written."""
        handed_out, released = sorted(self._handed_out), sorted(self._released)
        self._handed_out.clear()
        self._released.clear()
        return handed_out, released

    def filled(self):
        """Block id -> how many of its slots hold a token, for every block in some table."""
        return filled_of(self._tables.values(), self.block_size)

    def cached(self):
        """The blocks that nobody owns and whose content can still be hit, the next to be lost first."""
        return []

    def usage(self):
        """How the pool's slots are used at this moment; a block named by several tables counts once."""
        return usage_of(list(self._tables.values()), self.block_size, self.num_blocks, len(self.cached()))

    def _demand_absent(self, seq_id):
        """Raise ValueError if a sequence is in this memory already, on the device or in the host pool."""
        if seq_id in self._tables or (self.host is not None and seq_id in self.host.tables):
            raise ValueError(f"sequence {seq_id!r} is in this memory already")

    def _demand_new(self, seq_id, token_ids):
        """Raise ValueError if a sequence can't be admitted, whatever room there is."""
        self._demand_absent(seq_id)
        if not token_ids:
            raise ValueError(f"sequence {seq_id!r} has no tokens: at least 1 is needed")

    def _append(self, seq_id, table, blocks):
        first_logical = len(table.blocks)
        last_was_full = 0 < table.num_tokens == first_logical * self.block_size
        table.append_blocks(blocks)
        self._taken(seq_id, blocks)
        if self.log is not None:
            self.log.append(BlocksTaken(seq_id, first_logical, last_was_full, tuple(blocks), self.allocator.num_free))

    def _taken(self, seq_id, blocks):
        """Blocks came from the free ones, for this sequence: what they held is lost."""
        self._handed_out.update(blocks)
