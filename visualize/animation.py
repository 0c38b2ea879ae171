"""Animation: the frames of a run become one SVG file that plays by itself, also as a picture on a web page.

A row (the content of one line) is drawn once, however many frames show it; a line of the screen is a <use> whose
reference goes from row to row as time passes. The file loads nothing and runs no script. Whoever asked for less motion,
or looks with something that doesn't animate, sees the frame in the middle. This file knows nothing of blocks or
sequences.
"""

import html
import io
import re
from collections import defaultdict
from dataclasses import dataclass

from rich.cells import cell_len
from rich.color import blend_rgb
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME

from visualize.app import must_be_writable, write_file
from visualize.ink import UNICODE, safe
from visualize.player import Player

# Pixels. A cell is 0.6 of the font's size wide, as in most monospace fonts, so that textLength has little to stretch.
FONT, CELL, LINE = 15, 9, 18
ASCENT = 14  # from the top of a line to its baseline
MARGIN, TITLE = 14, 40  # around the screen, and the height of the title bar above it
LIGHTS = ("#ff5f57", "#febc2e", "#28c840")  # the three buttons that say "this is a window"
SHORT = 6  # characters; see is_short
DIM = 1 / 3  # of the way to the background, which leaves a contrast of 4.5 to 1

CSS = """\
text{{font:{font}px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-variant-ligatures:none;fill:{ink}}}
rect{{shape-rendering:crispEdges}}
.window{{shape-rendering:auto;fill:{ground};stroke:#555}}
.title{{fill:{dim};text-anchor:middle}}
.still{{display:none}}
@media (prefers-reduced-motion:reduce){{.moving{{display:none}}.still{{display:inline}}}}
"""


