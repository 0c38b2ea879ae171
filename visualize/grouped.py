"""The pool as a map with a lens, for when it has too many blocks to draw each of them in a cell.

The map has one character for each group of consecutive blocks: how many of them are used, whose they are, what this
step changed. The lens below it lists the blocks of one sequence, the one in focus. This file only draws; every number
comes from the snapshot.
"""

from functools import cache
from itertools import chain, groupby
from operator import itemgetter

from rich.style import Style

from visualize.ink import CACHED_SIGN, FREED, NEW, SHARED, TAKEN, WRITTEN, pad, safe
from visualize.lines import fit, line
from visualize.sharing import draw_owners

TENS = 10  # characters that stand together, so that a reader can count them
GAP = 2  # columns between two entries of the lens
OWNERS = 12  # columns for those who share an entry's block
SEVERAL = Style(reverse=True)  # for text where nobody, or more than one, owns the blocks


def draw_grouped(scene, width, height, focus):
    """Lines of `width` columns (20 or more), `height` of them (3 or more) at most.

    How many there are depends on nothing that a step changes, so that the map keeps its place and its scale.
    focus: the name of the sequence in the lens, or None.
    """
    num_blocks = scene.snapshot.num_blocks
    seq = scene.sequence(focus)
    for_lens = 1 if height < 5 else max(2, height // 4)
    indent = len(str(num_blocks - 1)) + 1
    columns = TENS * max(1, (width - indent + 1) // (TENS + 1))
    size = -(-num_blocks // (columns * (height - 1 - for_lens)))  # blocks in a group: as few as there is room for
    lines = [draw_legend(scene, width, size, seq)]
    cells = draw_groups(scene, size, seq)
    for start in range(0, len(cells), columns):
        row = cells[start : start + columns]
        tens = [part for i in range(0, len(row), TENS) for part in ((" ", ""), *row[i : i + TENS])][1:]
        lines.append(fit(line((f"{start * size:>{indent - 1}} ", "dim"), *merged(tens)), width, scene.ink))
    if for_lens >= 3 and len(lines) + for_lens < height:
        lines.append(line(" " * width))
    return lines + draw_lens(scene, width, for_lens, seq, focus)


def draw_legend(scene, width, size, seq):
    """What the characters of the map mean, in as many words as there is room for."""
    none, *some, every = scene.ink.shades
    head = line(f"1 character = {size:,} block{'s' * (size > 1)}  ", (none, "dim"))
    shared = "  2-9 owners" if scene.may_share else ""
    cached = ("  ", (scene.ink.cached, CACHED_SIGN), " cached") if scene.may_hit else ()
    if scene.may_reserve:  # such a pool has no prefix cache
        cached = ("  ", (scene.ink.reserved, "dim"), " reserved")
    focus, colour = line(), ("  colour: one owner", "dim")
    if seq and seq.device_table:
        focus = line("  ", (scene.glyph(seq.name), scene.style(seq.name)), f" of {scene.label(seq.name)[:-1]}")
    if size == 1:
        used = f"  {every} used"
        candidates = [(" free", *cached, used, shared, focus, colour), (" free", *cached, used, shared, focus)]
    else:
        shades = "".join(some) + every
        only = (*cached[:2], f" none used, some{cached[2]}") if cached else ()
        how = (" none to all used", only), (" none to all used", cached), (" used", cached)
        candidates = [(shades + used, *signs, shared, focus, colour) for used, signs in how]
        candidates.append((f"{shades} used", *cached, shared, focus))
    legends = [line(head, *parts) for parts in candidates]
    return fit(next((each for each in legends if each.cell_len <= width), legends[-1]), width, scene.ink)


def draw_groups(scene, size, seq):
    """(character, style) of each group of `size` blocks; the last group may be smaller.

    A shade tells the share that is used, and a sign of its own that none is and a block is cached, or reserved. In its
    place stands by how many a block is shared, or what this step changed, or, before all, the glyph of the sequence in
    focus where one of its blocks is: all can be seen without colour.
    """
    blocks, shades = scene.snapshot.blocks, scene.ink.shades
    owners = [block.owners if block.state != "reserved" else () for block in blocks]
    reserved = {block.id // size: block.owners for block in blocks if block.state == "reserved"}
    with_cached = {block.id // size for block in blocks if block.state == "cached"} if scene.may_hit else ()
    focused = {block_id // size for block_id in seq.device_table} if seq else ()
    marks, changes = {}, scene.changes()
    for kind in (SHARED, WRITTEN, FREED, TAKEN):  # where a group has several, the last of these is shown
        marks |= {block_id // size: kind for block_id, mark in changes.items() if mark == kind}

    @cache  # most groups look like many others
    def shaded(used, out_of, owner):
        colour = scene.colour(owner) if owner else "dim"
        return shades[shade(used, out_of, len(shades))], colour

    cells = []
    for group, start in enumerate(range(0, len(blocks), size)):
        inside = owners[start : start + size]
        names = set(chain.from_iterable(inside))
        owner = next(iter(names)) if len(names) == 1 else None
        most = max(map(len, inside))
        if group in focused or group in marks or most > 1:
            style = scene.style(owner) if owner else SEVERAL
            shared = f"{min(most, 9)}" if most > 1 else None
            char = scene.glyph(seq.name) if group in focused else marks.get(group, shared)
            cells.append((char, style + NEW if group in marks else style))
        elif group in with_cached and not names:
            cells.append((scene.ink.cached, CACHED_SIGN))
        elif group in reserved and not names:
            cells.append((scene.ink.reserved, scene.colour(reserved[group][0])))
        else:
            cells.append(shaded(len(inside) - inside.count(()), len(inside), owner))
    return cells


def shade(used, size, steps):
    """Which of the steps a share is drawn with: the first means none and the last all, those between share the rest."""
    if used in (0, size):
        return 0 if used == 0 else steps - 1
    return 1 + used * (steps - 2) // size


def merged(cells):
    """Neighbours of the same style become one part of a line."""
    return [("".join(map(itemgetter(0), run)), style) for style, run in groupby(cells, itemgetter(1))]


def draw_lens(scene, width, height, seq, focus):
    """The blocks of the sequence in focus in their logical order, the last of them if not all fit: `height` lines."""
    ink = scene.ink
    if not seq or not seq.device_table:
        reason = "no sequence is in focus" if focus is None else f"{safe(focus, ink)} holds no blocks"
        lines = [line((f"the lens is empty: {reason}", "dim"))]
    else:
        lines = draw_entries(scene, width, height, seq)
    lines += [line() for _ in range(height - len(lines))]
    return [fit(each, width, ink) for each in lines]


def draw_entries(scene, width, height, seq):
    """Entries below a title or, where lines are few, beside the sequence's label."""
    ink, block_size, table = scene.ink, scene.snapshot.block_size, seq.device_table
    chip, lines = scene.chip(seq.name), []
    beside = line(chip, " ")
    if height >= 3:
        count = f"{len(table):,} block{'s' * (len(table) > 1)}"
        lines.append(line(chip, f" {count}", (f"  logical{ink.arrow}physical  slots filled", "dim")))
        beside = line()
    logical_width, block_width = len(str(len(table) - 1)), len(str(scene.snapshot.num_blocks - 1))
    full = f"{block_size}/{block_size}"
    rest = f"{ink.ellipsis} {len(table):,} more {ink.ellipsis}"
    shared = {block: draw_owners(scene, block, OWNERS) for block in table if scene.is_shared(block)}
    entry_width = len(f"+{' ' * logical_width}{ink.arrow}{' ' * block_width} {full}")
    entry_width = max(entry_width + max((each.cell_len for each in shared.values()), default=0), len(rest))
    columns = max(1, (width - beside.cell_len + GAP) // (entry_width + GAP))
    num_shown = columns * (height - len(lines))
    first = 0 if len(table) <= num_shown else len(table) - num_shown + 1
    entries = [line((pad(f"{ink.ellipsis} {first:,} more {ink.ellipsis}", entry_width), "dim"))] if first else []
    for logical in range(first, len(table)):
        block = scene.snapshot.blocks[table[logical]]
        mark, fill = scene.mark(block.id), f"{block.filled}/{block_size}"
        name = f"{mark}{logical:>{logical_width}}{ink.arrow}{block.id:<{block_width}}"
        entry = line((f"{name} {fill:>{len(full)}}", "" if mark == " " else "bold"), shared.get(block.id, ""))
        entries.append(fit(entry, entry_width, ink))
    for start in range(0, len(entries), columns):
        row = [part for entry in entries[start : start + columns] for part in (" " * GAP, entry)][1:]
        lines.append(line(beside if start == 0 else " " * beside.cell_len, *row))
    return lines
