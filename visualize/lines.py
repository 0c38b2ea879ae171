"""Lines: a frame is a list of them, each a rich Text of known width. How they are put together, cut and wrapped.

Strings become Text here and are never read as rich's markup. This file knows nothing of blocks or sequences.
"""

from rich.cells import cell_len
from rich.text import Text


def line(*parts):
    """Parts are strings, (string, style) pairs or Texts."""
    return Text.assemble(*parts, no_wrap=True)


def fit(text, width, ink):
    """Exactly `width` cells: filled with spaces, or cut, with an ellipsis to say so."""
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
    plain, lines, start = text.plain, [], 0
    while start < len(plain):
        stop, cells = start, 0
        while stop < len(plain) and cells + cell_len(plain[stop]) <= width:
            cells += cell_len(plain[stop])
            stop += 1
        stop = max(stop, start + 1)  # even if a wide character stands in a single column
        if stop < len(plain):
            stop = 1 + max((i for i in range(start, stop) if plain[i] in breaks), default=stop - 1)
        lines.append(text[start:stop])
        start = stop
    return lines


def last_lines(text, width, number, ink):
    """The end of a text in at most `number` lines; an ellipsis says that there is more before it."""
    breaks = " " + ink.newline
    lines = wrap(text, width, breaks)
    if len(lines) <= number:
        return lines
    start = sum(len(each) for each in lines[: len(lines) - number - 1])
    while len(lines := wrap(line((ink.ellipsis, "dim"), text[start:]), width, breaks)) > number:
        start = next((i + 1 for i in range(start, len(text) - 1) if text.plain[i] in breaks), start + 1)
    return lines
