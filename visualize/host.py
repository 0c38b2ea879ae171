"""The host pool, beside or below the device's: a block a cell, with its id, whose it is and how full it is.

Its blocks are h0, h1 and so on: block 3 of the device is another one than h3. It is drawn only where there is one. This
file only draws; every number comes from the snapshot.
"""

from rich.cells import cell_len

from visualize.ink import FREED, TAKEN, clip_start, safe
from visualize.lines import fit, heading, line, spread
from visualize.sharing import striped, together
from visualize.why import count

SIDE = 20  # columns of the panel where it stands beside the other pool
GAP = 2  # columns between two cells


def draw_host(scene, width, height):
    """The panel in `height` lines of `width` columns at most; no lines where there is no host pool."""
    host, ink = scene.snapshot.host, scene.ink
    if host is None or height < 2:
        return []
    free = f"{len(host.free_order):,} of {count(host.num_blocks, 'block')} free"
    title = f"Host pool: {free}"
    if len(title) + 6 <= width:
        lines = [heading(title, line(), width, ink)]
    else:  # in a narrow column
        lines = [heading("Host pool", line(), width, ink), fit(line(free), width, ink)]
    for cells in cell_widths(scene):
        columns = max(1, (width + GAP) // (cells + GAP))
        room = columns * (height - len(lines))
        if host.num_blocks <= room:
            break
    cells = width if columns == 1 else cells
    shown, hidden = choose(scene, room)
    drawn = [draw_cell(scene, block, cells) for block in shown]
    if hidden:
        drawn.append(line((f"+{hidden:,} more", "dim")))
    for start in range(0, len(drawn), columns):
        parts = [part for cell in drawn[start : start + columns] for part in (" " * GAP, cell)][1:]
        lines.append(fit(line(*parts), width, ink))
    return lines


def cell_widths(scene):
    """Of `+h3 C◆  2/4`: mark, id, label, how full; and without the last of these."""
    size = len(str(scene.snapshot.block_size))
    brief = 1 + len(f"h{scene.snapshot.host.num_blocks - 1}") + scene.label_width + 2
    return brief + 1 + 2 * size + 1, brief


def choose(scene, room):
    """(the blocks that are drawn, how many are not), where `room` is for so many cells.

    Where not all fit, those that are in use come first, then those that have just been freed.
    """
    blocks = scene.snapshot.host.blocks
    if len(blocks) <= room:
        return blocks, 0
    first = sorted(blocks, key=lambda block: (not block.owners, mark(scene, block) == " ", block.id))
    shown = sorted(first[: max(room - 1, 0)], key=lambda block: block.id)
    return shown, len(blocks) - len(shown)


def mark(scene, block):
    """What happened to a host block in this step: taken, freed, or a space for nothing."""
    before = scene.previous and scene.previous.host
    if not before or before.blocks[block.id].owners == block.owners:
        return " "
    return TAKEN if block.owners else FREED


def draw_cell(scene, block, width):
    """One line, `width` wide."""
    ink, change = scene.ink, mark(scene, block)
    number_width = len(f"h{scene.snapshot.host.num_blocks - 1}")
    head = line((f"{change}{f'h{block.id}':>{number_width}}", "bold" if change != " " else ""))
    owners = [seq for seq in map(scene.sequence, block.owners) if seq]
    if not owners:
        return fit(line(head, (" free", "dim")), width, ink)
    fill = line(f"{block.filled}/{scene.snapshot.block_size}")
    if len(owners) == 1:
        chip = line(scene.chip(owners[0].name))
    else:
        styles = [scene.style(seq.name) for seq in owners]
        names = f" {together(owners, ink)} "
        times = line((f"x{block.ref_count}", "bold"))
        room = width - head.cell_len - times.cell_len
        if cell_len(names) + 1 + fill.cell_len > room:
            requests = {seq.request for seq in owners}
            names = f" {clip_start(safe(owners[0].request, ink), room - 2, ink)} " if len(requests) == 1 else " "
        chip = line(striped(names, styles), times)
    return spread(line(head, chip), fill, width, ink)
