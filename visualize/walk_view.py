"""The frame of a walk through the decode kernel: a moment and a size become text, exactly that size.

It is pure, as view.py is: the same moment gives the same frame.
"""

from rich.text import Text

from visualize.ink import UNICODE
from visualize.lines import fit, heading, line, wrap
from visualize.timeline import draw_timeline
from visualize.view import MIN_HEIGHT, MIN_WIDTH, ROOMY, SPACIOUS, filled, too_small
from visualize.walk_numbers import draw_numbers, draw_programs, title_of_numbers
from visualize.walk_pool import MARK, draw_pool, draw_table, draw_tile
from visualize.words import count

TITLED = 24  # lines, from which on each part has a heading
# Each kind of landmark and its mark on the history line.
MARKS = {"Began": "+", "Merged": "&", "Ended": "x"}


def title_of(sizes):
    """What a walk is called."""
    return f"the decode kernel, {f'in {sizes.num_splits} splits' if sizes.num_splits > 1 else 'unsplit'}"


def view(
    moment,
    previous=None,
    width=100,
    height=28,
    ink=UNICODE,
    title="",
    footer="",
    story="",
    timeline=None,
    focus=None,
    only_why=False,
):
    """A rich Text of `height` lines, each `width` cells wide. Arguments as of visualize.view.view."""
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return too_small(width, height, ink)
    step = line((f"step {moment.step} ", "bold"))
    name = fit(line(("minipaged", "bold"), f" {ink.dot} {title}"), width - step.cell_len - 1, ink)
    lines = [line(name, " ", step)]
    below = [draw_timeline(timeline, width, ink, MARKS)] if timeline and height >= ROOMY else []
    below += [fit(line(footer), width, ink)] if footer else []
    body = height - len(lines) - len(below)
    panels = [] if only_why else draw_panels(moment, width, body, ink, height)
    lines += panels
    lines += draw_why(moment, story, width, body - len(panels), ink, height >= SPACIOUS and not only_why)
    return Text("\n", no_wrap=True).join(lines + below)


def draw_panels(moment, width, body, ink, height):
    """All but the sentences: who reads, which entries, which slots, what the numbers become."""
    sizes, is_roomy, is_spacious = moment.sizes, height >= TITLED, height >= SPACIOUS
    has_table = is_roomy or moment.kind in ("start", "tile")  # the others look nothing up
    programs = draw_programs(moment, width, 4 if is_roomy else 3, ink)
    table = draw_table(moment, width, ink) if has_table else []
    numbers = draw_numbers(moment, width, 4 if is_roomy or not has_table else 2, ink)
    above = is_roomy + is_spacious  # lines above each part
    for_why = max(5, body // 4) + is_spacious
    room = body - for_why - len(programs) - len(table) - len(numbers) - 3 * above - is_roomy
    pool = draw_pool(moment, width, max(2, room - above), ink)
    tile = draw_tile(moment, width, ink) if moment.tile and is_roomy else []
    if len(pool) + len(tile) + 2 * above > room:
        tile = []

    parts = [
        ("Programs (sequence, KV head, split)", f"{ink.bar[0]} read {ink.bar[1]} now {ink.bar[2]} to come", programs),
        ("Block table", "in brackets: what this tile looks up" * bool(moment.tile), table),
        (title_of_tile(moment), f"weight: exp(score - maximum)  {ink.masked} masked", tile),
        (f"Physical KV cache: {count(sizes.num_blocks, 'block')} of {sizes.block_size}",
         f"{MARK} read now  {ink.masked} masked  {ink.unwritten} empty", pool),
        (title_of_numbers(moment), "", numbers),
    ]  # fmt: skip
    lines = [facts(sizes, width, ink)] if is_roomy else []
    for title, remark, rows in parts:
        if rows and is_roomy:
            blank = [line(" " * width)] * (is_spacious and len(lines) > 1)
            lines += [*blank, heading(title, line((remark, "dim")), width, ink)]
        lines += rows
    return lines


def title_of_tile(moment):
    if not moment.tile:
        return ""
    return f"Tile {moment.tile.number}, as the program has it: K and V of KV head {moment.program[0]}"


def facts(sizes, width, ink):
    """The sizes on a line, in as many words as fit."""
    cut = f"{sizes.seq_len} keys, blocks of {sizes.block_size}, tiles of {sizes.tile_size}"
    heads = f"{count(sizes.num_heads, 'query head')} on {count(sizes.num_kv_heads, 'KV head')}"
    splits = f"{sizes.num_splits} splits" if sizes.num_splits > 1 else "unsplit"
    candidates = f"{cut}, {heads}, {splits}", f"{cut}, {sizes.num_heads} heads on {sizes.num_kv_heads}, {splits}"
    return fit(line((next((each for each in candidates if len(each) <= width), candidates[-1]), "dim")), width, ink)


def draw_why(moment, story, width, height, ink, has_gap):
    """A heading, and the sentences; where room is short the weightiest stay, in their order."""
    drawn = [wrap(line(event.why + "."), width) for event in moment.events]
    told = wrap(line((story, "italic")), width) if story else []
    order = sorted(range(len(drawn)), key=lambda i: (moment.events[i].weight, i))
    room, hidden = height - 1 - has_gap, 0
    while len(told) + sum(map(len, drawn)) + bool(hidden) > room and hidden < len(drawn) - 1:
        drawn[order[hidden]] = []
        hidden += 1
    rows = [each for sentence in drawn for each in sentence]
    rows = told + rows if moment.kind == "start" else rows + told
    last = max(room - bool(hidden), 1)  # a line is kept to say what is hidden
    if len(rows) > last:
        rows = [*rows[: last - 1], line(rows[last - 1], ink.ellipsis)]
    if hidden:
        rows.append(line((f"+{hidden} more", "dim")))
    top = [line(" " * width)] * has_gap + [heading("Why: what the program does now", line(), width, ink)]
    return filled([*top, *(fit(each, width, ink) for each in rows)], width, height)
