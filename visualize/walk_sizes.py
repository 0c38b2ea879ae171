"""The sizes of a walk through the decode kernel: one sequence, its block table, and how the work on it is cut up.

Plain numbers, checked where they come in. This file imports neither torch nor triton.
"""

import math
import random
from dataclasses import dataclass
from functools import cached_property

from minipaged.arguments import whole
from minipaged.attention.triton import geometry

MAX_BLOCK_SIZE = 64
MAX_KEYS = 1024
MAX_TILE = 256
MAX_HEADS = 64
MAX_BLOCK_ID = 9999  # of a table that is given
HEAD_DIM = 4  # few enough that an output can be shown whole
# The first three as in the paper's figure 6; the others are as good as any.
PLACES = (7, 1, 3, 12, 5, 0, 14, 9, 2, 11, 6)


@dataclass(frozen=True)
class Sizes:
    """One query of one sequence, over seq_len keys that lie where `table` says.

    heads: (query heads, KV heads). table: physical block ids, logical order; None: scattered ones. seed: of the numbers
    in q, K and V. Raises ValueError for what the kernel does not take, or no picture shows.
    """

    block_size: int = 4
    seq_len: int = 41
    tile_size: int = 16
    num_splits: int = 1
    heads: tuple = (4, 2)
    table: tuple | None = None
    seed: int = 0

    def __post_init__(self):
        def keep(name, value):
            object.__setattr__(self, name, value)

        keep("block_size", whole("block_size", self.block_size, 1, MAX_BLOCK_SIZE))
        keep("seq_len", whole("seq_len", self.seq_len, 0, MAX_KEYS))
        keep("tile_size", whole("tile_size", self.tile_size, geometry.LEAST, MAX_TILE))
        geometry.check_tile_size(self.tile_size)
        keep("num_splits", whole("num_splits", self.num_splits, 1, geometry.MAX_SPLITS))
        keep("seed", whole("seed", self.seed, 0, 2**31))
        keep("heads", heads_of(self.heads))
        keep("table", scattered(self.num_blocks_read, self.seed) if self.table is None else self._checked(self.table))

    def _checked(self, table):
        try:
            ids = [whole("an entry of table", block, -math.inf, MAX_BLOCK_ID) for block in table]
        except TypeError:
            raise ValueError(f"table={table!r}: must be a list of block ids") from None
        read = ids[: self.num_blocks_read]
        if len(read) < self.num_blocks_read:
            needed = f"{self.seq_len} keys in blocks of {self.block_size} need {self.num_blocks_read} entries"
            raise ValueError(f"table={ids}: {needed}, and it has {len(ids)}")
        if min(read, default=0) < 0 or len(set(read)) < len(read):
            raise ValueError(f"table={ids}: the entries that are read must be 0 or more, and none twice")
        return tuple(ids)

    @property
    def num_heads(self):
        return self.heads[0]

    @property
    def num_kv_heads(self):
        return self.heads[1]

    @property
    def group(self):
        """Query heads that read one KV head: one program serves all of them."""
        return self.num_heads // self.num_kv_heads

    def heads_of(self, kv_head):
        """The query heads that read a KV head."""
        return range(kv_head * self.group, (kv_head + 1) * self.group)

    @property
    def num_blocks_read(self):
        return math.ceil(self.seq_len / self.block_size)

    @property
    def num_blocks(self):
        """Blocks in the pool: a few more than this sequence has."""
        return max([*self.table[: self.num_blocks_read], self.num_blocks_read + 3]) + 1

    @cached_property
    def positions_of(self):
        """Which of the positions stands first in each physical block of this sequence: {block id: position}."""
        return {block: i * self.block_size for i, block in enumerate(self.table[: self.num_blocks_read])}

    def slot(self, position):
        """A position's slot, by the table."""
        return self.table[position // self.block_size] * self.block_size + position % self.block_size

    def split(self, split):
        """The positions that the programs of one split read."""
        return geometry.split_range(split, self.num_splits, self.seq_len, self.tile_size)

    def tiles_of(self, split):
        """The starts of the tiles of one split."""
        return range(self.split(split).start, self.split(split).stop, self.tile_size)

    @property
    def programs(self):
        """(KV head, split) of every program, in the order in which the interpreter runs them."""
        return [(kv_head, split) for kv_head in range(self.num_kv_heads) for split in range(self.num_splits)]


def heads_of(heads):
    """`heads` as (query heads, KV heads). Raises ValueError for what can't be."""
    try:
        num_heads, num_kv_heads = heads
    except (TypeError, ValueError):
        raise ValueError(f"heads={heads!r}: must be two numbers, query heads and KV heads") from None
    num_heads = whole("query heads", num_heads, 1, MAX_HEADS)
    num_kv_heads = whole("KV heads", num_kv_heads, 1, MAX_HEADS)
    if num_heads % num_kv_heads:
        raise ValueError(f"heads={(num_heads, num_kv_heads)}: query heads must be a multiple of the KV heads")
    return num_heads, num_kv_heads


def scattered(num_blocks, seed):
    """So many block ids, none twice, in no order."""
    if num_blocks <= len(PLACES):
        return PLACES[:num_blocks]
    others = [block for block in range(num_blocks + 4) if block not in PLACES]
    random.Random(seed).shuffle(others)
    return (*PLACES, *others)[:num_blocks]
