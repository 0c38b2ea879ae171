"""The memory side of a walk: the block table, the tile of keys that is read, and the pool of blocks.

What is read now stands on colour, in brackets or behind a mark; what is masked is crossed out. Each function returns
lines of exactly the width that it was given, and never more lines than it was given.
"""

from visualize.ink import owner_colour, owner_style
from visualize.lines import fit, line

NOW, NOW_SIGN = owner_style(0), owner_colour(0)  # the second for characters that are themselves an area
MARK = ">"  # before a block that is read


def draw_table(moment, width, ink):
    """Two lines: the logical blocks, and the physical ones that the table names. Brackets: what the tile looks up."""
    sizes, read = moment.sizes, [logical for logical, _ in moment.tile.entries] if moment.tile else []
    table = sizes.table[: sizes.num_blocks_read]
    cell = max(len(str(each)) for each in (*table, len(table), 10)) + 1
    head = "logical block  " if width >= 80 else "logical "
    room = (width - len(head) - 2 - len(" +999 more")) // cell
    first = window(len(table), room, read)
    shown = range(first, min(first + room, len(table)))
    rows = [line((head, "dim")), line(("physical block ".ljust(len(head)) if width >= 80 else "physical", "dim"))]
    for row, names in zip(rows, (range(len(table)), table)):
        row.append(ink.ellipsis if first else " ", "dim")
        for logical in shown:
            inside = logical in read and logical != read[0]
            row.append("[" if read and logical == read[0] else "]" if read and logical == read[-1] + 1 else " ",
                       NOW if inside else "")  # fmt: skip
            row.append(f"{names[logical]:>{cell - 1}}", NOW if logical in read else "dim" if moment.tile else "")
        row.append("]" if read and read[-1] == shown[-1] else "")
        row.append(f" +{len(table) - shown.stop} more" if shown and shown.stop < len(table) else "", "dim")
        if not table:
            row.append("no entry is looked at", "dim")
    return [fit(row, width, ink) for row in rows]


def window(number, room, wanted):
    """The first of `room` of so many things that are shown, so that the wanted ones are among them."""
    if number <= room or not wanted:
        return 0
    return max(0, min(wanted[0] - 1, number - room))


def draw_tile(moment, width, ink):
    """The tile as the program has it, its keys side by side: position, block, slot, and each key's weight."""
    tile, sizes = moment.tile, moment.sizes
    cell = len(str(max(*tile.slots, sizes.seq_len + sizes.tile_size)))
    label = "weight, head 99 " if width >= 80 else "weight 99 "
    room = (width - len(label) - len(" +999")) // (cell + 1)
    whole = [*tile.positions, *tile.masked]
    shown = whole if len(whole) * (cell + 1) + len(label) <= width else whole[:room]

    def row(name, values, style=NOW):
        text = line((name.ljust(len(label)), "dim"))
        for i, position in enumerate(shown):
            begins = position % sizes.block_size == 0 and i
            text.append(ink.wall if begins else " " * bool(i), "dim")
            masked = position not in tile.positions
            text.append((ink.masked if masked else values(position)).rjust(cell), "dim" if masked else style)
        text.append(f" +{len(whole) - len(shown)}" if len(shown) < len(whole) else "", "dim")
        return fit(text, width, ink)

    def block_of(position):
        is_first = position in (tile.positions.start, shown[0]) or position % sizes.block_size == 0
        return str(sizes.table[position // sizes.block_size]) if is_first else ""

    def weight(values):
        return lambda position: level(values[position - tile.positions.start], ink) * cell

    rows = [
        row("position", str),
        row("physical block", block_of) if width >= 80 else row("block", block_of),
        row("slot", lambda position: str(sizes.slot(position))),
    ]
    for head, values in zip(sizes.heads_of(moment.program[0]), tile.weights):
        rows.append(row(f"weight, head {head}" if width >= 80 else f"weight {head}", weight(values), NOW_SIGN))
    return rows


def level(value, ink):
    """A number from 0 to 1 as one character."""
    return ink.levels[min(int(value * len(ink.levels)), len(ink.levels) - 1)]


def draw_pool(moment, width, height, ink):
    """Every block of the pool, if they fit: its id, and its slots by position, or as signs where there is less room."""
    sizes = moment.sizes
    digits, position = len(str(sizes.num_blocks - 1)), len(str(max(sizes.seq_len - 1, 0)))
    for slot in (position + 1, 1):
        cell = len(MARK) + digits + 1 + sizes.block_size * slot + 1
        columns = max(1, (width + 1) // (cell + 1))
        rows = -(-sizes.num_blocks // columns)
        if rows <= height and cell <= width:
            break
    columns = -(-sizes.num_blocks // rows) if rows <= height else columns
    between = min(4, max(1, (width - columns * cell) // max(columns - 1, 1)))
    blocks = list(range(sizes.num_blocks))
    if rows > height:  # those that are read first
        read = [block for _, block in moment.tile.entries] if moment.tile else []
        blocks = [*read, *(block for block in sizes.table[: sizes.num_blocks_read] if block not in read)]
        blocks += [block for block in range(sizes.num_blocks) if block not in sizes.positions_of]
    fits = columns * height
    more = f"+{len(blocks) - fits + 1} more"
    shown = blocks if len(blocks) <= fits else blocks[: fits - 1]
    cells = [draw_block(moment, block, slot, digits, ink) for block in shown]
    cells += [line((more, "dim"))] * (len(shown) < len(blocks))
    lines = []
    for start in range(0, len(cells), columns):
        parts = [fit(each, min(cell, width), ink) for each in cells[start : start + columns]]
        lines.append(fit(line(*[part for each in parts for part in (" " * between, each)][1:]), width, ink))
    return lines


def draw_block(moment, block, room, digits, ink):
    """One block. Each slot takes `room` cells: a position if there are several, else a sign."""
    sizes, tile = moment.sizes, moment.tile
    first = sizes.positions_of.get(block)
    is_read = tile is not None and any(block == each for _, each in tile.entries)
    text = line((f"{MARK if is_read else ' '}{block:>{digits}}", "bold" if is_read else "dim"), (ink.wall, "dim"))
    for offset in range(sizes.block_size):
        position = None if first is None else first + offset
        if position is None:
            sign, style = " ", ""
        elif is_read and position in tile.positions:
            sign, style = (str(position) if room > 1 else ink.bar[0]), NOW if room > 1 else NOW_SIGN
        elif is_read and position in tile.masked:
            sign, style = ink.masked, "bold"
        elif position < sizes.seq_len:
            sign, style = (str(position) if room > 1 else ink.bar[1]), "dim"
        else:
            sign, style = ink.unwritten, "dim"
        text.append(sign.rjust(max(room - 1, 1)), style)
        text.append(" " if room > 1 and offset + 1 < sizes.block_size else "", style if style == NOW else "")
    text.append(ink.wall, "dim")
    return text
