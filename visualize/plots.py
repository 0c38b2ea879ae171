"""Plots: the lessons' figures, drawn from real state. Each function returns a Picture for a notebook.

This file draws blocks: the pool and the tables over it. The figures of numbers (charts.py), of time (gantt.py) and of
tensors (tensors.py) are imported from here too.
"""

from minipaged.arguments import whole
from visualize.charts import draw_layout, draw_lines, draw_waste
from visualize.figures import (
    BLACK,
    GREY,
    NORMAL,
    PALE,
    PAPER,
    SMALL,
    WIDTH,
    Canvas,
    Owners,
    settings,
    shorten,
    text_width,
    token,
)
from visualize.gantt import draw_gantt
from visualize.ink import UNICODE
from visualize.tensors import draw_batch, draw_steps, draw_work
from visualize.words import count

__all__ = [
    "draw_batch",
    "draw_gantt",
    "draw_layout",
    "draw_lines",
    "draw_pool",
    "draw_steps",
    "draw_tables",
    "draw_tables_of",
    "draw_waste",
    "draw_work",
]

ROW, BOX = 26, 22  # pixels: from one block to the next, and the height of a block


class Pool:
    """Who owns which block, and what stands in it.

    tables: {name: (blocks, num_tokens)}. texts: {name: [text of each token, ...]} or None; tokens without a slot are
    not drawn. counts: the ref_count of each block; None: as many as tables name it. cached: {block: [text of each of
    its tokens, ...]} of blocks in no table whose content can still be hit. Raises ValueError for tables and cached
    blocks that don't fit the pool, and for texts of another form.
    """

    def __init__(self, tables, block_size, num_blocks, texts=None, counts=None, cached=None):
        self.block_size = whole("block_size", block_size, least=1)
        self.num_blocks = whole("num_blocks", num_blocks, least=1)
        self.tables, self.texts = tables, {} if texts is None else texts
        if not isinstance(self.texts, dict) or any(isinstance(each, str) for each in self.texts.values()):
            raise ValueError(f"texts={texts!r}: must be {{name: [text of each token, ...]}}")
        self.owners = Owners(list(tables))
        self.homes = [[] for _ in range(num_blocks)]  # per block: (name, logical block) of each owner
        for name, (blocks, num_tokens) in tables.items():
            if not 0 <= num_tokens <= len(blocks) * block_size:
                raise ValueError(f"{name!r}: {num_tokens} tokens don't fit into {len(blocks)} blocks of {block_size}")
            for logical, block in enumerate(blocks):
                if not 0 <= block < num_blocks:
                    raise ValueError(f"{name!r}: block {block} is not in this pool: ids run from 0 to {num_blocks - 1}")
                self.homes[block].append((name, logical))
        self.counts = [len(homes) for homes in self.homes] if counts is None else counts
        self.cached = {} if cached is None else cached
        for block, words in self.cached.items():
            if not (0 <= block < num_blocks and len(words) == block_size) or self.homes[block] or self.counts[block]:
                raise ValueError(f"cached block {block}: must be in the pool, in no table, and full")

    @classmethod
    def of(cls, memory, texts=None, cached=None):
        """The pool of a PagedMemory, or of anything with its sizes, sequences(), table() and allocator.ref_count()."""
        tables = {name: memory.table(name) for name in memory.sequences()}
        plain = {name: (list(table.blocks), table.num_tokens) for name, table in tables.items()}
        counts = [memory.allocator.ref_count(block) for block in range(memory.num_blocks)]
        return cls(plain, memory.block_size, memory.num_blocks, texts, counts, cached)

    def words(self, name, logical):
        """A text for each token that lies in a sequence's logical block, "" where it isn't known."""
        start, texts = logical * self.block_size, self.texts.get(name, ())
        stop = min(start + self.block_size, self.tables[name][1])
        known = [token(text) for text in texts[start:stop]]
        return known + [""] * (stop - start - len(known))

    def physical_words(self, block):
        """The same of a physical block: those of the owner who has stored most there."""
        known = [token(text) for text in self.cached.get(block, ())]
        return max((self.words(*home) for home in self.homes[block]), key=len, default=known)

    def said(self):
        """The state of all blocks in words."""
        said, free = [], []
        for block, homes in enumerate(self.homes):
            whose = " and ".join(f"logical {logical} of {name}" for name, logical in homes) or "in no table"
            filled = f"{len(self.physical_words(block))} of {self.block_size} slots filled"
            if homes or self.counts[block]:
                said.append(f"block {block}: {whose}, {filled}, ref_count {self.counts[block]}")
            elif block in self.cached:
                said.append(f"block {block}: in no table, cached, {filled}")
            else:
                free.append(str(block))
        return "; ".join([*said, f"free: {', '.join(free) or 'none'}"])


