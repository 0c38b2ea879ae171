"""Sound: is what was read from a file a state that an engine could be in? What isn't would fail when it is drawn."""

import re
from dataclasses import fields, replace
from types import NoneType

# A snapshot's words, also those that no engine here uses.
STATES = ("used", "cached", "free", "reserved")
MEMORIES = ("paged", "max", "pow2", "oracle")
STATUSES = ("waiting", "running", "preempted", "swapped", "finished")


def check_types(record):
    """Raise ValueError for a field of a dataclass that isn't of the type it is declared with."""
    for field in fields(record):
        value, expected = getattr(record, field.name), field.type or NoneType
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is int):
            raise ValueError(f"{type(record).__name__}.{field.name}={value!r}")


def check_sound(snapshot, last=None):
    """Raise ValueError for a snapshot that no engine could have, or not after `last`, the one before it."""
    if last and last.part + 1 == snapshot.part:  # the second half begins, with another engine
        must(snapshot.step == last.step + 1 and not snapshot.events)
        last = None
        snapshot = replace(snapshot, step=0, part=0)
    for record in (snapshot, snapshot.usage, *snapshot.blocks, *snapshot.sequences, *(e.fact for e in snapshot.events)):
        check_types(record)
    block_size, num_blocks, usage = snapshot.block_size, snapshot.num_blocks, snapshot.usage
    names = {seq.name for seq in snapshot.sequences}
    must(block_size > 0 and len(snapshot.blocks) == num_blocks)
    must(all(block.id == i for i, block in enumerate(snapshot.blocks)))
    must(usage.total_slots == num_blocks * block_size > 0 and usage.max_would_reserve >= 0)
    must(0 <= usage.used_slots <= usage.allocated_slots <= usage.total_slots and snapshot.budget > 0)
    must(usage.cached_slots == sum(block.state == "cached" for block in snapshot.blocks) * block_size)
    must(usage.reserved_slots == sum(block.state == "reserved" for block in snapshot.blocks) * block_size)
    must(usage.allocated_slots + usage.cached_slots + usage.reserved_slots <= usage.total_slots)
    must(snapshot.memory in MEMORIES and (snapshot.memory != "paged" or not usage.reserved_slots))
    must(0 <= usage.saved_slots <= sum(seq.num_computed_tokens for seq in snapshot.sequences))
    must(0 <= usage.saved_blocks <= sum(len(seq.block_table) for seq in snapshot.sequences))
    must(snapshot.step == (last.step + 1 if last else 0) and snapshot.part == (last.part if last else 0))
    must(not last or (last.block_size, last.num_blocks, last.budget) == (block_size, num_blocks, snapshot.budget))
    must(not last or last.memory == snapshot.memory)
    must(len(names) == len(snapshot.sequences) and set(snapshot.queue) <= names)
    must(all(type(i) is int and 0 <= i < num_blocks for i in snapshot.free_order))
    for block in snapshot.blocks:
        must(block.state in STATES and 0 <= block.filled <= block_size and set(block.owners) <= names)
        must(0 <= block.ref_count <= len(names) and (block.hash is None or re.fullmatch("[0-9a-f]{8}", block.hash)))
        if block.state == "cached":
            must(not block.ref_count and not block.owners and block.filled == block_size and block.hash is not None)
        if block.state == "reserved":
            must(block.ref_count == 1 == len(block.owners) and block.filled == 0 and block.hash is None)
        must(len(block.texts) in (0, block_size if block.state == "cached" else 0))
        must(all(isinstance(text, str) for text in block.texts))
    check_storage(snapshot.storage)
    must(not last or last.storage == snapshot.storage)
    check_host(snapshot, names, last)
    for seq in snapshot.sequences:
        must(seq.status in STATUSES and seq.num_tokens == len(seq.tokens) == len(seq.token_texts))
        must(all(isinstance(text, str) for text in seq.token_texts))
        must(seq.device in ("gpu", "host", None) and (snapshot.host is not None or not seq.is_swapped))
        pool = snapshot.host if seq.is_swapped else snapshot
        must(all(type(i) is int and 0 <= i < pool.num_blocks for i in seq.block_table))
        must(0 <= seq.num_computed_tokens <= min(seq.num_tokens, len(seq.block_table) * block_size))
        must(0 <= seq.num_prompt_tokens <= seq.num_tokens)
        for logical, block in enumerate(seq.block_table):  # whoever shares a block has all that it holds
            must(logical * block_size + pool.blocks[block].filled <= seq.num_tokens)
    for event in snapshot.events:
        must(all(type(i) is int and 0 <= i < num_blocks for i in event.table or ()))
        must(all(isinstance(flag, bool) for flag in (event.dropped, event.may_hit, event.in_run, event.swapped)))
        must(event.why)  # made here, because a fact that can't be told raises


def check_storage(storage):
    """The same for what is told about bytes, if anything is."""
    if storage is not None:
        check_types(storage)
        must(storage.bytes_per_token > 0 and storage.num_bytes > 0)
        must(all(isinstance(name, str) and type(number) is int and number >= 0 for name, number in storage.others))


def check_host(snapshot, names, last):
    """The same for the host pool, if there is one."""
    host = snapshot.host
    must(not last or (host is None) == (last.host is None))
    if host is None:
        return
    for record in (host, *host.blocks):
        check_types(record)
    must(len(host.blocks) == host.num_blocks > 0 and (not last or last.host.num_blocks == host.num_blocks))
    must(all(type(i) is int and 0 <= i < host.num_blocks for i in host.free_order))
    for i, block in enumerate(host.blocks):
        must(block.id == i and 0 <= block.filled <= snapshot.block_size and set(block.owners) <= names)
        must(0 <= block.ref_count <= len(names))


def must(condition):
    if not condition:
        raise ValueError("no engine could be in this state")
