"""Moments of a walk through the decode kernel: one program after the other, a moment for each tile that it reads.

What a program reads follows from the block table and geometry.split_range; what it has summed after each tile is what
reference.attention_steps has after each block, if a block is as large as a tile. Only the end looks at the kernel.
"""

import json
import math
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import groupby

import torch

from minipaged.attention.reference import attention_steps
from minipaged.attention.states import merge_states
from visualize.walk_kernel import Kernel
from visualize.walk_sizes import HEAD_DIM, Sizes
from visualize.walk_why import sentences


@dataclass(frozen=True)
class State:
    """What is known of one query head after some keys. An output without keys is all zeros."""

    running_max: float
    running_sum: float
    output: tuple  # [head_dim]

    @property
    def log_sum_exp(self):
        return self.running_max + math.log(self.running_sum) if self.running_sum else -math.inf


@dataclass(frozen=True)
class Tile:
    """A tile as the kernel reads it. positions: those in use; masked: the others, which it doesn't read."""

    number: int  # counted in the sequence
    positions: range
    masked: range
    entries: tuple  # (logical block, block id) of each entry of the table that it looks at
    slots: tuple  # of each of the positions
    weights: tuple  # [group][len(positions)]: exp(score - running maximum after this tile)


@dataclass(frozen=True)
class Part:
    """A program that is done, and the state of each of its query heads."""

    kv_head: int
    split: int
    states: tuple


@dataclass(frozen=True)
class Merge:
    """One query head's parts made one. shares: [num_splits] of each part in the output; they add up to 1."""

    head: int
    parts: tuple  # [num_splits] State
    shares: tuple
    state: State


@dataclass(frozen=True)
class Moment:
    """kind: start, tile, empty (a program without keys), merge or end. What doesn't belong to a kind is None.

    written: a Part for every program that is done. merged: a Merge for every query head that is.
    """

    step: int
    kind: str
    sizes: Sizes
    program: tuple | None = None  # (KV head, split)
    tile: Tile | None = None
    before: tuple = ()  # State of each query head of the program before this tile
    after: tuple = ()
    written: tuple = ()
    merged: tuple = ()
    outputs: tuple = ()  # of the end: [num_heads] State
    kernel: Kernel | None = None  # of the end

    sequences = ()  # none, in a player's eyes: no requests come and go here

    @property
    def events(self):
        """What happens now, in sentences, each with its kind."""
        return sentences(self)

    def to_json(self):
        """One line of JSON. A maximum over no keys is null."""
        record = asdict(self) | {"why": [event.why for event in self.events]}
        return json.dumps(plain(record), allow_nan=False)


