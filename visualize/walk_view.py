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
    is_roomy = height >= ROOMY
    for_why = max(3, body // 4)
    lines = [fit(line((facts(moment.sizes, width), "dim")), width, ink)] if is_roomy else []

    def panel(title, remark, rows):
        nonlocal lines
        blank = [line(" " * width)] * (height >= SPACIOUS and len(lines) > 1)
        above = [*blank, heading(title, line((remark, "dim")), width, ink)] if is_roomy and title else []
        lines = lines + above + rows

    bars = f"{ink.bar[0]} read {ink.bar[1]} now {ink.bar[2]} to come"
    panel("Programs (sequence, KV head, split)", bars, draw_programs(moment, width, 3 if not is_roomy else 4, ink))
    has_table = is_roomy or moment.kind in ("start", "tile")
    panel("Block table" if height >= 24 else "", "in brackets: what this tile looks up" * bool(moment.tile),
          draw_table(moment, width, ink) if has_table else [])  # fmt: skip
    numbers = draw_numbers(moment, width, 4 if is_roomy or not has_table else 2, ink)
    tile = draw_tile(moment, width, ink) if moment.tile else []
    after = len(numbers) + is_roomy * (1 + (height >= SPACIOUS))
    spare = body - for_why - len(lines) - after - 1 - (height >= SPACIOUS)
    pool = draw_pool(moment, width, max(2, spare - is_roomy), ink)
    if moment.tile and is_roomy and spare - len(pool) >= len(tile) + 1:
        kv_head = moment.program[0]
        panel(f"Tile {moment.tile.number}, as the program has it: K and V of KV head {kv_head}",
              f"weight: exp(score - maximum)  {ink.masked} masked", tile)  # fmt: skip
    signs = f"{MARK} read now  {ink.masked} masked  {ink.unwritten} empty"
    panel(f"Physical KV cache: {count(moment.sizes.num_blocks, 'block')} of {moment.sizes.block_size}", signs, pool)
    panel(title_of_numbers(moment), "", numbers)
    return lines


def facts(sizes, width):
    """The sizes, in as many words as fit."""
    heads = f"{count(sizes.num_heads, 'query head')} on {count(sizes.num_kv_heads, 'KV head')}"
    cut = f"{sizes.seq_len} keys, blocks of {sizes.block_size}, tiles of {sizes.tile_size}"
    return f"{cut}, {heads}" + (f", {sizes.num_splits} splits" if sizes.num_splits > 1 else ", unsplit")


def draw_why(moment, story, width, height, ink, has_gap):
    """A heading, and the sentences; where room is short the weightiest stay, in their order."""
    drawn = [wrap(line(event.why + "."), width) for event in moment.events]
    before = wrap(line((story, "italic")), width) if story else []
    order = sorted(range(len(drawn)), key=lambda i: (moment.events[i].weight, i))
    room, hidden = height - 1 - has_gap, 0
    if len(before) + sum(map(len, drawn)) > room:
        before = before[: max(0, room - max(map(len, drawn), default=0))] if moment.step == 0 else []
    while len(before) + sum(map(len, drawn)) > room - bool(hidden) and hidden < len(drawn) - 1:
        drawn[order[hidden]] = []
        hidden += 1
    rows = [each for sentence in drawn for each in sentence]
    rows = before + rows if moment.kind == "start" else rows + before
    if len(rows) + bool(hidden) > room:
        keep = max(room - bool(hidden), 1)
        rows = [*rows[: keep - 1], line(rows[keep - 1], ink.ellipsis)]
    if hidden and len(rows) < room:
        rows.append(line((f"+{hidden} more", "dim")))
    top = [line(" " * width)] * has_gap + [heading("Why: what the program does now", line(), width, ink)]
    return filled([*top, *(fit(each, width, ink) for each in rows)], width, height)
