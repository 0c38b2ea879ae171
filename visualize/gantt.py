"""Gantt charts: who was computed when. A row for each request, time to the right, from a run's real steps.

What a request does is told by colour and by pattern: waiting is a dashed outline, a prompt is dark and solid, decoding
is light with a line at each token, what is computed again is hatched, and so are stalls, each in its own way.
"""

from visualize.figures import (
    BLACK,
    GREY,
    NORMAL,
    PALE,
    PAPER,
    SMALL,
    WIDTH,
    Canvas,
    Owners,
    drawable,
    number,
    settings,
    shorten,
    text_width,
)
from visualize.why import count

ROW, BAR = 26, 20  # pixels: from one request to the next, and the height of a bar

# What a span of time can be: words, colour, ink on it, hatching.
USES = {
    "waiting": ("waits", PAPER, BLACK, None),
    "prompt": ("prompt computed (tokens)", "#0072B2", "#ffffff", None),
    "decode": ("decodes, a line a token", "#56B4E9", BLACK, None),
    "stall": ("runs, but gets nothing (stall)", "#F0E442", BLACK, "--"),
    "preempted": ("preempted", PALE, BLACK, "xx"),
    "recompute": ("computed again", "#D55E00", BLACK, "///"),
    "held": ("finished, place kept", "#c0c0c0", BLACK, "\\\\\\"),
}


def draw_gantt(run, title="", until_s=None):
    """A Run (minipaged.bench.timed_run) as a chart.

    until_s: where the time axis ends, to draw several runs to one scale; None: at the run's end. What comes later is
    cut off. Raises ValueError for a run without steps and for an until_s that isn't positive.
    """
    if not run.steps:
        raise ValueError(f"{run.name}: no step was made, so there is nothing to draw")
    until_s = run.end_s if until_s is None else until_s
    if not until_s > 0:
        raise ValueError(f"until_s={until_s}: must be a positive number")
    spans = spans_of(run)
    used = {kind for each in spans.values() for kind, *_ in each}
    owners = Owners(list(run.arrivals))
    with settings():
        canvas = Canvas(title)
        top = canvas.legend([use for kind, use in USES.items() if kind in used])
        left = max(text_width(owners.label(name), NORMAL) for name in run.arrivals) + 18
        scale = (WIDTH - 24 - 8 - left) / until_s
        bottom = top + ROW * len(spans)
        draw_axis(canvas, left, top, bottom, until_s, scale)
        for i, (name, each) in enumerate(spans.items()):
            middle = top + ROW * (i + 0.5)
            canvas.chip(0, middle, owners, name, SMALL)
            for kind, start, end, ticks, tokens in each:
                if start < until_s:
                    x, width = left + start * scale, (min(end, until_s) - start) * scale
                    inner = [left + at * scale for at in ticks if at < until_s]
                    draw_span(canvas, kind, x, middle, width, inner, tokens)
        return canvas.picture(f"{run.name}, time in milliseconds. {said_of(run, spans)}")


def spans_of(run):
    """{request: [(kind, start, end, token times within, tokens computed), ...]}, seconds, without overlaps.

    Steps of one kind that follow each other at once are one span, but for prompts: each chunk is its own.
    """
    spans = {name: [] for name in run.arrivals}
    last = {name: (arrival, None) for name, arrival in run.arrivals.items()}  # until when, and doing what
    preempted_from = {}
    for step in run.steps:
        for name in step.preempted:
            preempted_from.setdefault(name, step.start_s)
        for name, (kind, tokens) in rows_of(step).items():
            until, before = last[name]
            fill_gap(spans[name], until, before, step.start_s, preempted_from.pop(name, None))
            row = spans[name]
            if row and row[-1][0] == kind != "prompt" and row[-1][2] == step.start_s:
                _, start, _, ticks, sum_tokens = row.pop()
                row.append((kind, start, step.end_s, [*ticks, step.start_s], sum_tokens + tokens))
            else:
                row.append((kind, step.start_s, step.end_s, [], tokens))
            last[name] = step.end_s, kind
    return spans


def rows_of(step):
    """{request: (kind, tokens computed)}: a request with several sequences is one row."""
    rows = {}
    for work in step.work:
        kind, tokens = rows.get(work.request, (work.kind, 0))
        rows[work.request] = kind, tokens + work.num_tokens
    return rows


def fill_gap(row, until, before, start, preempted_from):
    """What a request did between two of its steps, or before the first."""
    if until < start and before is None:
        row.append(("waiting", until, start, [], 0))
    elif until < start:
        yielded = start if preempted_from is None else max(until, preempted_from)
        if until < yielded:
            row.append(("stall", until, yielded, [], 0))
        if yielded < start:
            row.append(("preempted", yielded, start, [], 0))


def draw_axis(canvas, left, top, bottom, until_s, scale):
    """Time in ms below the rows, with a thin line through them at each number."""
    step = next(each for each in ticks() if until_s * 1e3 / each <= 8)
    for i in range(int(until_s * 1e3 / step) + 1):
        x = left + i * step / 1e3 * scale
        canvas.lines([((x, top - 4), (x, bottom + 4))], "#bbbbbb", 0.6)
        canvas.text(x, bottom + 14, number(i * step), SMALL, GREY, align="center")
    canvas.text(left - 12, bottom + 14, "ms", SMALL, GREY, align="right")


def ticks():
    """1, 2, 5, 10, 20, 50 ..."""
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def draw_span(canvas, kind, x, y, width, inner, tokens):
    _, colour, ink, hatch = USES[kind]
    top, is_waiting = y - BAR / 2, kind == "waiting"
    canvas.rect(x, top, width, BAR, colour, GREY if is_waiting else BLACK, 0.8, hatch, dashed=is_waiting)
    if kind in ("decode", "recompute", "held"):
        canvas.lines([((at, top), (at, top + BAR)) for at in inner], BLACK, 0.5)
    words = number(tokens)
    if kind in ("prompt", "recompute") and text_width(words, SMALL) + 4 <= width:
        canvas.text(x + width / 2, y, shorten(words, width), SMALL, ink, align="center", ground=colour)


def said_of(run, spans):
    """The chart in words."""
    said = []
    for name, served in run.served().items():
        words = [f"{drawable(name)} arrives at {1e3 * served.arrival_s:.0f}"]
        if served.token_times_s:
            words.append(f"first token at {1e3 * served.token_times_s[0]:.0f}")
            words.append(f"{count(len(served.token_times_s), 'token')}, longest gap {1e3 * served.longest_gap_s:.0f}")
        if served.finish_s is not None:
            words.append(f"finished at {1e3 * served.finish_s:.0f}")
        if times := sum(kind == "preempted" for kind, *_ in spans[name]):
            words.append(f"preempted {count(times, 'time')}")
        said.append(", ".join(words))
    return "; ".join(said) + "."