def draw_pool(memory, texts=None, title="", cached=None):
    """The physical pool, a row for each block: its id, its slots, whose it is and which logical block, its ref_count.

    memory: a PagedMemory, or anything with num_blocks, block_size, sequences(), table(seq_id) and allocator.
    texts: {sequence: [text of each token, ...]}, written into the slots; None: without texts. cached: the same of
    blocks in no table that can still be hit, {block: [text of each token, ...]}. Raises ValueError for tables and
    cached blocks that don't fit the pool, and for texts of another form.
    """
    pool = Pool.of(memory, texts, cached)
    most = max(map(len, pool.homes))
    columns = 1 if pool.num_blocks <= (20 if pool.texts else 12) or most > 1 or pool.block_size > 4 else 2
    rows, share = -(-pool.num_blocks // columns), (WIDTH - 24 + 20) / columns
    chip = max((text_width(pool.owners.label(name), NORMAL) for name in pool.tables), default=0) + 38
    chips = max(94, chip * most)
    slot = min(62, (share - 128 - chips) / pool.block_size)
    with settings():
        canvas = Canvas(title)
        for block in range(pool.num_blocks):
            column, row = divmod(block, rows)
            left, y = column * share + 32, canvas.top + 6
            owner, middle = left + slot * pool.block_size + 8, left + slot * pool.block_size + chips + 38
            if row == 0:
                canvas.text(left, y, "slots", SMALL, GREY)
                canvas.text(owner, y, "owner [logical]", SMALL, GREY)
                canvas.text(middle, y, "ref_count", SMALL, GREY, align="center")
            y += ROW * (row + 1)
            canvas.text(left - 8, y, block, bold=True, align="right")
            draw_block(canvas, left, y, slot, pool, pool.homes[block], pool.physical_words(block), pool.counts[block])
            for i, (name, logical) in enumerate(pool.homes[block]):
                width = canvas.chip(owner + chip * i, y, pool.owners, name)
                canvas.text(owner + chip * i + width + 3, y, f"[{logical}]", SMALL)
            if block in pool.cached:
                canvas.text(owner, y, "cached", SMALL, GREY)
            canvas.text(middle, y, pool.counts[block], SMALL, align="center", bold=pool.counts[block] > 1)
        return canvas.picture(f"A pool of {pool.num_blocks} blocks of {pool.block_size} slots. {pool.said()}.")


def draw_block(canvas, x, y, slot, pool, homes, words, is_used):
    """A block's slots around the height y: coloured where written, a dot where not, dashed if nobody owns the block.

    homes: its owners. words: for each written slot what stands in it. slot: its width in pixels.
    """
    is_drawn = is_used or words  # a block that nobody owns has words if it is cached
    top, width = y - BOX / 2, slot * pool.block_size
    names = list(dict.fromkeys(name for name, _ in homes))
    inks = {pool.owners.ink(name) for name in names}
    fills = [pool.owners.colour(name) for name in names] if len(inks) == 1 else [PALE]
    ink = inks.pop() if len(inks) == 1 else BLACK
    for i, fill in enumerate(fills if words else ()):  # a shared block has a band of each owner's colour
        canvas.rect(x, top + i * BOX / len(fills), slot * len(words), BOX / len(fills), fill, edge=None)
    inner = [x + offset * slot for offset in range(1, pool.block_size if slot >= 5 else 1)]
    canvas.lines([((at, top), (at, top + BOX)) for at in inner], BLACK if is_used else "#bbbbbb", 0.6)
    canvas.rect(x, top, width, BOX, "none", BLACK if is_used else GREY, 1.2 if is_used else 0.8, dashed=not is_used)
    for offset in range(pool.block_size if slot >= 12 and is_drawn else 0):
        middle = x + (offset + 0.5) * slot
        if offset >= len(words):
            canvas.text(middle, y, UNICODE.unwritten, align="center")
        elif slot >= 24:
            canvas.text(middle, y, shorten(words[offset], slot - 4), SMALL, ink, align="center")
    if not is_drawn:
        canvas.text(x + width / 2, y, "free", SMALL, GREY, align="center", ground=PAPER)


def draw_tables(memory, texts=None, title=""):
    """Logical blocks, block tables and the physical pool, as in the paper's Figure 6. Arguments as for draw_pool."""
    return tables_picture(Pool.of(memory, texts), title)


def draw_tables_of(tables, block_size, num_blocks, texts=None, title=""):
    """The same of plain data. tables: {name: (blocks, num_tokens)}; two of them may name one block."""
    return tables_picture(Pool(tables, block_size, num_blocks, texts), title)


def tables_picture(pool, title):
    """Left: what each sequence sees. Middle: where each of its blocks is. Right: the pool, in the order of the ids."""
    slot = min(52, 208 / pool.block_size)
    left, cell = 22, 42
    table = left + slot * pool.block_size + 8
    right = table + 2 * cell + 76
    middle = right + slot * pool.block_size + 14
    with settings():
        canvas = Canvas(title)
        y, arrows = canvas.top + 6, []
        headings = (left, "logical blocks"), (table, "physical"), (right, "physical blocks"), (middle - 8, "ref_count")
        for x, heading in headings:
            canvas.text(x, y, heading, SMALL, GREY)
        canvas.text(table + 2 * cell, y, "filled", SMALL, GREY, align="right")
        heights = [y + ROW * (block + 1) for block in range(pool.num_blocks)]
        for name, (blocks, num_tokens) in pool.tables.items():
            y += ROW
            chip = canvas.chip(left, y, pool.owners, name)
            canvas.text(left + chip + 6, y, count(num_tokens, "token"), SMALL)
            for logical, block in enumerate(blocks):
                y += ROW
                words = pool.words(name, logical)
                canvas.text(left - 6, y, logical, SMALL, align="right")
                draw_block(canvas, left, y, slot, pool, [(name, logical)], words, is_used=True)
                for i, value in enumerate((block, len(words))):
                    canvas.rect(table + i * cell, y - BOX / 2, cell, BOX)
                    canvas.text(table + (i + 0.5) * cell, y, value, bold=i == 0, align="center")
                arrows.append(((table + 2 * cell, y), (right - 22, heights[block]), pool.owners.colour(name)))
            y += 6
        for block, (height, homes) in enumerate(zip(heights, pool.homes)):
            canvas.text(right - 5, height, block, bold=True, align="right")
            draw_block(canvas, right, height, slot, pool, homes, pool.physical_words(block), pool.counts[block])
            canvas.text(middle, height, pool.counts[block], SMALL, align="center", bold=pool.counts[block] > 1)
            labels, room = [pool.owners.label(name) for name, _ in homes], WIDTH - 24 - middle - 12
            if text_width("".join(labels), SMALL) > room:  # their shapes alone say who they are, and all fit
                labels = [label[-1] for label in labels]
            canvas.text(middle + 12, height, shorten("".join(labels), room), SMALL)
        for arrow in arrows:
            canvas.arrow(*arrow)
        tables = "; ".join(f"{name}: {', '.join(map(str, blocks))}" for name, (blocks, _) in pool.tables.items())
        return canvas.picture(f"Block tables, logical to physical: {tables or 'none'}. In the pool, {pool.said()}.")


if __name__ == "__main__":
    import sys

    from minipaged.commandline import exit_status
    from visualize import plots_command

    sys.exit(exit_status("visualize.plots", plots_command.main))
