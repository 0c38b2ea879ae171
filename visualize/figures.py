"""Figures: a canvas measured in pixels, and the SVG picture that it becomes. It knows owners' colours, but no memory.

The colours and glyphs are those of the visualizer (ink.py). The same drawing gives the same bytes: nothing in a picture
depends on the time, the display or the reader's settings of matplotlib. Only this file and those that draw with it need
matplotlib.
"""

import io
from contextlib import contextmanager
from functools import cache, lru_cache
from html import escape
from math import ceil
from string import ascii_uppercase

from visualize.ink import OKABE_ITO, UNICODE, clip_start, safe
from visualize.picture import Picture, compact

try:
    import matplotlib
except ImportError:
    raise ImportError('the figures are drawn by matplotlib, which is missing: pip install -e ".[lessons]"') from None

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import PathPatch, Polygon, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Affine2D

WIDTH = 720  # pixels, at most
MARGIN = 12
POINT = 4 / 3  # pixels; a picture's size and its letters' are given in points, 72 to the inch of 96 pixels
SMALL, NORMAL, LARGE = 9, 10, 11.5  # points

PAPER, BLACK, GREY, PALE = "#ffffff", "#000000", "#555555", "#e8e8e8"
SETTINGS = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the letters are the same everywhere
    "svg.fonttype": "path",
    "svg.hashsalt": "minipaged",
    "hatch.linewidth": 0.6,
}


class Owners:
    """Number, colours and label of each sequence. Owner n has colour n and glyph n, as in the visualizer.

    A name of one capital letter has that letter's place in the alphabet, so that B stays B when A has left; the others
    have the numbers that are left, in the order of the names.
    """

    def __init__(self, names):
        letters = {name: ascii_uppercase.index(name) for name in names if name in tuple(ascii_uppercase)}
        left = (i for i in range(len(names) + 26) if i not in letters.values())
        self._number = {name: letters[name] if name in letters else next(left) for name in names}

    def colour(self, name):
        return OKABE_ITO[self._number[name] % len(OKABE_ITO)][0]

    def ink(self, name):
        """Black or white: what reads well on the colour."""
        return OKABE_ITO[self._number[name] % len(OKABE_ITO)][1]

    def label(self, name):
        """A letter (of a long name, the end) and a glyph."""
        glyph = UNICODE.glyphs[self._number[name] % len(UNICODE.glyphs)]
        return clip_start(drawable(name), 4, UNICODE) + glyph


