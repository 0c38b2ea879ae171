"""Reserved: how blocks that wait in one sequence's run say so, and which runs are left free. (Contiguous memory.)

This file only draws; every number comes from the snapshot.
"""

from visualize.lines import fit, line
from visualize.words import count


def draw_reserved(scene, block, head, width):
    """The line of a block that is in a run and holds nothing yet: for whom it is kept."""
    word = reserved_label(scene, block)
    wide = line(head, " ", word, " reserved")
    return fit(wide if wide.cell_len <= width else line(head, " ", word), width, scene.ink)


def reserved_label(scene, block):
    """(text, style): the letter of a block's future owner and, in the place of its glyph, the sign. No colour behind
    it, as there is behind what is used."""
    names = [name for name in block.owners if scene.knows(name)]
    if not names:
        return scene.ink.reserved, "dim"
    return scene.label(names[0])[:-1] + scene.ink.reserved, scene.colour(names[0])


def free_runs(free_order):
    """The free runs of a buddy allocator, as ranges, the shortest first: [12, 8, 9, 10, 11] -> [12, 13), [8, 12).

    Each is a power of two long and begins at a multiple of its length. Two that stand side by side and could be one
    are one, so the longest that fits is right.
    """
    runs, order = [], list(free_order)
    while order:
        start, length = order[0], 1
        while start % (2 * length) == 0 and order[: 2 * length] == list(range(start, start + 2 * length)):
            length *= 2
        runs.append(range(start, start + length))
        del order[:length]
    return runs


def draw_free_runs(scene, width):
    """The free runs, the longest first: that is what a request must fit into."""
    text, runs = line(("free runs  ", "dim")), sorted(free_runs(scene.snapshot.free_order), key=len, reverse=True)
    for shown, run in enumerate(runs):
        more = f" +{len(runs) - shown:,} more"
        words = f" {run.start}" if len(run) == 1 else f" {run.start}-{run[-1]} ({len(run):,})"
        if text.cell_len + len(words) + len(more) > width:
            text.append(more, "dim")
            break
        text.append(words)
    if not runs:
        meaning = (" none: who waits, waits until somebody leaves", " none: all are reserved")
        text.append(next((each for each in meaning if text.cell_len + len(each) <= width), " none"), "bold")
    return [fit(text, width, scene.ink)]


def instead(snapshot):
    """What paging would take of the pool for the same tokens, in more and in fewer words."""
    usage, blocks = snapshot.usage, snapshot.usage.allocated_slots // snapshot.block_size
    if not usage.allocated_slots:
        return ("",)
    return (
        f"paging would take {count(blocks, 'block')} ({usage.allocated_slots:,} slots) for the same tokens",
        f"paging would take {usage.allocated_slots:,} slots",
        f"paged: {usage.allocated_slots:,}",
    )
