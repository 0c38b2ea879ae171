"""Lines: a frame is a list of them, each a rich Text of known width. How they are put together, cut and wrapped.

Strings become Text here and are never read as rich's markup. This file knows nothing of blocks or sequences.
"""

from rich.cells import cell_len
from rich.text import Text


def line(*parts):
    """Parts are strings, (string, style) pairs or Texts."""
    return Text.assemble(*parts, no_wrap=True)


def fit(text, width, ink):
    """Exactly `width` cells: filled with spaces, or cut, with an ellipsis to say so. `text` itself is changed."""
    if text.cell_len > width:
        text.truncate(max(width - 1, 0), overflow="crop")
        text.append(ink.ellipsis)
    text.pad_right(width - text.cell_len)
    return text


def spread(left, right, width, ink):
    """`left` at the left edge, `right` at the right one; if both don't fit, only `left`."""
    gap = width - left.cell_len - right.cell_len
    return line(left, " " * gap, right) if gap >= 1 else fit(left, width, ink)


def heading(title, remark, width, ink):
    """A rule with a title at its left and, if there is room for it, a remark (a Text) at its right end."""
    left = line((ink.rule * 2, "dim"), (f" {title} ", "bold"))
    right = line(" ", remark, (f" {ink.rule}", "dim")) if remark.cell_len else line()
    if left.cell_len + right.cell_len > width:
        right = line()
    return fit(line(left, (ink.rule * (width - left.cell_len - right.cell_len), "dim"), right), width, ink)


def wrap(text, width, breaks=" "):
    """Break a Text into lines of at most `width` cells, behind one of the characters `breaks` where there is one."""
    stops = line_ends(text.plain, width, breaks)
    return list(text.divide(stops[:-1])) if stops else []


def line_ends(plain, width, breaks):
    """Where the lines end into which `wrap` breaks a string."""
    is_narrow = cell_len(plain) == len(plain)  # every character takes one cell, as nearly always
    stops, start = [], 0
    while start < len(plain):
        stop = min(start + width, len(plain)) if is_narrow else widest(plain, start, width)
        stop = max(stop, start + 1)  # even if a wide character stands in a single column
        if stop < len(plain):
            last_break = max(plain.rfind(each, start, stop) for each in breaks)
            stop = last_break + 1 if last_break >= 0 else stop
        stops.append(stop)
        start = stop
    return stops


def widest(plain, start, width):
    """The end of the longest piece of a string from `start` on that fits into `width` cells."""
    stop, cells = start, 0
    while stop < len(plain) and (cells := cells + cell_len(plain[stop])) <= width:
        stop += 1
    return stop


def last_lines(text, width, number, ink):
    """The end of a text in at most `number` lines; an ellipsis says that there is more before it."""
    breaks, plain = " " + ink.newline, text.plain
    stops = line_ends(plain, width, breaks)
    if len(stops) <= number:
        return wrap(text, width, breaks)
    start = stops[-number - 2] if len(stops) > number + 1 else 0
    while len(line_ends(ink.ellipsis + plain[start:], width, breaks)) > number:
        start = next((i + 1 for i in range(start, len(plain) - 1) if plain[i] in breaks), start + 1)
    return wrap(line((ink.ellipsis, "dim"), text[start:]), width, breaks)
