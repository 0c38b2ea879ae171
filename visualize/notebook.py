"""Notebook: one frame of the visualizer as the value of a cell. In a plain Python shell it is the frame as text.

The picture is an SVG that stands by itself: it loads nothing, and its letters are the reader's own monospace font.
"""

import sys
from dataclasses import replace
from html import escape

from rich.terminal_theme import SVG_EXPORT_THEME

from minipaged.arguments import whole
from visualize.animation import ASCENT, CELL, FONT, LINE, MARGIN, Rows, merged
from visualize.camera import Camera
from visualize.ink import UNICODE, ink_for, safe
from visualize.picture import Picture
from visualize.view import MIN_HEIGHT, MIN_WIDTH, view

FAMILY = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def watch(engine, result=None):
    """From now on every engine.step() is counted and looked at, so that a frame knows what its step has changed.

    result: what a step has returned that was run before; it counts as step 1. Raises ValueError for what is no engine,
    and for one without events.
    """
    if not (hasattr(engine, "scheduler") and hasattr(engine, "step")):
        raise ValueError(f"engine={engine!r}: must be an Engine, such as the attribute `engine` of an LLM")
    if result is not None and not hasattr(result, "plan"):
        raise ValueError(f"result={result!r}: must be what engine.step() returned")
    if not isinstance(vars(engine).get("step"), Watch):
        engine.step = Watch(engine, result)


def show(engine, result=None, width=100, height=28, title="an engine, step by step", focus=None, only_why=False):
    """The state of an Engine as it is now, with what its last step has changed. Returns a Frame.

    The first call begins to watch, if nothing else did. result: as for watch. width, height: in characters, the height
    at most. focus: the name of a sequence whose newest K and V are followed to their slot; None: the oldest that has
    blocks. only_why: the sentences get all the room.

    Raises ValueError for what is no engine, one without events, a size too small, and a focus that isn't here.
    """
    width = whole("width", width, least=MIN_WIDTH)
    height = whole("height", height, least=MIN_HEIGHT)
    watch(engine, result)
    snapshot = engine.step.look()
    names = {seq.name: bool(seq.device_table) for seq in snapshot.sequences}
    if focus is not None and focus not in names:
        raise ValueError(f"focus={focus!r}: must be the name of a sequence, of {list(names)}")
    focus = focus or next((name for name, has_blocks in names.items() if has_blocks), None)
    looks = {"width": width, "height": height, "title": title, "focus": focus, "only_why": only_why}
    before, told = engine.step.before, "; ".join(event.why for event in snapshot.events)
    alt = f"minipaged at step {snapshot.step}: {told or 'nothing has happened yet'}."
    return Frame(lambda ink: view(snapshot, before, ink=ink, **looks), alt)


class Watch:
    """Stands in the place of an engine's step: runs it and keeps the snapshots before and after it."""

    def __init__(self, engine, result=None):
        self._step, self._camera = engine.step, Camera(engine)
        self._num_steps = 0 if result is None else 1
        self.before, self._events = None, ()
        self._take(result)

    def __call__(self):
        self.before = self.look()
        result = self._step()
        self._num_steps += 1
        self._take(result)
        return result

    def _take(self, result=None):
        snapshot = self._camera.take(result)
        self._events = snapshot.events if result else self._events
        return replace(snapshot, step=self._num_steps, events=self._events)

    def look(self):
        """The snapshot of this moment: requests may have come or gone since the last step."""
        return self._take()


class Frame(Picture):
    """One frame: a picture in a notebook, text elsewhere. draw(ink) gives it as a rich Text, alt says what happens."""

    def __init__(self, draw, alt):
        self._draw, alt = draw, safe(alt, UNICODE)
        super().__init__(frame_svg(self._lines(UNICODE), alt), alt)

    def __repr__(self):
        return "\n".join(line.plain.rstrip() for line in self._lines(ink_for(sys.stdout.encoding)))

    def _lines(self, ink):
        """A list of lines, rich Texts, without the blank ones at the end."""
        lines = self._draw(ink).split("\n", allow_blank=True)
        while not lines[-1].plain.strip():
            lines.pop()
        return lines


class InlineRows(Rows):
    """Rows whose styles stand with them: several pictures can be put into one page and none changes another."""

    def _class(self, rules):
        return f' style="{rules}"' if rules else ""

    def draw(self, line):
        """The row itself."""
        runs = list(self._runs(line))
        grounds = merged((x, text, look.ground) for x, text, look in runs)
        return "".join(self._ground(*each) for each in grounds) + self._texts(merged(runs))


def frame_svg(lines, alt):
    """rich Texts, all equally wide, as an SVG."""
    rows = InlineRows()
    width, height = lines[0].cell_len * CELL + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(alt)}" style="max-width:100%;height:auto" font-family="{FAMILY}" '
        f'font-size="{FONT}" fill="{SVG_EXPORT_THEME.foreground_color.hex}" shape-rendering="crispEdges">\n'
        f'<rect width="{width}" height="{height}" fill="{SVG_EXPORT_THEME.background_color.hex}"/>\n'
    )
    for i, line in enumerate(lines):
        svg += f'<g transform="translate({MARGIN} {MARGIN + i * LINE + ASCENT})">{rows.draw(line)}</g>\n'
    return svg + "</svg>\n"
