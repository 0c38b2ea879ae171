"""Tensors: the lessons' figures of what attention computes with: a query's steps, a batch.

They are to be imported from plots.py.
"""

from math import exp

from visualize.figures import (
    BLACK,
    GREY,
    PALE,
    PAPER,
    SMALL,
    WIDTH,
    Canvas,
    Owners,
    drawable,
    letter,
    settings,
    shorten,
    text_width,
    token,
)
from visualize.ink import OKABE_ITO
from visualize.words import count

PLAIN, LARGEST, ANSWER = OKABE_ITO[0][0], (OKABE_ITO[1][0], "///"), OKABE_ITO[2][0]
COMPUTED, READ = (OKABE_ITO[0][0], BLACK, "///"), (PALE, BLACK, None)  # colour, ink on it, hatching
MOST = 10  # steps side by side
CELL, LINE = 36, 24  # pixels: the width of a tensor's cell, and from one row to the next


def draw_steps(steps, head=0, title=""):
    """How the online softmax of one query head moves on: a column for each block that the query has read.

    steps: minipaged.attention.reference.Step of one query, in order; of more than ten the last ten are drawn.
    correction is what the sums so far are multiplied with where a larger score has come. Raises ValueError where there
    are no steps or no such head.
    """
    steps = list(steps)
    if not steps or not 0 <= head < len(steps[0].scores):
        raise ValueError(f"head={head} of {len(steps)} steps: at least 1 step, and one of its query heads, are needed")
    before = float(steps[-MOST - 1].running_max[head]) if len(steps) > MOST else None
    num_left_out, steps = max(0, len(steps) - MOST), steps[-MOST:]
    scores = [[float(score) for score in step.scores[head]] for step in steps]
    channels = min(3, steps[0].output.shape[-1])
    left, said = 110, []
    column = min(136, (WIDTH - 32 - left) / len(steps))
    low, high = min(0.0, *map(min, scores)), max(0.0, *map(max, scores))
    scale = 64 / ((high - low) or 1)
    with settings():
        canvas = Canvas(title)
        y = canvas.top + 8
        zero, width = y + 48 + high * scale, (column - 12) / max(map(len, scores))
        names = ("running_max", "correction", "running_sum", "output")
        rows = [y + 146 + 26 * i for i in range(len(names))]
        labels = ("physical block", y), ("positions", y + 20), ("scores", zero), *zip(names, rows)
        for label, at in labels:
            canvas.text(0, at, label, SMALL, GREY)
        for i, step in enumerate(steps):
            x, middle = left + i * column, left + (i + 0.5) * column
            canvas.text(middle, y, step.block_id, bold=True, align="center")
            canvas.text(middle, y + 20, span(step.positions), SMALL, align="center")
            largest, total = float(step.running_max[head]), float(step.running_sum[head])
            for j, score in enumerate(scores[i]):
                at, height = x + 6 + j * width, abs(score) * scale
                fill, hatch = LARGEST if score == largest else (PLAIN, None)
                canvas.rect(at + 1, zero - max(score, 0) * scale, width - 2, height, fill, hatch=hatch)
                if width >= 28:
                    end = zero - score * scale + (8 if score < 0 else -8)
                    canvas.text(at + width / 2, end, decimals(score, 1), SMALL, align="center", bold=score == largest)
            canvas.lines([((x + 3, zero), (x + column - 3, zero))])
            canvas.text(middle, rows[0], decimals(largest), SMALL, bold=largest != before, align="center")
            factor = "none yet" if before is None else f"* {decimals(exp(before - largest))}"
            canvas.text(middle, rows[1], factor, SMALL, GREY if before is None else BLACK, align="center")
            canvas.text(middle, rows[2], decimals(total), SMALL, align="center")
            is_last = step is steps[-1]
            size = (column - 12, 20 * channels + 4)
            canvas.rect(x + 6, rows[3] - 12, *size, ANSWER if is_last else PAPER, line=2.4 if is_last else 0.8)
            output = [float(value) for value in step.output[head][:channels]]
            for channel, value in enumerate(output):
                canvas.text(middle, rows[3] + 20 * channel, decimals(value), SMALL, align="center", bold=is_last)
            sums = f"running_max {decimals(largest)}, running_sum {decimals(total)}"
            said.append(f"after block {step.block_id} {sums}")
            before = largest
        below = rows[3] + 20 * channels + 6
        canvas.text(0, rows[3] + 20, f"channels 0 to {channels - 1}" if channels > 1 else "channel 0", SMALL, GREY)
        canvas.text(x + column - 6, below, "the answer", SMALL, bold=True, align="right")
        canvas.rect(0, below + 13, 14, 14, LARGEST[0], hatch=LARGEST[1])
        note = f"; {count(num_left_out, 'block')} before these not shown" if num_left_out else ""
        canvas.text(20, below + 20, f"the largest score so far{note}", SMALL)
        answer = ", ".join(map(decimals, output))
        return canvas.picture(f"The online softmax of head {head}: {'; '.join(said)}. The answer begins {answer}.")


