"""PagedMemory: the verbs with which a scheduler asks for memory, built from an allocator, one block table a sequence,
copy-on-write between them, a prefix cache, and a second pool in the host's memory.

A sequence is known by its name only. Each verb either does all that it was asked or changes nothing. Nothing here
touches K or V: the memory says which slot, the cache holds the bytes.
"""

from minipaged.arguments import whole
from minipaged.events import BlockCopied, BlocksReleased, Evicted, Forked, PrefixHit
from minipaged.memory.allocator import BlockAllocator
from minipaged.memory.block_memory import BlockMemory
from minipaged.memory.block_table import BlockTable, blocks_for
from minipaged.memory.copy_on_write import fork, make_writable, num_copies_for
from minipaged.memory.prefix_cache import PrefixCache, PrefixStats, block_hashes, forget_all, known, remember_full
from minipaged.memory.swap import HostPool, Swapping


class PagedMemory(Swapping, BlockMemory):
    """A pool of num_blocks blocks of block_size slots, shared by all sequences (paper: sections 4.2 and 4.3).

    prefix_caching: whether full blocks can be hit by a sequence that begins with the same tokens, also when nobody owns
    them any more. free_order: as for BlockAllocator. num_host_blocks: the size of the host pool, 0 for none. parts: has
    any of `allocator`, `block_table`, `fork`, `make_writable`, `block_hashes` and `prefix_cache`, to use in the place
    of minipaged's own (serving/parts.py).

    Raises ValueError for sizes below 1.
    """

    def __init__(self, num_blocks, block_size, prefix_caching=True, free_order=None, num_host_blocks=0, parts=None):
        if not isinstance(prefix_caching, bool):
            raise ValueError(f"prefix_caching={prefix_caching!r}: must be True or False")
        self.num_host_blocks = whole("num_host_blocks", num_host_blocks, least=0)
        self._free_order = free_order
        self._new_allocator = getattr(parts, "allocator", BlockAllocator)
        self._new_table = getattr(parts, "block_table", BlockTable)
        self._fork = getattr(parts, "fork", fork)
        self._make_writable = getattr(parts, "make_writable", make_writable)
        self._block_hashes = getattr(parts, "block_hashes", block_hashes)
        self._new_prefix_cache = getattr(parts, "prefix_cache", PrefixCache) if prefix_caching else None
        self.prefix_stats = PrefixStats()
        super().__init__(num_blocks, block_size)

    def clear(self):
        """Forget every sequence: a fresh pool. It holds even where a call was interrupted halfway."""
        super().clear()
        self._has_forked = False  # before a fork no last block has two owners, unless it is full
        self._num_hashed = {}  # seq_id -> how many of its tokens lie in blocks that the prefix cache knows
        self._filling = set()  # the sequences of which more blocks will be full once their new tokens are computed
        self.allocator = self._new_allocator(self.num_blocks, self._free_order)
        self.prefix_cache = self._new_prefix_cache(self.block_size) if self._new_prefix_cache else None
        self.host = HostPool(self.num_host_blocks) if self.num_host_blocks else None

    def fits_ever(self, num_prompt_tokens, max_tokens, n=1):
        """Could a request with n sequences finish if it had the pool for itself?

        The last token needs no slot, since nothing is computed after it; the prompt's full blocks are stored once.
        """
        return self.blocks_at_most(num_prompt_tokens, max_tokens, n) <= self.num_blocks

    def blocks_at_most(self, num_prompt_tokens, max_tokens, n=1):
        """The most blocks such a request can come to own."""
        shared = num_prompt_tokens // self.block_size
        if max_tokens <= 1:
            n = 1  # no sample ever writes a token of its own: all share the prompt
        return shared + n * (blocks_for(num_prompt_tokens + max_tokens - 1, self.block_size) - shared)

    def lookup(self, token_ids):
        """How many of these tokens a prefix hit would save. Changes nothing."""
        return len(self._longest_hit(token_ids)) * self.block_size

    def _longest_hit(self, token_ids):
        return self.prefix_cache.longest_hit(token_ids) if self.prefix_cache is not None else []

    def admit(self, seq_id, token_ids, max_new_tokens=0, extra_blocks=0, num_generated=0):
        """Open a table for a sequence if there is room for all its known tokens, and extra_blocks more.

        The table begins with the blocks of the longest prefix hit. Room is asked for the rest of the whole length, and
        for those hits that nobody owns now, which will no longer be free. Blocks are taken later, by grow, chunk by
        chunk. Returns how many tokens are cached already, or None where there is no room, with nothing changed. Raises
        ValueError if the sequence has a table, or no tokens. max_new_tokens and num_generated are for memories that
        reserve; this one never does.
        """
        self._demand_new(seq_id, token_ids)
        extra_blocks = whole("extra_blocks", extra_blocks, least=0)
        table, hit = self._new_table(self.block_size), self._longest_hit(token_ids)
        free_hits = [block for block in hit if self.allocator.ref_count(block) == 0]
        wanted = table.blocks_needed(len(token_ids)) - len(hit) + len(free_hits) + extra_blocks
        if wanted > self.allocator.num_free:
            return None
        self._tables[seq_id], num_cached = table, len(hit) * self.block_size
        if self.prefix_cache is not None:
            self.prefix_stats.count(len(token_ids), num_cached)
            self._num_hashed[seq_id] = num_cached
        if hit:
            self.allocator.share(hit)
            table.append_blocks(hit)
            table.num_tokens = num_cached
            if self.log is not None:
                self.log.append(PrefixHit(seq_id, tuple(hit), num_cached, len(free_hits), self.allocator.num_free))
        return num_cached

    def fork(self, parent_id, child_id):
        """Open a table for a new sequence that names all blocks of another one. Nothing is copied, no block is taken.

        Raises ValueError, with nothing changed, for a parent that isn't here and a child that is.
        """
        self._demand_absent(child_id)
        parent, self._has_forked = self.table(parent_id), True
        self._tables[child_id] = child = self._fork(parent, self.allocator)
        if self.prefix_cache is not None:
            self._num_hashed[child_id] = self._num_hashed[parent_id]
            if parent_id in self._filling:
                self._filling.add(child_id)
        if self.log is not None:
            self.log.append(Forked(parent_id, child_id, len(child.blocks), self.allocator.num_free))

    def grow(self, requests):
        """Give slots to new tokens of several sequences: [(seq_id, num_new_tokens), ...]. All get them, or none.

        Returns the (source, destination) pairs of blocks to copy before the slots are written: one for each sequence
        that would write into a block that others share, in which the last owner writes in place. Returns None if the
        pool has too few free blocks, with nothing changed. Raises ValueError, with nothing changed, for a sequence that
        isn't here or is named twice, and for less than 1 token.
        """
        if len({seq_id for seq_id, _ in requests}) < len(requests):
            raise ValueError(f"grow {requests}: a sequence may be named only once")
        needed, to_write = [], []  # to_write: the blocks, not yet full, in which these sequences go on writing
        for seq_id, num_new_tokens in requests:
            table = self.table(seq_id)
            num_new_tokens = whole("num_new_tokens", num_new_tokens, least=1)
            needed.append((seq_id, table, num_new_tokens, table.blocks_needed(table.num_tokens + num_new_tokens)))
            to_write += table.blocks[table.num_tokens // self.block_size :]  # its last block, if that has room
        num_copies = num_copies_for(to_write, self.allocator) if to_write else 0
        if num_copies + sum(num_blocks for *_, num_blocks in needed) > self.allocator.num_free:
            return None
        copies = []
        for seq_id, table, num_new_tokens, num_blocks in needed:
            # Asked only where a copy is due: nearly every grow has none.
            if num_copies and (pair := self._make_writable(table, table.num_tokens, self.allocator)):
                copies.append(pair)
                self._copied(seq_id, table, *pair)
            if num_blocks:
                self._append(seq_id, table, self.allocator.allocate(num_blocks))
            if table.num_tokens % self.block_size + num_new_tokens >= self.block_size:
                self._filling.add(seq_id)
            table.num_tokens += num_new_tokens
        return copies

    def grow_one(self, seq_id, num_new_tokens):
        """As grow([(seq_id, num_new_tokens)]), made quick for what nearly every call is: one token more, no copy."""
        table = self._tables.get(seq_id)
        if num_new_tokens != 1 or table is None:
            return self.grow([(seq_id, num_new_tokens)])
        num_tokens = table.num_tokens
        offset = num_tokens % self.block_size
        if not offset:  # its last block is full
            if not self.allocator.num_free:
                return None
            self._append(seq_id, table, self.allocator.allocate())
        elif self._has_forked and self.allocator.ref_count(table.blocks[-1]) > 1:
            return self.grow([(seq_id, 1)])
        table.num_tokens = num_tokens + 1
        if offset + 1 == self.block_size:
            self._filling.add(seq_id)
        return []

    def _copied(self, seq_id, table, source, destination):
        self._taken(seq_id, [destination])
        if self.log is not None:
            logical, owners = table.num_tokens // self.block_size, self.allocator.ref_count(source) + 1
            facts = logical, source, destination, owners, self.allocator.num_free
            self.log.append(BlockCopied(seq_id, *facts))

    def _taken(self, seq_id, blocks):
        """Blocks came from the free queue: what they held is lost, whoever could have hit it."""
        super()._taken(seq_id, blocks)
        evicted = forget_all(self.prefix_cache, blocks)
        self.prefix_stats.evictions += len(evicted)
        if evicted and self.log is not None:
            self.log.append(Evicted(seq_id, tuple(evicted)))

    def commit(self, seq_id, token_ids, num_computed_tokens):
        """Note that K and V of a sequence's first num_computed_tokens tokens are written: of these token_ids.

        From now on its full blocks can be hit. Raises ValueError, with nothing changed, unless exactly so many have
        slots (the memory and the scheduler then disagree), and for too few token_ids to tell what a block holds.
        """
        table = self._tables.get(seq_id) or self.table(seq_id)
        if num_computed_tokens != table.num_tokens:
            told = f"{num_computed_tokens} tokens computed, but {table.num_tokens} have slots"
            raise ValueError(f"sequence {seq_id!r}: {told}")
        if seq_id in self._filling:
            if self.prefix_cache is not None:
                parts = self.prefix_cache, self._block_hashes
                self._num_hashed[seq_id] = remember_full(*parts, table, token_ids, self._num_hashed[seq_id])
            self._filling.remove(seq_id)

    def release(self, seq_id):
        """Close a sequence's table and give up its blocks; those that can be hit are used again last.

        Raises ValueError for a sequence that has none, here or in the host pool.
        """
        if self.host is not None and seq_id in self.host.tables:
            self._forget_progress(seq_id)
            self.host.drop(seq_id)
            return
        freed, kept = self._close(seq_id)
        self._forget_progress(seq_id)
        if self.log is not None:
            self.log.append(BlocksReleased(seq_id, tuple(freed), self.allocator.num_free, tuple(kept)))

    def _forget_progress(self, seq_id):
        self._num_hashed.pop(seq_id, None)
        self._filling.discard(seq_id)

    def _close(self, seq_id):
        """Returns the blocks that nobody owns now, and those of them whose content can still be hit."""
        blocks = self.table(seq_id).blocks
        freed = self.allocator.release(blocks, set(known(self.prefix_cache, blocks)))
        kept = known(self.prefix_cache, freed)
        del self._tables[seq_id]
        self._released.update(set(freed).difference(kept))
        return freed, kept

    def reset_prefix_cache(self):
        """Forget what can be hit; the order of the free blocks stays. Returns False, with nothing changed, while any
        sequence has a table: blocks that it goes on with would no longer be known by their content."""
        if self._tables or (self.host is not None and self.host.tables):
            return False
        if self.prefix_cache is not None:
            self.prefix_cache.clear()
        return True

    def cached(self):
        """The blocks that nobody owns and whose content can still be hit, the next to be lost first."""
        return known(self.prefix_cache, self.allocator.free_order())
