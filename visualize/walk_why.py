"""Why, in a walk through the decode kernel: what a program does at this moment, in sentences."""

import math
from dataclasses import dataclass

from visualize.words import count, listed, span, these

LANDMARKS = ("Began", "Merged", "Ended")
KINDS = (*LANDMARKS, "Planned", "Read", "Masked", "Summed", "Rose", "Stayed", "Wrote")
EQUAL = 1e-5  # float32 and float64 don't differ by more here
NOISE = 1e-6  # differences below it are told as such: what they are exactly changes from machine to machine


@dataclass(frozen=True)
class Told:
    """A sentence. weight: the larger, the sooner a reader wants it."""

    kind: str
    why: str
    weight: int = 1


def sentences(moment):
    """All that there is to say of a moment, in order."""
    return tuple(TELL[moment.kind](moment))


def started(moment):
    sizes = moment.sizes
    blocks = count(sizes.num_blocks_read, "block")
    keys = count(sizes.seq_len, "key")
    where = "wherever the block table says" if sizes.seq_len else "so there is nothing to read"
    yield Told("Began", f"One query attends to {keys}, which lie in {blocks} of {sizes.block_size}, {where}", 3)
    are = "is" if len(sizes.programs) == 1 else "are"
    each = (
        f"There {are} {count(len(sizes.programs), 'program')}: one for each of {count(sizes.num_kv_heads, 'KV head')}"
    )
    if sizes.num_splits > 1:
        each += f" and each of {sizes.num_splits} splits, which share the tiles"
    served = "the query head that reads" if sizes.group == 1 else f"all {sizes.group} query heads that read"
    yield Told("Planned", f"{each}; each serves {served} its KV head, so K and V are loaded once", 2)
    tiles = f"A program reads {sizes.tile_size} positions at a time, a tile, and looks up each one's block in the table"
    yield Told("Planned", f"{tiles}: a tile has nothing to do with where blocks end", 1)


def tile_read(moment):
    sizes, tile, (kv_head, split) = moment.sizes, moment.tile, moment.program
    own = sizes.split(split)
    if tile.positions.start == own.start:
        heads = f"query {heads_in_words(sizes.heads_of(kv_head))}"
        reads = f"{positions(own)}, in {count(len(sizes.tiles_of(split)), 'tile')}"
        yield Told("Began", f"{name(moment.program)} begins: {heads}, {reads}", 2)
    logical, blocks = zip(*tile.entries)
    entries = f"entr{'ies' if len(logical) > 1 else 'y'} {span(logical[0], len(logical))}"
    found = f"{entries} of the table name{'s' * (len(logical) == 1)} {these(blocks, 'physical block')}"
    yield Told("Read", f"Tile {tile.number} is {positions(tile.positions)}: {found}", 3)
    if tile.masked:
        are, they = ("is", "it weighs") if len(tile.masked) == 1 else ("are", "they weigh")
        behind = f"{positions(tile.masked).capitalize()}, behind the last key, {are} masked"
        yield Told("Masked", f"{behind}: nothing is read there, and {they} 0", 4)
        yield Told(
            "Masked", "What lies there is stale, and may be NaN: a weight of 0 would not do, 0 times NaN is NaN", 0
        )
    yield from summed(moment)
    if tile.positions.stop == own.stop:
        yield Told("Wrote", f"It was the last tile: {what_is_written(sizes)}", 5)


def summed(moment):
    """What the tile does to the running numbers of each query head."""
    heads = moment.sizes.heads_of(moment.program[0])
    if math.isinf(moment.before[0].running_max):
        yield Told("Summed", "The largest score is the maximum, and every weight is exp(score - maximum): their sum, "
                   "and the weighted sum of V divided by it, is what is known so far", 2)  # fmt: skip
        return
    stay = []
    for head, old, new in zip(heads, moment.before, moment.after):
        if new.running_max == old.running_max:
            stay.append(head)
            continue
        factor = math.exp(old.running_max - new.running_max)
        rises = f"The maximum of head {head} rises from {old.running_max:.2f} to {new.running_max:.2f}"
        was = "what was summed before, relative to the old one, is multiplied by"
        yield Told("Rose", f"{rises}: {was} exp(old - new) = {factor:.3f}", 4)
    if stay:
        its, each = ("its", "its correction is") if len(stay) == 1 else ("their", "their corrections are")
        no = f"No score is above the maximum of {these(stay, 'head')}: {each} 1, and the tile is added to {its} sums"
        yield Told("Stayed", no, 1)


