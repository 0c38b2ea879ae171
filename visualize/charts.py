"""Charts: the lessons' figures of numbers: reservations, what memory is used for, lines. Import them from plots.py."""

from matplotlib.figure import Figure

from visualize.figures import (
    BLACK,
    GREY,
    LARGE,
    NORMAL,
    PALE,
    PAPER,
    SMALL,
    WIDTH,
    Canvas,
    Owners,
    drawable,
    letter,
    number,
    picture_of,
    settings,
    shorten,
    text_width,
)
from visualize.ink import OKABE_ITO
from visualize.words import count

# What a slot can be used for: words, colour, ink on it, hatching. What is wasted is grey, and told apart by hatching.
STATES = ("token states", "#0072B2", "#ffffff", None)
RESERVED = ("reserved for later tokens", "#f2f2f2", BLACK, "///")
INTERNAL = ("never used (internal)", "#c0c0c0", BLACK, "xxx")
EXTERNAL = ("in no run (external)", PAPER, BLACK, None)
MARKERS = "o^sD*vPX"
LEFT = 48  # pixels, for what stands before a row of slots
BAR = 26  # pixels, the height of a bar or of a row of slots


def draw_layout(layout, title="", names=None):
    """One long run of slots with a reservation for each request, to scale, in several rows where it is long.

    layout: (num_slots, runs); a run has start, size, num_tokens (stored now) and num_final (stored when it ends), all
    in slots. names: those of the runs, in their order; None: A, B, C ... Raises ValueError for runs that overlap, leave
    the slots or hold more than fits.
    """
    runs = list(layout.runs)
    names = [letter(i) for i in range(len(runs))] if names is None else list(names)
    check_layout(layout.num_slots, runs, names)
    owners, gaps = Owners(names), gaps_between(layout.num_slots, runs)
    with settings():
        canvas = Canvas(title)
        y = canvas.legend((("stored, in the owner's colour", PALE, BLACK, None), RESERVED, INTERNAL, EXTERNAL))
        canvas.text(LEFT - 6, y, "slot", SMALL, GREY, align="right")
        strip = Strip(layout.num_slots, y + 14)
        for first, (_, top, _) in zip(range(0, layout.num_slots, strip.row), strip.pieces(0, layout.num_slots)):
            canvas.text(LEFT - 6, top + BAR / 2, number(first), SMALL, GREY, align="right")
        for start, stop in gaps:
            draw_stretch(canvas, strip, start, stop, EXTERNAL)
        for run, name in zip(runs, names):
            end = run.start + run.size
            stops = [run.start, run.start + run.num_tokens, run.start + run.num_final, end]
            stored = (owners.label(name), owners.colour(name), owners.ink(name), None)
            draw_stretch(canvas, strip, *stops[:2], stored, owners.label(name))
            draw_stretch(canvas, strip, *stops[1:3], RESERVED)
            draw_stretch(canvas, strip, *stops[2:], INTERNAL)
        y = canvas.bottom + 22
        for run, name in zip(runs, names):
            width = canvas.chip(0, y, owners, name, SMALL)
            canvas.text(max(width + 8, LEFT), y, said_of(run), SMALL)
            y += 22
        sizes = [stop - start for start, stop in gaps]
        outside = f"{count(sum(sizes), 'slot')} in no run, in {count(len(gaps), 'gap')}"
        outside += f": {', '.join(map(number, sizes))}" if 1 < len(gaps) <= 12 else ""
        canvas.text(LEFT, y, outside, SMALL)
        said = [f"{name}: {said_of(run)}" for run, name in zip(runs, names)]
        return canvas.picture(f"{count(layout.num_slots, 'slot')}. {'; '.join([*said, outside])}.")