def animated_svg(frames, seconds, title):
    """An SVG that shows each frame for its time, over and over.

    frames: rich Texts of the same number of lines, all lines equally many cells wide, without control characters (as
    from view.view). seconds: for each frame, how long it is shown. Raises ValueError where these don't agree.
    """
    if not frames or len(frames) != len(seconds) or min(seconds) <= 0:
        raise ValueError(f"{len(frames)} frames and {len(seconds)} times: a time above 0 is needed for each frame")
    screens = [frame.split("\n", allow_blank=True) for frame in frames]
    sizes = {(len(screen), line.cell_len) for screen in screens for line in screen}
    if len(sizes) > 1:
        raise ValueError(f"frames of several sizes, in (lines, cells): {sorted(sizes)}")
    [(num_lines, num_cells)] = sizes
    rows = Rows()
    lines = list(zip(*([rows.draw(line) for line in screen] for screen in screens)))  # [num_lines][num_frames] row ids
    times = "".join(animated_use(i, each, seconds) for i, each in enumerate(lines))
    still = "".join(use(i, each[len(frames) // 2]) for i, each in enumerate(lines))
    width, height = num_cells * CELL + 2 * MARGIN, num_lines * LINE + TITLE + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="title">\n'
        f'<title id="title">{escaped(title)}</title>\n<style>\n{rows.css()}</style>\n'
        f"<defs>\n{rows.svg()}</defs>\n{window(width, height, title)}"
        f'<g class="moving">\n{times}</g>\n<g class="still">\n{still}</g>\n</svg>\n'
    )


def use(number, row, inside=""):
    """Line `number` of the screen, with a row in it."""
    return f'<use x="{MARGIN}" y="{TITLE + number * LINE + ASCENT}" href="#{row}">{inside}</use>\n'


def animated_use(number, row_of_frame, seconds):
    """A line of the screen that shows at any time the one row that is due."""
    start, rows, starts = 0, [], []
    for row, duration in zip(row_of_frame, seconds):
        if not rows or rows[-1] != row:
            rows.append(row)
            starts.append(f"{start / sum(seconds):.6f}".rstrip("0").rstrip("."))
        start += duration
    values, times = ";".join(f"#{row}" for row in rows), ";".join(starts)
    animate = (
        f'<animate attributeName="href" values="{values}" keyTimes="{times}" dur="{sum(seconds):g}s" '
        f'calcMode="discrete" repeatCount="indefinite"/>'
    )
    return use(number, row_of_frame[len(row_of_frame) // 2], animate if len(rows) > 1 else "")


def window(width, height, title):
    buttons = "".join(f'<circle cx="{22 + 20 * i}" cy="20" r="6" fill="{LIGHTS[i]}"/>' for i in range(len(LIGHTS)))
    return (
        f'<rect class="window" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>\n{buttons}\n'
        f'<text class="title" x="{width // 2}" y="25">{escaped(title)}</text>\n'
    )


@dataclass(frozen=True)
class Look:
    """What a style comes to in the picture: colours as #rrggbb, None for the window's own."""

    ink: str | None
    ground: str | None
    bold: bool
    underline: bool

    @classmethod
    def of(cls, style):
        theme = SVG_EXPORT_THEME
        ink = theme.foreground_color if style.color is None else style.color.get_truecolor(theme)
        ground = theme.background_color if style.bgcolor is None else style.bgcolor.get_truecolor(theme)
        if style.reverse:
            ink, ground = ground, ink
        if style.dim:
            ink = blend_rgb(ink, ground, DIM)
        return cls(
            None if ink == theme.foreground_color else ink.hex,
            None if ground == theme.background_color else ground.hex,
            bool(style.bold),
            bool(style.underline),
        )

    def css(self):
        """What differs from plain text."""
        rules = [f"fill:{self.ink}"] * bool(self.ink) + ["font-weight:bold"] * self.bold
        return ";".join(rules + ["text-decoration:underline"] * self.underline)


class Rows:
    """The rows drawn so far, each once, and the classes that their styles have become."""

    def __init__(self):
        self._ids = {}  # by the SVG of the row
        self._classes = {}  # by their rules
        self._console = Console(file=io.StringIO(), width=1000)  # knows what the names of styles mean

    def draw(self, line):
        """The id of the row that shows this line, a Text."""
        runs = list(self._runs(line))
        grounds = merged((x, text, look.ground) for x, text, look in runs)
        svg = "".join(self._ground(*each) for each in grounds) + self._texts(merged(runs))
        return self._ids.setdefault(svg, f"r{len(self._ids)}")

    def _runs(self, line):
        """(cell where it starts, text, Look) of every stretch of one style."""
        x = 0
        for segment in line.render(self._console):
            yield x, segment.text, Look.of(segment.style or Style.null())
            x += cell_len(segment.text)

    def _ground(self, x, text, colour):
        if colour is None:
            return ""
        size = f'x="{x * CELL}" y="{-ASCENT}" width="{cell_len(text) * CELL}" height="{LINE}"'
        return f"<rect{self._class(f'fill:{colour}')} {size}/>"

    def _texts(self, runs):
        """Each piece is as long as its cells, so that columns meet in any font and wide characters take two cells."""
        svg, singles = "", defaultdict(list)
        for x, piece, look in (each for run in runs for each in pieces(*run)):
            if is_short(piece):
                singles[look] += ((x + i, char) for i, char in enumerate(piece))
            else:  # bars and rules are stretched: they are to have no gaps
                stretch = "" if piece.isascii() else ' lengthAdjust="spacingAndGlyphs"'
                svg += self._text(look, x * CELL, piece, f' textLength="{cell_len(piece) * CELL}"{stretch}')
        for look, chars in singles.items():  # one element for all of a look, with a place for each character
            places = " ".join(str(x * CELL) for x, _ in chars)
            svg += self._text(look, places, "".join(char for _, char in chars))
        return svg

    def _text(self, look, x, text, length=""):
        shown = escaped(text).replace(" ", "\u00a0")  # SVG would make several spaces one
        return f'<text{self._class(look.css())} x="{x}"{length}>{shown}</text>'

    def _class(self, rules):
        return f' class="{self._classes.setdefault(rules, f"c{len(self._classes)}")}"' if rules else ""

    def svg(self):
        return "".join(f'<g id="{name}">{row}</g>\n' for row, name in self._ids.items())

    def css(self):
        theme = SVG_EXPORT_THEME
        dim = Look.of(Style(dim=True)).ink
        general = CSS.format(font=FONT, ink=theme.foreground_color.hex, ground=theme.background_color.hex, dim=dim)
        return general + "".join(f".{name}{{{rules}}}\n" for rules, name in self._classes.items())


def merged(runs):
    """The same stretches of (start, text, style), with neighbours of one style made one."""
    result = []
    for x, text, style in runs:
        if result and result[-1][2] == style:
            x, before, _ = result.pop()
            text = before + text
        result.append((x, text, style))
    return result


def pieces(x, text, look):
    """A run cut so that the characters of a piece are equally wide in any font: ASCII, other narrow ones, one wide."""
    for piece in re.findall(r"[ -~]+|[^ -~]+", text):
        for part in [piece] if cell_len(piece) == len(piece) else piece:
            shown = part if look.underline else part.strip(" ")  # spaces show nothing
            if shown:
                yield x + part.index(shown), shown, look
            x += cell_len(part)


def is_short(piece):
    """Whether to give each character its place, rather than the piece an element: whichever takes less to write."""
    if piece.isascii():
        return len(piece) <= SHORT
    return len(piece) == 1 and ord(piece) < 2**16  # SVG counts the characters beyond as two


def escaped(text):
    """Text for XML, without what XML can't hold."""
    return html.escape(safe(text, UNICODE), quote=False)


def save_animation(load, path, limit=None, fps=None, width=120, height=36):
    """A whole run as a picture that moves, every step shown as long as the player would. load() returns the run."""
    must_be_writable(path)
    player = Player(load(), limit=limit, fps=fps)
    player.press("G")  # so that the timeline is that of the whole run
    while player.is_hurrying:
        player.tick()
    player.press("g")
    frames, seconds = [], []
    for _ in player.history:
        frames.append(player.frame(width, height, UNICODE))
        seconds.append(player.pause())
        player.step()
    write_file(path, animated_svg(frames, seconds, "python -m visualize"))
