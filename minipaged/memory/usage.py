"""How the slots of a paged memory are used at one moment: counted from its tables, by anybody who asks."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Usage:
    """The pool's slots, by use. Allocated but not used is the tail waste: the rest of last blocks.

    A block that several tables name counts once. What that saves is what they would hold more, each with its own.
    """

    used_slots: int  # hold a token's K and V
    allocated_slots: int  # belong to some block table
    cached_slots: int  # belong to none, but their content can still be hit
    total_slots: int
    saved_slots: int = field(default=0, kw_only=True)  # tokens of all sequences, less used_slots
    saved_blocks: int = field(default=0, kw_only=True)  # entries of all tables, less the distinct blocks


def filled_of(tables, block_size):
    """Block id -> how many of its slots hold a token, for every block in some table: the most any owner stored."""
    filled = {}
    for table in tables:
        for logical, block in enumerate(table.blocks):
            stored = min(block_size, table.num_tokens - logical * block_size)
            filled[block] = max(stored, filled.get(block, 0))
    return filled


def usage_of(tables, block_size, num_blocks, num_cached=0):
    """The Usage of a pool of num_blocks blocks, of which num_cached are cached and in none of these tables."""
    filled = filled_of(tables, block_size)
    used_slots = sum(filled.values())
    return Usage(
        used_slots,
        allocated_slots=len(filled) * block_size,
        cached_slots=num_cached * block_size,
        total_slots=num_blocks * block_size,
        saved_slots=sum(table.num_tokens for table in tables) - used_slots,
        saved_blocks=sum(len(table.blocks) for table in tables) - len(filled),
    )