class Strip:
    """Where slots are drawn: in one row, or in up to six of 256, 512 ... slots."""

    def __init__(self, num_slots, top):
        self.num_slots, self.top = num_slots, top
        self.row = num_slots if num_slots <= 128 else 256
        while num_slots > 6 * self.row:
            self.row *= 2
        self.slot = (WIDTH - 24 - LEFT) / self.row  # pixels

    def pieces(self, start, stop):
        """(x, y, width) of the stretch start .. stop - 1 in each row that it reaches into."""
        pieces = []
        for i, first in enumerate(range(0, self.num_slots, self.row)):
            begin, end = max(start, first), min(stop, first + self.row)
            if begin < end:
                x = LEFT + (begin - first) * self.slot
                pieces.append((x, self.top + i * (BAR + 8), (end - begin) * self.slot))
        return pieces


def draw_stretch(canvas, strip, start, stop, use, label=None):
    """The slots start .. stop - 1, all used for the same. label: what is written there; None: how many they are."""
    _, colour, ink, hatch = use
    is_outside = use is EXTERNAL
    pieces = strip.pieces(start, stop)
    for x, y, width in pieces:
        canvas.rect(x, y, width, BAR, colour, GREY if is_outside else BLACK, 0.6, hatch, dashed=is_outside)
        if label and strip.slot >= 8:
            walls = [x + i * strip.slot for i in range(1, round(width / strip.slot))]
            canvas.lines([((wall, y), (wall, y + BAR)) for wall in walls], width=0.4)
    x, y, width = max(pieces, key=lambda piece: piece[2], default=(0, 0, 0))  # once, where there is most room
    label = label or number(stop - start)
    if text_width(label, SMALL) + 4 <= width:
        canvas.text(x + width / 2, y + BAR / 2, label, SMALL, ink, align="center", ground=colour)


def said_of(run):
    """A run in words."""
    stored, later = number(run.num_tokens), number(run.num_final - run.num_tokens)
    slots = f"slots {number(run.start)} to {number(run.start + run.size - 1)}"
    return f"{slots}: {stored} stored, {later} reserved for later, {number(run.size - run.num_final)} never used"


def check_layout(num_slots, runs, names):
    """Raises ValueError where a figure of these runs would show nonsense."""
    if len(names) != len(runs) or len(set(names)) < len(names):
        raise ValueError(f"names={names} for {len(runs)} runs: each run needs a name of its own")
    end = 0
    for run in sorted(runs, key=lambda run: run.start):
        if not (end <= run.start and run.start + run.size <= num_slots):
            raise ValueError(f"{run}: must lie within {num_slots} slots and overlap no other run")
        if not 0 <= run.num_tokens <= run.num_final <= run.size:
            raise ValueError(f"{run}: num_tokens must not be above num_final, nor that above size")
        end = run.start + run.size


def gaps_between(num_slots, runs):
    """The stretches in no run, as (start, stop), in their order."""
    taken = sorted((run.start, run.start + run.size) for run in runs)
    edges = zip([0, *(stop for _, stop in taken)], [*(start for start, _ in taken), num_slots])
    return [(start, stop) for start, stop in edges if start < stop]


