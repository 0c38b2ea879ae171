"""Help: the keys and the marks, on one screen that takes the place of a frame."""

from rich.text import Text

from visualize.ink import FREED, TAKEN, WRITTEN
from visualize.lines import fit, heading, line, wrap
from visualize.timeline import MARKS

KEYS = (
    ("space, n or {right}", "one step on"),
    ("b or {left}", "one step back"),
    ("p", "play or pause"),
    ("+ and -", "faster, slower"),
    ("] and [", "to the next, the previous landmark: somebody enters, yields or leaves"),
    ("g and G", "to the first, the last step"),
    ("Tab", "the next sequence in focus: whose newest token is followed to its slot"),
    ("r", "play again from the start"),
    ("?", "this help, and back"),
    ("q or Esc", "quit"),
)


def draw_help(width, height, ink):
    """A rich Text of `height` lines, each `width` cells wide. What doesn't fit is left out from the end."""
    left, right = ("<-", "->") if ink.is_ascii else ("←", "→")
    marks = (
        (f"{TAKEN} {WRITTEN} {FREED}", "a block taken, written to, freed in this step"),
        (f"{ink.bar[0]} {ink.bar[1]} {ink.bar[2]}", "slots written, allocated but unused (tail waste), free"),
        (f"0{ink.arrow}9 (3/4)", "logical block 0 is physical block 9; 3 of the last block's 4 slots are written"),
        (f"{MARKS['Admitted']} {MARKS['Preempted']} {MARKS['Finished']}",
         "on the history line: somebody entered, yielded, left"),
    )  # fmt: skip
    room = 22 if width >= 80 else 20
    lines = [heading("Keys", line(), width, ink)]
    for part in (KEYS, marks):
        for what, meaning in part:
            first, *rest = wrap(line(meaning), width - room)
            lines.append(line(("  " + what.format(left=left, right=right)).ljust(room), first))
            lines += [line(" " * room, each) for each in rest]
        lines += [heading("Marks", line(), width, ink)] if part is KEYS else []
    lines = [fit(each, width, ink) for each in lines[:height]]
    lines += [line(" " * width)] * (height - len(lines))
    return Text("\n", no_wrap=True).join(lines)
