"""Ink: which characters and colours a frame is drawn with, and how foreign text is made safe to draw.

Whose a block is is told three times: by a letter, a glyph and a colour. The colours are Okabe and Ito's, which people
with any colour vision can tell apart. This file knows nothing of blocks or sequences.
"""

import unicodedata
from dataclasses import dataclass
from functools import cache

from rich.cells import cell_len
from rich.style import Style


@dataclass(frozen=True)
class Ink:
    """Every character that isn't plain text. Each is one cell wide, but for the arrow."""

    glyphs: str  # owners
    rule: str
    wall: str  # between the slots of a block
    unwritten: str  # an empty slot in a used block
    arrow: str
    ellipsis: str
    newline: str
    space: str  # a token that is only a space
    unknown: str  # a character that can't be drawn
    bar: str  # of the memory line: written, allocated but not written, free
    cached: str  # wherever a block is cached: in its cell, on the map, in the free queue and on the bar
    reserved: str  # likewise, wherever one is reserved
    dot: str  # between parts of a line
    here: str  # where we stand on the timeline
    shades: str  # how much of a group of blocks is used: none, three steps between, all; none of them is a glyph
    levels: str  # a number from 0 to 1, as a bar or a digit
    masked: str  # what a kernel doesn't read
    is_ascii: bool = False


UNICODE = Ink(
    "●▲■◆★▼♣♥", "─", "│", "·", "→", "…", "↵", "␣", "\ufffd", "█▒░", "≡", "□", "·", "┃", "·░▒▓█", "▁▂▃▄▅▆▇█", "\xd7"
)  # fmt: skip
ASCII = Ink(
    "o^#@$v%w", "-", "|", ".", "->", "~", "/", "_", "?", "#=.", "c", "r", "-", ">", ".:=xX", "0123456789", "x",
    is_ascii=True,
)  # fmt: skip

# Okabe and Ito's colours, with the ink that reads well on each.
OKABE_ITO = (
    ("#56B4E9", "#000000"),  # sky blue
    ("#E69F00", "#000000"),  # orange
    ("#009E73", "#000000"),  # bluish green
    ("#CC79A7", "#000000"),  # reddish purple
    ("#F0E442", "#000000"),  # yellow
    ("#0072B2", "#ffffff"),  # blue
    ("#D55E00", "#000000"),  # vermillion
)

# Marks of what changed in this step; they stand out without colour.
TAKEN, WRITTEN, FREED, SHARED = "+", "*", "-", "&"
NEW = Style(bold=True, underline=True)
CACHED = Style(color="#000000", bgcolor="#BBBBBB")  # grey: nobody's colour
CACHED_SIGN = RESERVED_SIGN = Style(color="#999999")  # for characters that are themselves an area


@cache
def owner_style(number):
    """Black (or white) on the owner's colour: it reads the same on a light and on a dark terminal."""
    background, ink = OKABE_ITO[number % len(OKABE_ITO)]
    return Style(color=ink, bgcolor=background)


@cache
def owner_colour(number):
    """For characters that are themselves an area of colour."""
    return Style(color=OKABE_ITO[number % len(OKABE_ITO)][0])


def ink_for(encoding):
    """The characters that a stream of this encoding can carry."""
    try:
        "".join(value for value in vars(UNICODE).values() if isinstance(value, str)).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def safe(text, ink):
    """Text from a model or a user, without anything that moves the cursor, hides, combines or fails to encode."""
    if text.isascii() and text.isprintable():  # nearly always
        return text
    return "".join(_safe(char, ink) for char in text)


def _safe(char, ink):
    if char == "\n":
        return ink.newline
    if " " <= char <= "~":
        return char
    category = unicodedata.category(char)
    if char == "\t" or category == "Zs":
        return " "
    if ink.is_ascii or category[0] in "CMZ" or cell_len(char) == 0:
        return ink.unknown
    return char


def clip(text, width, ink):
    """The start of a text in at most `width` cells; where something is cut off, an ellipsis says so."""
    if cell_len(text) <= width:
        return text
    kept = text
    while kept and cell_len(kept) > width - 1:
        kept = kept[:-1]
    return (kept + ink.ellipsis)[: max(width, 0)]


def clip_start(text, width, ink):
    """The end of a text in at most `width` cells, an ellipsis before it if something is cut off."""
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[1:]
    return (ink.ellipsis + text)[: max(width, 0)]


def pad(text, width):
    return text + " " * (width - cell_len(text))
