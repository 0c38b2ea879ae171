"""check(memory): every invariant of a memory, paged or contiguous, in one place. Tests call it after every step.

It uses public methods only, so that another allocator or table can be checked as well.
"""

from collections import Counter

from minipaged.memory.block_table import blocks_for
from minipaged.memory.contiguous import ContiguousMemory


class BrokenInvariant(Exception):
    """The memory contradicts itself. The message says where."""


def check(memory, shadow=None):
    """Raise BrokenInvariant unless the memory, as it stands between two steps, is consistent.

    shadow: a ShadowSlots that has seen every write; then each slot must hold the token that its table says it holds.
    """
    allocator = memory.allocator
    free = allocator.free_order()
    _demand(len(free) == allocator.num_free, f"num_free is {allocator.num_free}, the free queue has {len(free)} blocks")
    is_free = set(free)
    _demand(len(is_free) == len(free), f"a block is twice in the free queue {free}")

    tables = {seq_id: memory.table(seq_id) for seq_id in memory.sequences()}
    named = Counter(block for table in tables.values() for block in table.blocks)
    is_contiguous = isinstance(memory, ContiguousMemory)
    owners, own = (check_runs(memory, tables), "runs hold") if is_contiguous else (named, "tables name")
    for block in range(memory.num_blocks):
        count = allocator.ref_count(block)
        _demand(count == owners[block], f"block {block} has ref_count {count}, but {owners[block]} {own} it")
        queue = "in the free queue" if block in is_free else "not in the free queue"
        _demand((count == 0) == (block in is_free), f"block {block} has {count} owners and is {queue}")
    _demand(set(named) <= set(range(memory.num_blocks)), f"a table names a block that isn't in the pool: {set(named)}")

    logical_of = {}  # a block is shared with what came before it, so all tables name it at the same place
    for seq_id, table in tables.items():
        blocks = blocks_for(table.num_tokens, memory.block_size)
        _demand(
            len(table.blocks) == blocks,
            f"{seq_id}: {table.num_tokens} tokens fill {blocks} blocks of {memory.block_size}, not {len(table.blocks)}",
        )
        size, slots = memory.block_size, table.slots(0, table.num_tokens)
        walked = [block * size + offset for block in table.blocks for offset in range(size)][: table.num_tokens]
        _demand(slots == walked, f"{seq_id}: its blocks {table.blocks} hold the slots {walked}, not {slots}")
        _demand(len(set(table.blocks)) == len(table.blocks), f"{seq_id}: a block is twice in its table {table.blocks}")
        for logical, block in enumerate(table.blocks):
            first = logical_of.setdefault(block, logical)
            _demand(first == logical, f"{seq_id}: its logical block {logical} is {block}, elsewhere logical {first}")
        if shadow is not None:
            shadow.demand_holds(seq_id, table)

    if memory.prefix_cache is not None:
        check_prefix_cache(memory, tables, is_free)
    if memory.host is not None:
        check_host(memory.host, tables)

    usage = memory.usage()
    within = 0 <= usage.used_slots <= usage.allocated_slots <= usage.total_slots - usage.cached_slots
    _demand(within, f"usage doesn't add up: {usage}")
    _demand(usage.allocated_slots == len(named) * memory.block_size, f"{len(named)} blocks are in tables, but {usage}")
    stored = sum(table.num_tokens for table in tables.values())
    _demand(usage.used_slots + usage.saved_slots == stored, f"all tables together have {stored} tokens, but {usage}")
    shared = sum(named.values()) - len(named)
    _demand(usage.saved_blocks == shared, f"tables name blocks {shared} times more than there are of them, but {usage}")


def check_host(host, tables):
    """The host pool's counts agree with its own tables, and nobody is in both pools."""
    both = set(host.tables) & set(tables)
    _demand(not both, f"{sorted(both)}: on the device and in the host pool")
    free = set(host.free_order())
    named = Counter(block for table in host.tables.values() for block in table.blocks)
    for block in range(host.num_blocks):
        count = host.ref_count(block)
        _demand(count == named[block], f"host block {block} has ref_count {count}, but {named[block]} tables name it")
        _demand((count == 0) == (block in free), f"host block {block} has {count} owners and is free: {block in free}")
    for seq_id, table in host.tables.items():
        wanted = blocks_for(table.num_tokens, table.block_size)
        _demand(len(table.blocks) == wanted, f"{seq_id}: {len(table.blocks)} host blocks for {table.num_tokens} tokens")