def what_is_written(sizes):
    if sizes.num_splits == 1:
        return "the weighted sum divided by the sum is the output, and is written"
    return "output and log-sum-exp, a partial state, are written for the merge"


def empty(moment):
    sizes = moment.sizes
    none = f"{name(moment.program)} finds no keys"
    if sizes.num_splits == 1:
        yield Told("Began", f"{none}: it writes zeros", 2)
        return
    tiles = count(math.ceil(sizes.seq_len / sizes.tile_size), "tile")
    yield Told("Began", f"{none}: the splits before it have taken all {tiles}", 2)
    yield Told("Wrote", "It writes a log-sum-exp of -inf: in the merge that weighs 0, whatever the output holds", 3)


def merged(moment):
    merge = moment.merged[-1]
    with_keys = [split for split, part in enumerate(merge.parts) if part.running_sum]
    reads = f"The merge kernel's program (0, {merge.head}) makes the {len(merge.parts)} states of head {merge.head} one"
    yield Told("Merged", reads, 3)
    if not with_keys:
        yield Told("Merged", "None of them has a key: the output is zeros", 4)
        return
    shares = listed([f"{merge.shares[split]:.3f}" for split in with_keys])
    weigh = "part weighs exp(its log-sum-exp - that of all keys)"
    yield Told("Merged", f"Each {weigh}: {shares}, together 1; these times the parts' outputs give the output", 4)
    if len(with_keys) < len(merge.parts):
        without = [split for split in range(len(merge.parts)) if split not in with_keys]
        has = "has no keys: it weighs 0, and its output is" if len(without) == 1 else "have no keys: their outputs are"
        yield Told("Merged", f"{these(without, 'split').capitalize()} {has} not even read", 2)


def ended(moment):
    yield Told("Ended", f"The output of {count(moment.sizes.num_heads, 'query head')} is complete", 2)
    kernel = moment.kernel
    if kernel is None:
        return
    if kernel.missing:
        yield Told("Ended", f"It is not compared with the kernel itself, which can't run here: {kernel.missing}", 3)
        return
    how = "interpreted on this CPU" if kernel.is_interpreted else "compiled for this GPU"
    if kernel.difference <= EQUAL:
        gives = f"The Triton kernel itself, {how}, gives the same"
        yield Told("Ended", f"{gives}: the largest difference is {bound(kernel.difference)}, and that is rounding", 4)
    else:
        yield Told("Ended", f"The Triton kernel itself, {how}, gives something else: the largest difference is "
                   f"{kernel.difference:.1e}", 4)  # fmt: skip
    yield Told("Ended", "The kernel sums in float32, this walk in float64, with the steps of the textbook", 1)


def bound(difference):
    """A power of ten above it: all that a reader can use of a rounding error."""
    if difference <= NOISE:
        return f"below {NOISE:.0e}"
    return f"below {10.0 ** math.ceil(math.log10(difference)):.0e}"


def name(program):
    return f"Program (0, {program[0]}, {program[1]})"


def heads_in_words(which):
    """head 4; heads 4 and 5; heads 4 to 7"""
    return f"heads {span(which.start, len(which))}" if len(which) > 2 else these(which, "head")


def positions(which):
    """position 40; positions 0 to 15"""
    return f"position{'s' * (len(which) > 1)} {span(which.start, len(which))}"


TELL = {"start": started, "tile": tile_read, "empty": empty, "merge": merged, "end": ended}
