"""Sharing: how a block that several sequences own says so: by all their names where there is room, by their number
always, and in stripes of their colours.

This file only draws; every number comes from the snapshot.
"""

from itertools import groupby

from rich.cells import cell_len

from visualize.ink import NEW, clip_start, safe
from visualize.lines import line
from visualize.words import count


def together(sequences, ink):
    """The names of several sequences in few cells, those of one request as a range: A.1-3,5 B."""
    words = []
    for request, group in groupby(sequences, lambda seq: seq.request):
        group = list(group)
        numbers = [seq.index + 1 for seq in group if seq.name != request]
        words.append(clip_start(safe(request, ink), 4, ink) + f".{ranges(numbers)}" * bool(numbers))
    return " ".join(words)


def ranges(numbers):
    """[5, 1, 2, 3] -> "1-3,5"."""
    runs = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def striped(text, styles, length=None):
    """A text on stripes, side by side, of the styles of all owners, over its first `length` characters or all.

    text: a string or a Text, which is not changed. Returns a Text.
    """
    text, stop = line(text), 0
    length = len(text) if length is None else length
    for i, style in enumerate(styles):
        start, stop = stop, length * (i + 1) // len(styles)
        text.stylize_before(style, start, stop)
    return text


def times(scene, block_id):
    """x2: by how many a block is shared, as the engine counts. It stands out where that has just changed."""
    block = scene.snapshot.blocks[block_id]
    is_new = scene.previous and scene.previous.blocks[block_id].owners != block.owners
    return f"x{block.ref_count}", NEW if is_new else "bold"


def draw_owners(scene, block_id, room, head=" "):
    """Who shares a block, in as many words as `room` cells allow: a Text that begins with `head`."""
    sequences = [seq for seq, _ in scene.homes(block_id)]
    number, styles = times(scene, block_id), [scene.style(seq.name) for seq in sequences]
    labels = [part for seq in sequences for part in ((scene.label(seq.name), scene.style(seq.name)), " ")]
    candidates = [line(head, *labels, number), line(head, striped(together(sequences, scene.ink), styles), " ", number)]
    if len({seq.request for seq in sequences}) == 1:
        candidates.append(line(head, safe(sequences[0].request, scene.ink), " ", number))
    candidates += [line(" ", number), line(number)]
    return next((each for each in candidates if each.cell_len <= room), candidates[-1])


def draw_copies(scene, room):
    """The copies of this step, source and destination, in at most `room` cells: as many as fit, or an empty line."""
    pairs = [f"{fact.source}{scene.ink.arrow}{fact.destination}" for fact in scene.copies]
    for shown in range(len(pairs), 0, -1):
        hidden = len(pairs) - shown
        text = f"copied {' '.join(pairs[:shown])}{f' +{hidden} more' if hidden else ''}"
        if cell_len(text) <= room:
            return line((text, "bold reverse"))
    return line()


def saved(usage):
    """What sharing saves, in more and in fewer words; nothing where nothing is shared."""
    if not usage.saved_blocks:
        return ("",)
    blocks = count(usage.saved_blocks, "block")
    most = f"sharing saves {blocks} ({count(usage.saved_slots, 'slot')})", f"sharing saves {blocks}"
    return *most, f"{blocks} saved", f"{usage.saved_blocks:,} saved"