def check_runs(memory, tables):
    """One run a sequence, such as a buddy allocator makes, its table at the front. Block -> in how many runs it is."""
    runs = memory.runs()
    _demand(list(runs) == list(tables), f"there are runs of {list(runs)}, but tables of {list(tables)}")
    for seq_id, run in runs.items():
        _demand(len(run) & (len(run) - 1) == 0, f"{seq_id}: its run {run} is no power of two long")
        _demand(run.start % len(run) == 0, f"{seq_id}: its run {run} doesn't begin at a multiple of its length")
        _demand(run.start >= 0 and run.stop <= memory.num_blocks, f"{seq_id}: its run {run} leaves the pool")
        table = tables[seq_id].blocks
        _demand(table == list(run)[: len(table)], f"{seq_id}: its table {table} isn't the beginning of its run {run}")
    for seq_id, run, slots in zip(runs, runs.values(), memory.layout().runs):
        _demand(slots.size <= len(run) * memory.block_size, f"{seq_id}: {slots.size} slots aren't in its run {run}")
    owners = Counter(block for run in runs.values() for block in run)
    shared = [block for block, count in owners.items() if count > 1]
    _demand(not shared, f"blocks {shared} are in several runs")
    usage = memory.usage()
    columns = usage.states, usage.reserved, usage.internal, usage.rounding, usage.external
    _demand(min(columns) >= 0 and sum(columns) == usage.total_slots, f"the columns don't add up to the pool: {usage}")
    return owners


def check_prefix_cache(memory, tables, is_free):
    """What can be hit is exactly what is full: every full block of a table, no other, and blocks that were that."""
    known = {block for block in range(memory.num_blocks) if memory.prefix_cache.hash_of(block) is not None}
    for seq_id, table in tables.items():
        num_full = table.num_tokens // memory.block_size
        for logical, block in enumerate(table.blocks):
            wrong = f"{seq_id}: its logical block {logical}, block {block}, "
            _demand(block in known or logical >= num_full, wrong + "is full and can't be hit")
            _demand(block not in known or logical < num_full, wrong + "can be hit and isn't full")
        hashes = [memory.prefix_cache.hash_of(block) for block in table.blocks[:num_full]]
        _demand(
            len(set(hashes)) == num_full, f"{seq_id}: two of its blocks have the same hash, {table.blocks[:num_full]}"
        )
    cached_slots = len(known & is_free) * memory.block_size
    _demand(memory.usage().cached_slots == cached_slots, f"{cached_slots} slots can be hit, but {memory.usage()}")


class ShadowSlots:
    """Remembers for every slot which position of which sequence was last written there, and who inherited it.

    A stale slot, one that two sequences believe to own, and a write into a block that others still read show without a
    model and without tensors.
    """

    def __init__(self):
        self._holds = {}  # slot -> {sequence: position}, several where a block is shared
        self._host = {}  # host block -> what each of its slots holds, likewise

    def write(self, memory, seq_id, start, stop):
        """Positions start .. stop - 1 of a sequence are written into the slots that its table names."""
        table = memory.table(seq_id)
        for position, slot in zip(range(start, stop), table.slots(start, stop)):
            owners = memory.allocator.ref_count(slot // memory.block_size)
            _demand(owners == 1, f"{seq_id} writes position {position} into a block with {owners} owners, slot {slot}")
            cache = memory.prefix_cache
            can_be_hit = cache is not None and cache.hash_of(slot // memory.block_size) is not None
            _demand(not can_be_hit, f"{seq_id} writes position {position} into a block that can be hit, slot {slot}")
            self._holds[slot] = {seq_id: position}

    def copy(self, source, destination, block_size):
        """A block is copied: whatever the source's slots hold, the destination's hold as well."""
        for offset in range(block_size):
            self._holds[destination * block_size + offset] = dict(self._holds.get(source * block_size + offset, {}))

    def swap_out(self, pairs, block_size):
        """Blocks are copied to the host pool."""
        for source, destination in pairs:
            self._host[destination] = [dict(self._holds.get(source * block_size + i, {})) for i in range(block_size)]

    def swap_in(self, pairs, block_size):
        """Blocks are copied back."""
        for source, destination in pairs:
            for offset, holds in enumerate(self._host[source]):
                self._holds[destination * block_size + offset] = dict(holds)

    def fork(self, parent, child):
        """Whatever the parent's slots hold of it is the child's as well."""
        for holds in self._holds.values():
            if child in holds:  # an earlier sequence with this name: what it wrote may still be hit
                holds["an earlier " + child] = holds.pop(child)
            if parent in holds:
                holds[child] = holds[parent]

    def hit(self, seq_id, blocks, block_size):
        """A sequence begins with these blocks: each slot must hold the same position of whoever wrote it."""
        for position in range(len(blocks) * block_size):
            slot = blocks[position // block_size] * block_size + position % block_size
            holds = self._holds.get(slot, {})
            found = position in holds.values()
            _demand(found, f"{seq_id} hits slot {slot} for position {position}, and it holds {holds}")
            holds[seq_id] = position

    def demand_holds(self, seq_id, table):
        """Raise BrokenInvariant unless every position of the table finds itself in its slot."""
        for position, slot in enumerate(table.slots(0, table.num_tokens)):
            holds = self._holds.get(slot, {})
            _demand(holds.get(seq_id) == position, f"slot {slot} holds {holds}, its table says ({seq_id}, {position})")


def _demand(holds, message):
    if not holds:
        raise BrokenInvariant(message)
