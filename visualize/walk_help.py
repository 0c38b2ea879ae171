"""Help on a walk through the decode kernel: its keys, marks and words."""

from visualize.help import KEYS, help_pages
from visualize.walk_pool import MARK
from visualize.walk_view import MARKS

WORDS = (
    ("program", "one of many copies of a kernel; in a GPU they run side by side, here one after the other"),
    ("(0, 1, 2)", "a program's place in the grid: sequence 0, KV head 1, split 2"),
    ("tile", "the keys that a program reads at once: a run of positions, wherever their blocks are"),
    ("block table", "which physical block each logical block is"),
    ("slot", "the place of one token's K and V: physical block times block size, and the place in the block"),
    ("score, maximum", "query times key, scaled; the largest score so far"),
    ("weight, sum", "exp(score - maximum); the sum of all weights so far"),
    ("correction", "exp(old maximum - new maximum): what was summed so far is multiplied by it"),
    ("output", "the sum of weights times values, divided by the sum of weights"),
    ("masked", "behind the last key, so not read: whatever lies there can do no harm"),
    ("split", "a part of the keys, for a program of its own, where there are too few programs to fill a GPU"),
    ("log-sum-exp", "maximum + log(sum): with it, two outputs over different keys can be merged"),
)
OTHERS = {"] and [": "to the next, the previous program"}
UNUSED = ("Tab",)  # there is only one sequence


def pages(width, height, ink):
    """As help.help_pages."""
    keys = [(key, OTHERS.get(key, meaning)) for key, meaning in KEYS if key not in UNUSED]
    marks = [
        ("[ ]", "the program that runs now; the entries of the block table that its tile looks up"),
        (f"{ink.bar[0]} {ink.bar[1]} {ink.bar[2]}", "of a program: tiles read, being read, to come"),
        (f"{MARK}7", "a physical block that is read now"),
        ("0 1 2 3", "in a block's slots, the positions whose K and V they hold"),
        (f"{ink.bar[0]} {ink.bar[1]} {ink.masked} {ink.unwritten}",
         "the same where there is less room: read now, another key, masked, empty"),
        (f"{ink.levels[0]} to {ink.levels[-1]}", "a key's weight, from 0 to 1"),
        (" ".join(MARKS.values()), "on the history line: a program begins, a merge, the end"),
    ]  # fmt: skip
    return help_pages(width, height, ink, keys, marks, WORDS)
