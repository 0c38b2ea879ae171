"""The physical pool as a grid: one cell for each block, in the order of their ids, as rich as the room allows.

A cell shows the block's id, whose it is and which of its logical blocks, how full it is, and the text of the tokens
whose K and V it holds. A cached block is nobody's, and a reserved one holds nothing yet: each says so. This file only
draws; every number comes from the snapshot.
"""

from dataclasses import dataclass, replace

from rich.cells import cell_len

from visualize.grouped import draw_grouped
from visualize.ink import CACHED, FREED, NEW, clip, pad, safe
from visualize.lines import fit, line, spread
from visualize.reserved import draw_reserved, reserved_label
from visualize.sharing import draw_owners, striped, together

GAP, MAX_GAP = 2, 4  # columns between two cells
MAX_SPARE = 6  # columns that a brief cell can be wider


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
    if layout.kind == "brief" and scene.may_share:  # columns left over are used to name more owners
        spare = (width - (columns - 1) * GAP) // columns - layout.width
        layout = replace(layout, width=layout.width + min(MAX_SPARE, max(spare, 0)))
    return layout, columns, rows


def layouts(scene, width):
    """All ways to draw a cell, the richest first."""
    block_size = scene.snapshot.block_size
    tiny = len(head_of(scene, 0)) + scene.label_width
    brief = tiny + 4 + len(f"{block_size}/{block_size}")  # blanks at both sides of the label, before it and behind it
    brief += 3 * scene.may_share  # A.1-4 x4
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
    ink, homes, mark = scene.ink, scene.homes(block.id), scene.mark(block.id)
    head = line((head_of(scene, block.id), "bold" if mark != " " else ""))
    if layout.kind == "tiny":
        head.append_text(tiny_owner(scene, block, homes, layout.width - head.cell_len))
        return [fit(head, layout.width, ink)]
    if scene.is_cached(block.id):
        lines = [draw_cached(scene, block, head, layout.width)]
    elif block.state == "reserved":
        lines = [draw_reserved(scene, block, head, layout.width)]
    elif not homes:
        head.append(" free", "dim")
        was = was_of(scene, block.id)
        head.append(f",{was}" if was and head.cell_len + len(f",{was}") <= layout.width else "")
        lines = [fit(head, layout.width, ink)]
    else:
        fill = line(f"{block.filled}/{scene.snapshot.block_size}")
        if len(homes) > 1:
            head.append_text(draw_owners(scene, block.id, layout.width - head.cell_len - fill.cell_len - 1))
        else:
            head.append_text(line(scene.chip(homes[0][0].name)))
        for which in where(scene, block.id, homes):
            if head.cell_len + len(which) + fill.cell_len < layout.width:
                head.append(which)
                break
        lines = [spread(head, fill, layout.width, ink)]
    if layout.kind == "slots":
        lines.append(draw_slots(scene, block, homes, layout))
    elif layout.kind == "text":
        lines.append(draw_text(scene, block, homes, layout))
    return lines


def draw_cached(scene, block, head, width):
    """The line of a block that nobody owns and that can be hit: whose it was just now, or its hash, if that fits."""
    was, full = was_of(scene, block.id), f"{block.filled}/{scene.snapshot.block_size}"
    head.append_text(line((" cached ", CACHED)))
    for remark in (was, f" {block.hash}"):
        if remark and head.cell_len + cell_len(remark) + len(full) < width:
            head.append(remark, "" if remark == was else "dim")
            break
    return spread(head, line(full), width, scene.ink)


def tiny_owner(scene, block, homes, room):
    if scene.is_cached(block.id):
        return line((scene.ink.cached, CACHED))
    if block.state == "reserved":
        return line(reserved_label(scene, block))
    if len(homes) > 1:
        return draw_owners(scene, block.id, room, head="")
    return line(*((scene.label(seq.name), scene.style(seq.name)) for seq, _ in homes))


def was_of(scene, block_id):
    """Whose a block was that has just been freed, if it was anybody's: one by the label, several by their names."""
    owners = scene.last_owners(block_id) if scene.mark(block_id) == FREED else []
    if not owners:
        return ""
    return f" was {scene.label(owners[0].name) if len(owners) == 1 else together(owners, scene.ink)}"


def where(scene, block_id, homes):
    """Which logical block of its owners a block is, and of which block it is a copy since this step; the richest
    first."""
    places = sorted({logical for _, logical in homes})
    source = scene.source(block_id)
    place, copy = "/".join(map(str, places)), "" if source is None else f", a copy of {source}"
    return [f" logical {place}{copy}", f" [{place}]{copy}", f" [{place}]"]


def draw_slots(scene, block, homes, layout):
    """A field for each slot: its token's text on its owners' colours once K and V are written, underlined if new."""
    ink, block_size = scene.ink, scene.snapshot.block_size
    written, rest, tokens = line(), line(), held(scene, block, homes)
    for offset in range(block_size):
        if offset < len(tokens):
            text, style = tokens[offset]
            written.append(pad(token(text, layout.slot, ink), layout.slot), style)
        else:
            rest.append((ink.unwritten if homes else "").center(layout.slot), "dim")
        if offset + 1 < len(tokens):
            written.append(ink.wall)
        else:
            rest.append(ink.wall, "dim")
    return line((ink.wall, "dim"), striped(written, styles_of(scene, homes)), rest)


def held(scene, block, homes):
    """(text, style) of each token whose K and V a block holds, as far as they are known."""
    if not homes:
        return [(text, "") for text in block.texts]
    seq, logical = homes[0]  # who shares a block has the same tokens in it
    start = logical * scene.snapshot.block_size
    positions = range(start, start + block.filled)
    return [(seq.token_texts[i], NEW if scene.is_new(seq, i) else "") for i in positions]


def styles_of(scene, homes):
    """Of what a block holds: its owners', or that of a cached one."""
    return [scene.style(seq.name) for seq, _ in homes] or [CACHED]


def draw_text(scene, block, homes, layout):
    """For large blocks: the text of all tokens in a row, on a bar as long as the block is full."""
    ink, block_size = scene.ink, scene.snapshot.block_size
    text = line()
    for words, style in held(scene, block, homes):
        text.append(safe(words, ink), style)
    fit(text, layout.width, ink)
    return striped(text, styles_of(scene, homes), layout.width * block.filled // block_size)


def token(text, width, ink):
    """A token's text in at most `width` cells, without the space that most tokens begin with."""
    text = safe(text, ink) or ink.ellipsis  # nothing: a part of a character, which the last of its tokens shows
    return clip(text.strip() or ink.space, width, ink)