def plain(value):
    """The same as JSON has it."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def numbers_of(sizes):
    """q [num_heads, head_dim], K and V [num_blocks, block_size, num_kv_heads, head_dim], in float64.

    Slots that hold no key of this sequence are NaN: whoever reads one is found out.
    """
    generator = torch.Generator().manual_seed(sizes.seed)
    q = torch.randn(sizes.num_heads, HEAD_DIM, generator=generator).double()
    k, v = torch.randn(2, sizes.seq_len, sizes.num_kv_heads, HEAD_DIM, generator=generator).double()
    k_cache, v_cache = torch.full(
        (2, sizes.num_blocks, sizes.block_size, sizes.num_kv_heads, HEAD_DIM), math.nan, dtype=torch.float64
    )
    slots = [sizes.slot(position) for position in range(sizes.seq_len)]
    k_cache.flatten(0, 1)[slots], v_cache.flatten(0, 1)[slots] = k, v
    return q, k_cache, v_cache


def moments(sizes, compare=None):
    """Every moment, in order. compare(numbers, sizes, outputs) -> what the last moment says of the kernel."""
    numbers = numbers_of(sizes)
    written, merged = [], []
    step = 0

    def moment(kind, **facts):
        nonlocal step
        step += 1
        return Moment(step - 1, kind, sizes, written=tuple(written), merged=tuple(merged), **facts)

    yield moment("start")
    for program in sizes.programs:
        before = (State(-math.inf, 0.0, (0.0,) * HEAD_DIM),) * sizes.group
        walked = list(walk_tiles(*numbers, sizes, *program))
        for i, (tile, after) in enumerate(walked):
            if i + 1 == len(walked):
                written.append(Part(*program, after))
            yield moment("tile", program=program, tile=tile, before=before, after=after)
            before = after
        if not walked:
            written.append(Part(*program, before))
            yield moment("empty", program=program, before=before, after=before)
    for head in range(sizes.num_heads) if sizes.num_splits > 1 else ():
        parts = [part.states[head % sizes.group] for part in written if part.kv_head == head // sizes.group]
        merged.append(merge(head, parts))
        yield moment("merge", program=(head // sizes.group, None))
    outputs = tuple(each.state for each in merged) or tuple(state for part in written for state in part.states)
    yield moment("end", outputs=outputs, kernel=compare(numbers, sizes, outputs) if compare else None)


def walk_tiles(q, k_cache, v_cache, sizes, kv_head, split):
    """(Tile, the state of each query head after it) for every tile of one program.

    The program gathers a tile's keys from wherever the table says. Then they lie side by side, like a block of that
    size, so that the textbook can go over them.
    """
    positions, scale = sizes.split(split), HEAD_DIM**-0.5
    q = q[sizes.heads_of(kv_head)]
    k, v = (gathered(cache[:, :, kv_head], sizes, positions) for cache in (k_cache, v_cache))
    for step in attention_steps(q, k, v, range(len(k)), len(positions), scale):
        weights = (step.scores - step.running_max[:, None]).exp()
        yield tile_of(sizes, positions, step.logical_block, weights), states_of(step)


def gathered(cache, sizes, positions):
    """[num_blocks, block_size, head_dim] -> [num_tiles, tile_size, 1, head_dim]. What is masked is 0."""
    rows = cache.flatten(0, 1)[[sizes.slot(position) for position in positions]]
    num_tiles = math.ceil(len(positions) / sizes.tile_size)
    tiles = rows.new_zeros(num_tiles * sizes.tile_size, HEAD_DIM)
    tiles[: len(rows)] = rows
    return tiles.view(num_tiles, sizes.tile_size, 1, HEAD_DIM)


def tile_of(sizes, positions, number, weights):
    """The tile with this number in a split that reads these positions."""
    start = positions.start + number * sizes.tile_size
    stop = min(start + sizes.tile_size, positions.stop)
    logical = [block for block, _ in groupby(position // sizes.block_size for position in range(start, stop))]
    return Tile(
        number=start // sizes.tile_size,
        positions=range(start, stop),
        masked=range(stop, start + sizes.tile_size),
        entries=tuple((block, sizes.table[block]) for block in logical),
        slots=tuple(sizes.slot(position) for position in range(start, stop)),
        weights=tuple(map(tuple, weights.tolist())),
    )


def states_of(step):
    """reference.Step -> a State for each query head."""
    columns = step.running_max.tolist(), step.running_sum.tolist(), map(tuple, step.output.tolist())
    return tuple(State(*each) for each in zip(*columns))


def merge(head, parts):
    """One query head's parts made one by states.merge_states."""
    states = [[torch.tensor(each, dtype=torch.float64) for each in (part.output, part.log_sum_exp)] for part in parts]
    out, lse = reduce(lambda one, other: merge_states(*one, *other), states)
    highest = max(part.running_max for part in parts)
    total = math.exp(float(lse) - highest) if math.isfinite(highest) else 0.0
    shares = [math.exp(part.log_sum_exp - float(lse)) if part.running_sum else 0.0 for part in parts]
    return Merge(head, tuple(parts), tuple(shares), State(highest, total, tuple(out.tolist())))
