"""HostPool: blocks in the host's memory, for the sequences that had to yield and whose K and V are kept. Swapping: the
verbs with which a memory moves them there and back.

The host pool is an allocator by itself, for its ids are its own: block 3 there has nothing to do with block 3 of the
device. A sequence is there or here, never in both. Nothing here copies K or V: the pairs of blocks to copy are told,
and the cache does it. Lesson 09 walks through it. (Paper: section 4.5. vLLM's first version: core/block_manager.py; its
v1 only recomputes.)
"""

from minipaged.arguments import whole
from minipaged.events import SwappedIn, SwappedOut
from minipaged.memory.allocator import BlockAllocator
from minipaged.memory.block_table import BlockTable
from minipaged.memory.copy_on_write import num_copies_for


class HostPool(BlockAllocator):
    """num_blocks blocks. tables: seq_id -> its BlockTable of host blocks. Raises ValueError for num_blocks < 1."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.tables = {}
        self._hashes = {}  # host block -> the hash by which its content could be hit, and can be again when it is back

    def table(self, seq_id):
        """A swapped sequence's table. Raises ValueError for a sequence that isn't here."""
        if seq_id not in self.tables:
            raise ValueError(f"sequence {seq_id!r} is not in the host pool")
        return self.tables[seq_id]

    def put(self, tables, hash_of):
        """Take in sequences: seq_id -> device BlockTable. A block that several of them name is stored once.

        hash_of: device block -> the hash of its content, or None. Returns the (device block, host block) pairs to
        copy, or None if there are too few blocks, with nothing changed.
        """
        blocks = distinct(tables.values())
        if len(blocks) > self.num_free:
            return None
        there = dict(zip(blocks, self.allocate(len(blocks))))
        self._hashes |= {there[block]: hash_of(block) for block in blocks}
        self.tables |= moved(tables, there, self, BlockTable)
        return list(there.items())

    def blocks_to_return(self, seq_ids):
        """How many device blocks these sequences need to come back: theirs, and what each takes for one token more.

        Asked for nothing more than its blocks, one would come back, find no block for its next token, and yield again.
        """
        tables = [self.table(seq_id) for seq_id in seq_ids]
        to_write = [table.blocks[-1] for table in tables if table.num_tokens % table.block_size]
        one_more = sum(table.blocks_needed(table.num_tokens + 1) for table in tables)
        return len(distinct(tables)) + one_more + num_copies_for(to_write, self)

    def take(self, seq_ids):
        """Let sequences go, back to the device. Returns their tables and the hash of each of their blocks, or None."""
        tables = {seq_id: self.table(seq_id) for seq_id in seq_ids}
        hashes = {block: self._hashes[block] for block in distinct(tables.values())}
        for seq_id in tables:
            self.drop(seq_id)
        return tables, hashes

    def drop(self, seq_id):
        """Forget a sequence. Raises ValueError for one that isn't here."""
        for block in self.release(self.table(seq_id).blocks):
            del self._hashes[block]
        del self.tables[seq_id]


def distinct(tables):
    """The blocks that these tables name, each once, in the order in which they are met."""
    return list(dict.fromkeys(block for table in tables for block in table.blocks))


def moved(tables, there, allocator, new_table):
    """The same tables in another pool: seq_id -> table. Who shared blocks shares them there too.

    there: block -> its new id, allocated for one owner; every further owner is added. new_table: a table's class.
    """
    copies, named = {}, set()
    for seq_id, table in tables.items():
        copy = new_table(table.block_size)
        copy.append_blocks([there[block] for block in table.blocks])
        copy.num_tokens = table.num_tokens
        allocator.share([block for block in copy.blocks if block in named])
        named.update(copy.blocks)
        copies[seq_id] = copy
    return copies


class Swapping:
    """What PagedMemory does with its host pool. A memory without one refuses."""

    def swap_out(self, seq_ids):
        """Move sequences to the host pool, each distinct block of theirs once, and give up their blocks here: what can
        be hit still can, and other owners go on with theirs.

        Returns the (device block, host block) pairs to copy before the device blocks are written, or None if the host
        pool has too few, with nothing changed. Raises ValueError for a sequence without a table, and where there is no
        host pool.
        """
        if self.host is None:
            raise ValueError(f"swap_out of {seq_ids}: there is no host pool (num_host_blocks=0)")
        tables = {seq_id: self.table(seq_id) for seq_id in seq_ids}
        pairs = self.host.put(tables, self._hash_of)
        if pairs is None:
            return None
        freed = [block for seq_id in tables for block in self._close(seq_id)[0]]
        if self.log is not None:
            facts = tuple(tables), tuple(pairs), tuple(freed), self.allocator.num_free, self.host.num_free
            self.log.append(SwappedOut(*facts))
        return pairs

    def swap_in(self, seq_ids, extra_blocks=0):
        """Move sequences back into fresh blocks: who shared blocks shares them again, and full ones can be hit again.

        Returns the (host block, device block) pairs to copy, or None, with nothing changed, unless there are free
        blocks for theirs, for one token more of each, and extra_blocks besides. Raises ValueError for a sequence that
        isn't in the host pool.
        """
        if self.host is None:
            raise ValueError(f"swap_in of {seq_ids}: there is no host pool (num_host_blocks=0)")
        extra_blocks = whole("extra_blocks", extra_blocks, least=0)
        if self.host.blocks_to_return(seq_ids) + extra_blocks > self.allocator.num_free:
            return None
        tables, hashes = self.host.take(seq_ids)
        there = dict(zip(hashes, self.allocator.allocate(len(hashes))))
        self._taken(next(iter(tables), None), there.values())
        self._tables |= moved(tables, there, self.allocator, self._new_table)
        for block, block_hash in hashes.items():
            if block_hash is not None:
                self.prefix_cache.remember(there[block], block_hash)
        pairs = list(there.items())
        if self.log is not None:
            facts = tuple(tables), tuple(pairs), self.allocator.num_free, self.host.num_free
            self.log.append(SwappedIn(*facts))
        return pairs

    def _hash_of(self, block):
        return self.prefix_cache.hash_of(block) if self.prefix_cache is not None else None
