"""The budget of a step in which a part of a prompt is computed: who gets how many of its tokens, in one line.

So it is seen that a long prompt takes what the others leave. This file only draws; every number comes from the events.
"""

from rich.cells import cell_len

from visualize.lines import fit, line
from visualize.scene import of_the_last_try


def draw_budget(scene, width):
    """[a line of `width` cells], or no line where no prompt was cut into chunks in this step."""
    rows = [fact for kind, fact in of_the_last_try(scene.snapshot.events) if kind == "Scheduled"]
    if not any(map(is_chunk, rows)):
        return []
    budget = scene.snapshot.budget
    head = line(("budget", "bold"), f" {budget:,}  ")
    left = budget - sum(row.num_tokens for row in rows)
    shares = [(words_of(scene, row), row.num_tokens, scene.style(row.sequence)) for row in rows]
    if left:
        shares.append((f" {left:,} unused ", left, "dim"))
    room = width - head.cell_len - (len(shares) - 1)
    if sum(cell_len(words) for words, *_ in shares) > room:  # too many to name them all: those with one token together
        num_ones = sum(row.num_tokens == 1 for row in rows)
        many = [share for share, row in zip(shares, rows) if row.num_tokens > 1]
        ones = [(f" {num_ones} others, 1 each ", num_ones, "")] if num_ones else []
        shares = [*ones, *many, *shares[len(rows) :]]
        room = width - head.cell_len - (len(shares) - 1)
    widths = parts(room, budget, shares)
    bar = [(words.ljust(cells), style) for (words, _, style), cells in zip(shares, widths)]
    return [fit(line(head, *[part for each in bar for part in (scene.ink.wall, each)][1:]), width, scene.ink)]


def is_chunk(row):
    """A part of a prompt: something of it is left for later, or was computed before."""
    return row.start < row.num_prompt_tokens and (row.start > 0 or row.start + row.num_tokens < row.num_prompt_tokens)


def words_of(scene, row):
    """A sequence's share and, of a chunk, how far its prompt has come."""
    far = f", prompt {row.start + row.num_tokens:,}/{row.num_prompt_tokens:,}" if is_chunk(row) else ""
    return f" {scene.label(row.sequence)} {row.num_tokens:,}{far} "


def parts(room, budget, shares):
    """How many cells each share gets: as its tokens are to the budget, but no fewer than its words take."""
    cells = [max(cell_len(words), room * tokens // budget) for words, tokens, _ in shares]
    spare = [each - cell_len(words) for each, (words, *_) in zip(cells, shares)]
    while sum(cells) > room and max(spare) > 0:  # what small shares have too much is taken from the longest
        i = spare.index(max(spare))
        cells[i], spare[i] = cells[i] - 1, spare[i] - 1
    return cells