@contextmanager
def settings():
    """Inside it, matplotlib's own settings and ours hold, whatever the reader has set; then the reader's again."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


class Canvas:
    """Pixels, x to the right and y down, from (0, 0) inside the margin. The picture is as large as what is drawn.

    To be used within `settings`.
    """

    def __init__(self, title=""):
        self.figure = Figure()
        self.place = Affine2D()  # from pixels to inches, known when the height is
        self.transform = self.place + self.figure.dpi_scale_trans
        self.right = self.bottom = 0
        self.top = 0  # where drawing may begin: below the title
        if title:
            self.text(0, 8, title, LARGE, bold=True)
            self.top = 30

    def _reach(self, x, y):
        self.right, self.bottom = max(self.right, x), max(self.bottom, y)

    def rect(self, x, y, width, height, fill=PAPER, edge=BLACK, line=0.8, hatch=None, dashed=False):
        """A rectangle, given by its upper left corner. edge None: no outline."""
        self._reach(x + width, y + height)
        style = {"facecolor": fill, "edgecolor": edge or "none", "linewidth": line / POINT if edge else 0}
        style |= {"hatch": hatch, "linestyle": (0, (4, 3)) if dashed else "solid"}
        self._add(Rectangle((x, y), width, height, **style))

    def lines(self, lines, colour=BLACK, width=0.8):
        """Straight lines of one kind: [(start, end), ...]."""
        if lines:
            points = [point for line in lines for point in line]
            self._path(points, [Path.MOVETO, Path.LINETO] * len(lines), colour, width)

    def _path(self, points, codes, colour, width):
        for point in points:
            self._reach(*point)
        self._add(PathPatch(Path(points, codes), fill=False, edgecolor=colour, linewidth=width / POINT))

    def _add(self, patch):
        patch.set_transform(self.transform)
        self.figure.add_artist(patch)

    def arrow(self, start, end, colour):
        """From left to right, in a colour with black edges: a pale one shows on paper too."""
        (x0, y0), (x1, y1) = start, end
        middle, stop = (x0 + x1) / 2, x1 - 7
        points = [(x0, y0), (middle, y0), (middle, y1), (stop, y1)]
        for ink, width in ((BLACK, 3), (colour, 1.8)):
            self._path(points, [Path.MOVETO] + [Path.CURVE4] * 3, ink, width)
        head = [(x1, y1), (stop - 1, y1 - 4.5), (stop - 1, y1 + 4.5)]
        self._add(Polygon(head, facecolor=colour, edgecolor=BLACK, linewidth=0.6))

    def text(self, x, y, text, size=NORMAL, colour=BLACK, bold=False, align="left", ground=None):
        """A line of text around the height y. ground: a colour to draw behind it."""
        text = drawable(text)
        if not text.strip():
            return
        width = text_width(text, size, bold)
        left = x - width * {"left": 0, "center": 0.5, "right": 1}[align]
        self._reach(left + width, y + size * POINT / 2)
        if ground:
            self.rect(left - 3, y - 8, width + 6, 16, ground, edge=None)
        weight = "bold" if bold else "normal"
        style = {"fontsize": size, "color": colour, "fontweight": weight, "parse_math": False, "ha": align}
        # The baseline is placed, not the letters' own middle: words without high letters stand as high as others.
        self.figure.text(x, y + size * POINT * 0.36, text, va="baseline", transform=self.transform, **style)

    def chip(self, x, y, owners, name, size=NORMAL):
        """An owner's label on its colour, around the height y. Returns its width."""
        label = owners.label(name)
        width = text_width(label, size) + 8
        self.rect(x, y - 9, width, 18, owners.colour(name))
        self.text(x + width / 2, y, label, size, owners.ink(name), align="center")
        return width

    def legend(self, uses):
        """Boxes with their words below the title, in as many rows as they take. Returns the height below the last.

        uses: (words, colour, ink on it, hatching) of each.
        """
        x, y = 0, self.top + 8
        for words, colour, _, hatch in uses:
            width = 25 + text_width(words, SMALL)
            if x and x + width > WIDTH - 2 * MARGIN:
                x, y = 0, y + 20
            self.rect(x, y - 7, 20, 14, colour, hatch=hatch)
            self.text(x + 25, y, words, SMALL)
            x += width + 16
        return y + 24

    def picture(self, alt):
        """Everything drawn so far as a Picture."""
        width, height = ceil(self.right) + 2 * MARGIN, ceil(self.bottom) + 2 * MARGIN
        self.figure.set_size_inches(width / 96, height / 96)
        self.place.translate(MARGIN, MARGIN - height).scale(1 / 96, -1 / 96)
        return picture_of(self.figure, alt)


def picture_of(figure, alt):
    """A matplotlib Figure as a Picture: on white, without date, with its description where screen readers look."""
    figure.set_facecolor(PAPER)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    alt = drawable(alt)
    role = f'<svg role="img" aria-label="{escape(alt)}" style="max-width:100%;height:auto" '
    return Picture(compact(file.getvalue()).replace("<svg ", role, 1), alt)


@lru_cache(maxsize=4096)
def text_width(text, size, bold=False):
    """Pixels that a line of text takes."""
    font = FontProperties(family=SETTINGS["font.family"], size=size, weight="bold" if bold else "normal")
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] * POINT


def shorten(text, width, size=SMALL):
    """The start of a text in at most `width` pixels, with an ellipsis where something is cut off."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + UNICODE.ellipsis, size) > width:
        text = text[:-1]
    return text + UNICODE.ellipsis


def drawable(text):
    """Text without characters that move, hide, or are not in the font."""
    return "".join(char if ord(char) in characters() else UNICODE.unknown for char in safe(str(text), UNICODE))


@cache
def characters():
    """The code points that the font has letters for."""
    return frozenset(get_font(findfont(FontProperties(family=SETTINGS["font.family"]))).get_charmap())


def token(text):
    """What a token's box says: its text without the space that most tokens begin with."""
    if not text:
        return UNICODE.ellipsis  # a part of a character, which the last of its tokens shows
    return drawable(text).strip() or UNICODE.space


def number(value):
    """12345 as 12,345; a number with a point in at most four digits, without an exponent where it can be."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"


def letter(i):
    """What the sequences are called where nobody has named them: A, B, C ..."""
    return ascii_uppercase[i] if i < 26 else str(i)