def draw_waste(bars, title=""):
    """Stacked bars of what memory is used for, each made 100% long, with the percentages written in them.

    bars: {name: (token states, reserved, internal, external)}, in percent, slots or any other unit. Where a name ends
    in "(paper)", a gap follows. Raises ValueError for less or more than four numbers, negative ones, or only zeros.
    """
    for name, parts in bars.items():
        if len(parts) != 4 or min(parts) < 0 or not sum(parts) > 0:
            raise ValueError(f"{name!r}: {parts} must be four numbers, none below 0 and not all 0")
    uses = (STATES, RESERVED, INTERNAL, EXTERNAL)
    with settings():
        canvas = Canvas(title)
        left = min(200, max((text_width(drawable(name), NORMAL) for name in bars), default=0)) + 10
        y, said, scale = canvas.legend(uses), [], (WIDTH - 24 - 20 - left) / 100
        for name, parts in bars.items():
            canvas.text(left - 8, y + BAR / 2, shorten(drawable(name), 200, NORMAL), align="right")
            is_percent = abs(sum(parts) - 100) <= 0.5  # rounded ones: they are shown as they were given
            shares, x = list(parts) if is_percent else [100 * part / sum(parts) for part in parts], left
            for share, (_, colour, ink, hatch) in zip(shares, uses):
                if share:
                    canvas.rect(x, y, share * scale, BAR, colour, hatch=hatch)
                words = f"{share:.1f}"
                if text_width(words, SMALL) + 8 <= share * scale:
                    canvas.text(x + share * scale / 2, y + BAR / 2, words, SMALL, ink, align="center", ground=colour)
                x += share * scale
            said.append(f"{name}: " + ", ".join(f"{share:.1f}% {use[0]}" for share, use in zip(shares, uses)))
            y += BAR + (20 if name.endswith("(paper)") else 6)
        for percent in range(0, 101, 20):
            canvas.text(left + percent * scale, y + 6, f"{percent}%", SMALL, GREY, align="center")
        return canvas.picture(f"What memory is used for. {'; '.join(said)}.")


def draw_lines(series, x, y, title="", log_x=False, markers=True):
    """A line chart, each line with its own marker and its name at its end.

    series: {label: [(x, y), ...]}. x, y: what the axes mean, with the unit. log_x: every doubling of x is as wide as
    every other, with a number at each x. markers: at each point, or, where there are very many, only at a line's name.
    Raises ValueError for a line of no points, and with log_x for an x that isn't positive.
    """
    for label, points in series.items():
        if len(points) == 0 or any(len(point) != 2 for point in points):
            raise ValueError(f"{label!r}: {points!r} must be a list of (x, y), at least 1 of them")
        if log_x and min(where for where, _ in points) <= 0:
            raise ValueError(f"{label!r}: {points!r} must have positive x only, since log_x=True")
    with settings():
        height = 380
        figure = Figure(figsize=(WIDTH / 96, height / 96))
        room = min(220, max((text_width(drawable(label), SMALL) for label in series), default=0)) + 44
        axes = figure.add_axes((0.1, 0.14, 0.9 - room / WIDTH, 0.74))
        said, ends = [], []
        for i, (label, points) in enumerate(series.items()):
            xs, ys = zip(*points)
            style = {"color": OKABE_ITO[(i + 5) % len(OKABE_ITO)][0], "marker": MARKERS[i % len(MARKERS)]}
            style |= {"markeredgecolor": BLACK, "markeredgewidth": 0.6, "markersize": 6, "clip_on": False}
            axes.plot(xs, ys, linewidth=1.8, **(style if markers else style | {"marker": ""}))
            ends.append((ys[-1], drawable(label), style))
            told = points if markers else [points[0], points[-1]]
            said.append(f"{label}: " + ", ".join(f"{number(at)} at {number(where)}" for where, at in told))
        if log_x:
            places = sorted({where for points in series.values() for where, _ in points})
            axes.set_xscale("log", base=2)
            axes.set_xticks(places, [number(where) for where in places])
        axes.margins(x=0.02)
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=SMALL)
        axes.set_xlabel(drawable(x), fontsize=NORMAL, parse_math=False)
        axes.set_ylabel(drawable(y), fontsize=NORMAL, parse_math=False)
        axes.set_title(drawable(title), fontsize=LARGE, fontweight="bold", loc="left", parse_math=False)
        low, high = axes.get_ylim()
        line, at = (high - low) / (height * 0.74) * 17, None
        for end, label, style in sorted(ends, key=lambda each: each[0]):  # none on top of another
            at = end if at is None else max(end, at + line)
            axes.plot([1.03], [at], transform=axes.get_yaxis_transform(), **style)
            place = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "va": "center_baseline"}
            axes.annotate(shorten(label, 220), (1.03, at), (8, 0), fontsize=SMALL, parse_math=False, **place)
        return picture_of(figure, f"A line chart of {y} over {x}. {'; '.join(said)}.")