def decimals(value, digits=2):
    """A rounded number, without the sign of a zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def span(positions):
    """Positions that follow each other: 4..7."""
    return f"{positions[0]}..{positions[-1]}" if len(positions) > 1 else str(positions[0])


def draw_work(steps, texts=None, title=""):
    """What each step computes and what it reads from a cache: a row for each step, a column for each token.

    steps: {label: (num_read, num_computed)}, in order; the tokens read come first, those computed behind them.
    texts: [text of each token, ...], written above the columns. Raises ValueError for other numbers than whole ones
    from 0.
    """
    for label, numbers in steps.items():
        if len(numbers) != 2 or not all(isinstance(each, int) and each >= 0 for each in numbers):
            raise ValueError(f"{label!r}: {numbers} must be (num_read, num_computed), two whole numbers, 0 or more")
    with settings():
        canvas = Canvas(title)
        left = min(140, max((text_width(drawable(label), SMALL) for label in steps), default=0)) + 10
        most = max(map(sum, steps.values()), default=0)
        cell = min(50, (WIDTH - 24 - left - 140) / max(most, 1))
        y = canvas.legend((("K and V computed in this step", *COMPUTED), ("K and V read from the cache", *READ)))
        for i, text in enumerate((texts or [])[:most] if cell >= 24 else ()):
            words = shorten(token(text), cell - 4)
            canvas.text(left + (i + 0.5) * cell, y, words, SMALL, align="center")
        said = []
        for label, (num_read, num_computed) in steps.items():
            y += LINE + 4
            canvas.text(left - 8, y, shorten(drawable(label), left - 10), SMALL, align="right")
            for i in range(num_read + num_computed):
                fill, _, hatch = READ if i < num_read else COMPUTED
                canvas.rect(left + i * cell, y - LINE / 2, cell, LINE, fill, hatch=hatch, line=0.6)
            counts = f"{num_read} read, {num_computed} computed"
            canvas.text(left + most * cell + 10, y, counts, SMALL)
            said.append(f"{label}: {counts}")
        return canvas.picture(f"What each step reads and computes. {'; '.join(said)}.")


def draw_batch(batch, block_size, names=None, title=""):
    """The tensors of one step: a column for each token, and below them a row for each sequence.

    batch: a minipaged.serving.batch.Batch. names: of its sequences, in order; None: A, B, C ... Raises ValueError for
    another number of names.
    """
    seq_lens, starts = batch.seq_lens.tolist(), batch.query_start_loc.tolist()
    names = [letter(i) for i in range(len(seq_lens))] if names is None else list(names)
    if len(names) != len(seq_lens) or len(set(names)) < len(names):
        raise ValueError(f"names={names} for {len(seq_lens)} sequences: each needs a name of its own")
    owners = Owners(names)
    left, num_tokens = 108, starts[-1]
    per_row = (WIDTH - 24 - left - 8) // CELL
    with settings():
        canvas = Canvas(title)
        y = canvas.top + 8
        for first in range(0, max(num_tokens, 1), per_row):
            columns = range(first, min(first + per_row, num_tokens))
            y = draw_columns(canvas, left, y, batch, block_size, owners, names, columns) + 40
        width = max(batch.block_tables.shape[1], 3) * CELL
        canvas.text(left, y, "block_tables", SMALL)
        canvas.text(left + width + 14, y, "seq_lens", SMALL)
        said = []
        for name, table, seq_len, start, stop in zip(names, batch.block_tables.tolist(), seq_lens, starts, starts[1:]):
            y += LINE
            canvas.chip(left - 52, y, owners, name, SMALL)
            for i, block in enumerate(table):
                fill, ink = (PALE, GREY) if block < 0 else (owners.colour(name), owners.ink(name))
                canvas.rect(left + i * CELL, y - LINE / 2, CELL, LINE, fill)
                canvas.text(left + (i + 0.5) * CELL, y, block, SMALL, ink, align="center")
            canvas.text(left + width + 40, y, seq_len, SMALL, align="center")
            blocks = ", ".join(str(block) for block in table if block >= 0)
            said.append(
                f"{name}: {count(stop - start, 'token')} from row {start}, {count(seq_len, 'key')}, blocks {blocks}"
            )
        return canvas.picture(f"A batch of {count(num_tokens, 'token')}. {'; '.join(said)}.")


def draw_columns(canvas, left, y, batch, block_size, owners, names, columns):
    """The tensors with an entry for each token, at the tokens `columns`. Returns the height of the last row."""
    starts, due = batch.query_start_loc.tolist(), set(batch.logit_rows.tolist())
    whose = [name for name, start, stop in zip(names, starts, starts[1:]) for _ in range(start, stop)]
    slots = batch.slot_mapping.tolist()
    rows = {name: getattr(batch, name).tolist() for name in ("token_ids", "positions", "slot_mapping")}
    places = [f"{slot // block_size},{slot % block_size}" for slot in slots]
    place = y + LINE * 4 + 2
    for row, (name, values) in enumerate(rows.items()):
        canvas.text(0, y + LINE * (row + 1), name, SMALL)
        for i in columns:
            x, at = left + (i - columns.start) * CELL, y + LINE * (row + 1)
            canvas.rect(x, at - LINE / 2, CELL, LINE, owners.colour(whose[i]), line=0.6)
            canvas.text(x + CELL / 2, at, values[i], SMALL, owners.ink(whose[i]), align="center")
    for at, name in ((place, "block,offset"), (place + 20, "logit_rows"), (place + 42, "query_start_loc")):
        canvas.text(0, at, name, SMALL, GREY if at == place else BLACK)
    for i in columns:
        middle = left + (i - columns.start + 0.5) * CELL
        canvas.text(middle, place, places[i], SMALL, GREY, align="center")
        if i in due:
            canvas.text(middle, place + 20, i, SMALL, bold=True, align="center")
        if i in starts or i == columns.start:
            canvas.chip(left + (i - columns.start) * CELL + 3, y - 2, owners, whose[i], SMALL)
    for start in starts:
        if columns.start <= start <= columns.stop:
            x = left + (start - columns.start) * CELL
            canvas.lines([((x, y + LINE / 2), (x, place + 32))], width=2.4)
            canvas.text(x, place + 42, start, SMALL, align="center")
    return place + 42
