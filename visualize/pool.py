"""The physical pool as a grid: one cell for each block, in the order of their ids, as rich as the room allows.

A cell shows the block's id, whose it is and which of its logical blocks, how full it is, and the text of the tokens
whose K and V it holds. This file only draws; every number comes from the snapshot.
"""

from dataclasses import dataclass, replace

from visualize.grouped import draw_grouped
from visualize.ink import FREED, NEW, clip, pad, safe
from visualize.lines import fit, line, spread

GAP, MAX_GAP = 2, 4  # columns between two cells


@dataclass(frozen=True)
class Layout:
    """How to draw a cell: its width in columns, and the blank rows between two rows of cells.

    kind: "slots" shows each token's text in a field of its own, "text" the text in a row, "brief" none, "tiny" not even
    how full the block is.
    """

    kind: str
    width: int
    gap: int = 0
    slot: int = 0  # columns of a token's field

    @property
    def height(self):
        return 2 if self.kind in ("slots", "text") else 1


def draw_pool(scene, width, height, focus=None):
    """Lines of `width` columns, `height` of them at most. A pool too large for cells is drawn in groups of blocks.

    focus: the name of the sequence whose blocks are then listed one by one.
    """
    blocks, ink = scene.snapshot.blocks, scene.ink
    layout, columns, rows = choose(scene, width, height)
    if layout.kind == "tiny" and rows > height:
        return draw_grouped(scene, width, height, focus)
    between = min(MAX_GAP, (width - columns * layout.width) // max(columns - 1, 1))
    lines = []
    for row in range(rows):
        cells = [draw_cell(scene, block, layout) for block in blocks[row * columns : (row + 1) * columns]]
        for parts in zip(*cells):
            joined = [part for cell in parts for part in (" " * between, cell)][1:]
            lines.append(fit(line(*joined), width, ink))
        lines += [line(" " * width)] * (layout.gap if row < rows - 1 else 0)
    return lines


def choose(scene, width, height):
    """(layout, columns, rows): the richest layout with which all blocks fit, or, if none does, the tiniest."""
    num_blocks = len(scene.snapshot.blocks)
    for layout in layouts(scene, width):
        gap = 1 if layout.kind == "tiny" else GAP
        columns = max(1, (width + gap) // (layout.width + gap))
        rows = -(-num_blocks // columns)
        columns = -(-num_blocks // rows)  # the last row as long as the others, where that is possible
        if rows * (layout.height + layout.gap) - layout.gap <= height:
            break
    return layout, columns, rows


def layouts(scene, width):
    """All ways to draw a cell, the richest first."""
    block_size = scene.snapshot.block_size
    tiny = len(head_of(scene, 0)) + scene.label_width
    brief = tiny + 4 + len(f"{block_size}/{block_size}")  # blanks at both sides of the label, before it and behind it
    slots = [Layout("slots", block_size * (slot + 1) + 1, slot=slot) for slot in (6, 5, 4, 3)]
    rich = [layout for layout in slots if brief + 2 <= layout.width <= min(width, 60)]
    if not rich:
        rich = [Layout("text", wide) for wide in (40, 32, 24) if brief + 2 <= wide <= width]
    return [
        *(replace(layout, gap=1) for layout in rich if layout.slot != 3),
        *rich,
        Layout("brief", min(brief, width)),
        Layout("tiny", tiny),
    ]


def head_of(scene, block_id):
    """What every cell begins with: the mark of what changed, and the block's id."""
    return f"{scene.mark(block_id)}{block_id:>{len(str(scene.snapshot.num_blocks - 1))}}"


def draw_cell(scene, block, layout):
    """The lines of one cell, each `layout.width` wide."""
    ink, home, mark = scene.ink, scene.home(block.id), scene.mark(block.id)
    head = line((head_of(scene, block.id), "bold" if mark != " " else ""))
    if layout.kind == "tiny":
        head.append_text(line((scene.label(home[0].name), scene.style(home[0].name)) if home else ""))
        return [fit(head, layout.width, ink)]
    if home is None:
        head.append(" free", "dim")
        was = f", was {scene.label(scene.last_owner(block.id))}" if mark == FREED else ""
        head.append(was if head.cell_len + len(was) <= layout.width else "")
        lines = [fit(head, layout.width, ink)]
    else:
        seq, logical = home
        fill = line(f"{block.filled}/{scene.snapshot.block_size}")
        head.append_text(line(scene.chip(seq.name)))
        for which in (f" logical {logical}", f" [{logical}]"):
            if head.cell_len + len(which) + fill.cell_len < layout.width:
                head.append(which)
                break
        lines = [spread(head, fill, layout.width, ink)]
    if layout.kind == "slots":
        lines.append(draw_slots(scene, block, home, layout))
    elif layout.kind == "text":
        lines.append(draw_text(scene, block, home, layout))
    return lines


def draw_slots(scene, block, home, layout):
    """A field for each slot: its token's text on the owner's colour once K and V are written, underlined if new."""
    ink, block_size = scene.ink, scene.snapshot.block_size
    text = line((ink.wall, "dim"))
    for offset in range(block_size):
        if home is None or offset >= block.filled:
            inside, style, wall = (ink.unwritten if home else "").center(layout.slot), "dim", "dim"
        else:
            seq, logical = home
            position = logical * block_size + offset
            inside = pad(token(seq.token_texts[position], layout.slot, ink), layout.slot)
            style = wall = scene.style(seq.name)
            if scene.is_new(seq, position):
                style = style + NEW
        text.append(inside, style)
        text.append(ink.wall, wall if offset + 1 < block.filled else "dim")
    return text


def draw_text(scene, block, home, layout):
    """For large blocks: the text of all tokens in a row, on a bar as long as the block is full."""
    ink, block_size = scene.ink, scene.snapshot.block_size
    if home is None:
        return line(" " * layout.width)
    seq, logical = home
    start = logical * block_size
    text = line()
    for position in range(start, start + block.filled):
        text.append(safe(seq.token_texts[position], ink), NEW if scene.is_new(seq, position) else None)
    fit(text, layout.width, ink)
    text.stylize_before(scene.style(seq.name), 0, layout.width * block.filled // block_size)
    return text


def token(text, width, ink):
    """A token's text in at most `width` cells, without the space that most tokens begin with."""
    text = safe(text, ink) or ink.ellipsis  # nothing: a part of a character, which the last of its tokens shows
    return clip(text.strip() or ink.space, width, ink)
