"""The programs of a walk and their numbers: how far each has come, what it has summed, what it leaves for the merge.

Each function returns lines of exactly the width that it was given, and never more lines than it was given.
"""

import math

from visualize.lines import fit, line
from visualize.walk_pool import NOW, window
from visualize.walk_why import heads_in_words
from visualize.words import count, span

MOST_BARS = 12  # tiles of a program that are shown one by one


def draw_programs(moment, width, height, ink):
    """A line for each KV head, with its splits, and where there are splits one for the merge."""
    sizes = moment.sizes
    is_split = sizes.num_splits > 1
    room = max(1, height - is_split)
    now = moment.program[0] if moment.program else 0
    first = window(sizes.num_kv_heads, room, [now])
    lines = []
    for kv_head in range(first, min(first + room, sizes.num_kv_heads)):
        hidden = sizes.num_kv_heads - room
        more = f" +{hidden} more" if kv_head == min(first + room, sizes.num_kv_heads) - 1 and hidden > 0 else ""
        lines.append(draw_row(moment, kv_head, width, more, ink))
    if is_split:
        done = len(moment.merged)
        text = line(("merge      ", "bold" if moment.kind == "merge" else "dim"))
        for head in range(sizes.num_heads):
            is_now = moment.kind == "merge" and head == done - 1
            sign = ink.bar[1] if is_now else ink.bar[0] if head < done else ink.bar[2]
            left, right = "[]" if is_now else "  "
            part = line((f"{left}head {head} {sign}{right}", NOW if is_now else ""))
            if text.cell_len + part.cell_len + 9 * (head + 1 < sizes.num_heads) > width:
                text.append(f" +{sizes.num_heads - head} more", "dim")
                break
            text.append_text(part)
        lines.append(fit(text, width, ink))
    return lines


def draw_row(moment, kv_head, width, more, ink):
    """The programs of one KV head."""
    sizes = moment.sizes
    now = moment.program[1] if moment.program and moment.program[0] == kv_head else None
    head = f"KV head {kv_head:<3}"
    parts = [draw_program(moment, kv_head, split, ink) for split in range(sizes.num_splits)]
    room = width - len(head) - len(more)
    first = 0
    while now and first < now and sum(part.cell_len for part in parts[first : now + 1]) + len(parts) > room - 11:
        first += 1
    shown = []
    for part in parts[first:]:
        left = len(parts) - len(shown) - 1  # that would not be shown
        if sum(each.cell_len for each in (*shown, part)) + len(f" +{left} splits") * bool(left) > room:
            break
        shown.append(part)
    left = len(parts) - len(shown)
    hidden = f" +{count(left, 'split')}" if left else ""
    return fit(line((head, "bold" if now is not None else ""), *shown, (hidden + more, "dim")), width, ink)


def draw_program(moment, kv_head, split, ink):
    """One program: its number in the grid, and a bar for each of its tiles; in brackets if it runs now."""
    sizes = moment.sizes
    is_now = moment.program == (kv_head, split) and moment.kind in ("tile", "empty")
    tiles = sizes.tiles_of(split)
    is_done = any((part.kv_head, part.split) == (kv_head, split) for part in moment.written)
    done = len(tiles) if is_done else 0
    if is_now and moment.tile:
        done = list(tiles).index(moment.tile.positions.start)
    if len(tiles) > MOST_BARS:
        bars = f"{done}/{len(tiles)}"
    else:
        here = ink.bar[1] * bool(is_now and moment.tile)
        bars = ink.bar[0] * done + here + ink.bar[2] * (len(tiles) - done - len(here)) or "no keys"
    left, right = "[]" if is_now else "  "
    now = NOW if is_now else ""
    return line((f"{left}(0,{kv_head},{split})", now), f" {bars}", (right, now))


def title_of_numbers(moment):
    if moment.kind == "start":
        return "What each split reads"
    if moment.kind == "end":
        return "Output"
    if moment.kind == "merge":
        return f"The merge of head {moment.merged[-1].head}: two numbers and an output from each split"
    heads = heads_in_words(moment.sizes.heads_of(moment.program[0]))
    return f"What program (0, {moment.program[0]}, {moment.program[1]}) has summed for {heads}"


