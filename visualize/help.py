"""Help: the keys, the marks and the words, on as many screens as it takes, each in the place of a frame."""

from rich.text import Text

from visualize.ink import FREED, SHARED, TAKEN, WRITTEN
from visualize.lines import fit, heading, line, wrap
from visualize.timeline import MARKS

ROOM = 20  # cells for a key, mark or word; its meaning stands beside it

KEYS = (
    ("space, n or {right}", "one step on"),
    ("b or {left}", "one step back"),
    ("p", "play or pause"),
    ("+ and -", "faster, slower"),
    ("] and [", "to the next, the previous landmark: somebody enters, is forked, yields or leaves"),
    ("g and G", "to the first, the last step"),
    ("Tab", "the next request in focus, whose newest K and V are followed to their slot"),
    ("w", "why: give the sentences all the room, and back"),
    ("r", "play again from the start"),
    ("?", "this help, and its next page if there is one; any other key leaves it"),
    ("q or Esc", "quit"),
)
WORDS = (
    ("K and V", "what the model keeps of a token (keys and values), so that it need not read it again at every step"),
    ("slot", "the place of one token's K and V"),
    ("block", "a few slots in a row: logical, as counted in one text; physical, as counted in the pool"),
    ("preempted", "had to yield: its blocks were given back; it waits, and computes its K and V again or hits them"),
    ("cached", "a block that nobody owns, though what it holds can still be hit; it is taken after all free ones"),
    ("hit", "a prompt begins as an earlier text did: the full blocks of that beginning are found, not computed again"),
    ("tail waste", "slots of a last block into which no K and V are written yet"),
    ("forked", "a sequence goes on as two: the new one names the same blocks, and they are shared"),
    ("sharing saves", "if nobody shared a block, the tables would hold so many more"),
    ("run", "without paging: neighbouring blocks, reserved for one request until it leaves"),
    ("reserving", "without paging, each request would take its longest possible run of slots at once"),
)


def help_pages(width, height, ink, keys=KEYS, marks=None, words=WORDS):
    """A list of rich Texts of `height` lines, each `width` cells wide. keys, marks, words: (what, its meaning)."""
    left, right = ("<-", "->") if ink.is_ascii else ("←", "→")
    keys = [(what.format(left=left, right=right), meaning) for what, meaning in keys]
    marks = marks or [
        (f"{TAKEN} {WRITTEN} {FREED}", "a block taken, written to, freed in this step"),
        (f"{SHARED} x3", "a block whose owners changed, and which was not freed: forked, or hit; 3 share it"),
        (f"copied 2{ink.arrow}5", "in this step, the content of block 2 was copied into block 5"),
        (f"A{ink.reserved}", "a block that is reserved for A, in its cell or on the map, and holds nothing yet"),
        (f"{ink.cached} {ink.cached}5", "a cached block, wherever one is: in a cell, in the free queue, on the map"),
        (f"{ink.bar[0]} {ink.bar[1]} {ink.cached} {ink.reserved} {ink.bar[2]}",
         "slots written, allocated but unused (tail waste), cached, reserved, free"),
        (f"0{ink.arrow}9 (3/4)", "logical block 0 is physical block 9; 3 of the last block's 4 slots are written"),
        (f"{MARKS['Admitted']} {MARKS['Preempted']} {MARKS['Forked']} {MARKS['Finished']} {ink.here}",
         "on the history line: somebody entered, yielded, was forked, left; where we are"),
    ]  # fmt: skip
    lines = []
    for title, part in (("Keys", keys), ("Marks", marks), ("Words", words)):
        lines.append(heading(title, line(), width, ink))
        for what, meaning in part:
            first, *rest = wrap(line(meaning), width - ROOM)
            lines += [line(f"  {what}".ljust(ROOM), first), *(line(" " * ROOM, each) for each in rest)]
    pages = [lines[i : i + height - 1] for i in range(0, len(lines), height - 1)]
    drawn = []
    for number, page in enumerate(pages, start=1):
        page += [line()] * (height - 1 - len(page))
        which = f"page {number} of {len(pages)}   ? next   " if len(pages) > 1 else ""
        page.append(line((f"  {which}any other key: back", "dim")))
        drawn.append(Text("\n", no_wrap=True).join(fit(each, width, ink) for each in page))
    return drawn
