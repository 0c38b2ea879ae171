"""What the benchmarks share: a median with its spread, a table, whole numbers from the command line, progress."""

import math
import statistics
import sys
from typing import NamedTuple

from minipaged.arguments import whole


class Spread(NamedTuple):
    """Several measurements of one thing. The median is the result; least and most show how far to trust it."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values):
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits):
        low, high = f"{self.least:,.{digits}f}", f"{self.most:,.{digits}f}"
        return f"{self.median:,.{digits}f} ({low}-{high})"


def table(head, rows):
    """Lines of text with the columns aligned to the right. head: a list of titles; rows: lists of texts."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in [head, *rows])


def whole_option(option, text, least=1, most=math.inf):
    """ "8" -> 8. Raises ValueError unless it is a whole number from `least` to `most`."""
    return whole(option, int(text) if text.strip().isdecimal() and len(text) < 30 else text, least, most)


def whole_list(option, text, least=1, most=math.inf):
    """ "1,16" -> [1, 16]. Raises ValueError unless all are whole numbers from `least` to `most`."""
    return [whole_option(option, part, least, most) for part in text.split(",")]


def progress(text=""):
    """Show what is being measured, in place, on stderr. Only on a terminal; without a text the line is cleared."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