def draw_numbers(moment, width, height, ink):
    """What the numbers are now, a line for each query head, or for each split."""
    rows = list(ROWS[moment.kind](moment, ink))
    last = rows[-1:] if moment.kind == "merge" and len(rows) > height else []  # what the merge comes to is never hidden
    shown = rows if len(rows) <= height else rows[: height - 1 - len(last)]
    # All in as many words as fit, and all in the same.
    fits = [max(each.cell_len for each in column) <= width for column in zip(*shown, *last)]
    words = fits.index(True) if True in fits else -1
    lines = [row[words] for row in shown]
    hidden = len(rows) - len(shown) - len(last)
    lines += [line((f"+{hidden} more", "dim"))] * bool(hidden) + [row[words] for row in last]
    return [fit(each, width, ink) for each in lines]


def plan(moment, ink):
    sizes = moment.sizes
    for split in range(sizes.num_splits):
        own, tiles = sizes.split(split), sizes.tiles_of(split)
        if not own:
            yield [line(f"split {split}  no keys")]
            continue
        number = own.start // sizes.tile_size
        which = f"tile{'s' * (len(tiles) > 1)} {span(number, len(tiles))}"
        yield [line(f"split {split}  positions {span(own.start, len(own))}  in {which}")]


def running(moment, ink):
    for head, old, new in zip(moment.sizes.heads_of(moment.program[0]), moment.before, moment.after):
        rises = new.running_max != old.running_max
        factor = math.exp(old.running_max - new.running_max) if new.running_sum else 1.0
        top = (f"{old.running_max:.2f}{ink.arrow}{new.running_max:.2f}" if rises else f"{new.running_max:.2f}", rises)
        total = f"{old.running_sum:.2f}{ink.arrow}{new.running_sum:.2f}"
        bold = "bold" if rises and old.running_sum else ""
        yield [
            line(f"head {head}  max ", (top[0].rjust(13), bold), f"  correction {factor:.3f}",
                 f"  sum {total:>12}", f"  output {output(new)}"),
            line(f"head {head}  max ", (top[0].rjust(12), bold), f" x{factor:.2f}",
                 f" sum {new.running_sum:.2f} out {output(new)}"),
            line(f"head {head} max ", (top[0], bold), f" sum {new.running_sum:.2f} out {output(new)}"),
            line(f"{head} max {new.running_max:.2f} sum {new.running_sum:.2f} out {output(new)}"),
        ]  # fmt: skip


def merging(moment, ink):
    merge = moment.merged[-1]
    for split, (part, share) in enumerate(zip(merge.parts, merge.shares)):
        held = output(part) if part.running_sum else "not read"
        yield [
            line(f"split {split}  log-sum-exp {part.log_sum_exp:>6.2f}  weighs {share:.3f}  output {held}"),
            line(f"split {split} lse {part.log_sum_exp:>5.2f} weighs {share:.3f} out {held}"),
        ]
    whole = merge.state
    yield [
        line((f"merged   log-sum-exp {whole.log_sum_exp:>6.2f}  weighs 1.000  output {output(whole)}", "bold")),
        line((f"merged  lse {whole.log_sum_exp:>5.2f} weighs 1.000 out {output(whole)}", "bold")),
    ]


def ending(moment, ink):
    given = moment.kernel.output if moment.kernel else ()
    for head, state in enumerate(moment.outputs):
        there = f"   kernel {numbers(given[head])}" if given else ""
        yield [line(f"head {head}  output {output(state)}{there}"), line(f"head {head} {output(state)}{there}"),
               line(f"head {head}  output {output(state)}")]  # fmt: skip


def output(state):
    return numbers(state.output)


def numbers(values):
    return " ".join(f"{round(each, 2) + 0.0:5.2f}" for each in values)  # + 0.0: no -0.00


ROWS = {"start": plan, "tile": running, "empty": running, "merge": merging, "end": ending}
