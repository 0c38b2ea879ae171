"""The parts of a frame beside the pool: the memory line, the free queue, the requests with their block tables, and why.

Each returns a list of lines of exactly the width it was given, and never more lines than it was given. Numbers come
from the snapshot; nothing is counted here that the engine didn't say.
"""

from rich.cells import cell_len

from visualize.ink import NEW, safe
from visualize.lines import fit, last_lines, line, spread, wrap
from visualize.why import ROUTINE, count, importance

NO_CHIPS = 90  # below this width, sentences need all the room they can get


def draw_memory(scene, width, height):
    """How the pool's slots are used: a bar, and the same in numbers."""
    usage, ink = scene.snapshot.usage, scene.ink
    waste = usage.allocated_slots - usage.used_slots
    free = usage.total_slots - usage.allocated_slots
    resident = sum(bool(seq.block_table) for seq in scene.snapshot.sequences)
    numbers = line(
        ink.bar[0], f" {usage.used_slots:,} used  ", ink.bar[1], f" {waste:,} tail waste  ",
        (ink.bar[2], "dim"), f" {free:,} free  of {usage.total_slots:,} slots",
    )  # fmt: skip
    amount, times = f"{usage.max_would_reserve:,}", usage.max_would_reserve / usage.total_slots
    context = f"{usage.max_would_reserve // max(resident, 1):,}"
    requests = f"{resident} request{'s' * (resident > 1)}"
    remarks = (
        f"reserving the whole context ({context}) for {requests} would take {amount} slots, {times:,.1f} pools",
        f"reserving {context} slots for each of {resident}: {amount}",
        f"reserved whole: {amount}",
    )
    room = width - numbers.cell_len - 2
    reserve = line(next((remark for remark in remarks if len(remark) <= room and resident), ""))
    numbers = spread(numbers, reserve, width, ink)
    if height == 1:
        return [numbers]
    length = width - len("memory  ")
    used_to = length * usage.used_slots // usage.total_slots
    allocated_to = length * usage.allocated_slots // usage.total_slots
    bar = line(
        ("memory", "bold"), "  ", ink.bar[0] * used_to, ink.bar[1] * (allocated_to - used_to),
        (ink.bar[2] * (length - allocated_to), "dim"),
    )  # fmt: skip
    return [bar, numbers]


def draw_free_queue(scene, width):
    """The free blocks, the next to be taken first."""
    order, ink = scene.snapshot.free_order, scene.ink
    text = line(("free queue  ", "dim"), f"front {ink.arrow} ")
    for shown, block in enumerate(order):
        more = f" +{len(order) - shown:,} more"
        if text.cell_len + len(f" {block}") + len(more) > width:
            text.append(more, "dim")
            break
        text.append(f" {block}")
    if not order:
        meaning = (" empty: who needs a block now makes the newest yield", " empty: the newest yields next", " empty")
        text.append(next((each for each in meaning if text.cell_len + len(each) <= width), " empty"), "bold")
    return [fit(text, width, ink)]


def draw_queue(scene, width):
    """The waiting requests, head first, in a remark of at most `width` cells."""
    names = scene.snapshot.queue
    if not names:
        return line(("queue empty", "dim"))
    each, more = scene.label_width + 3, len(" +99")
    label = "queue, head first" if len(names) > 1 else "queue"
    label = label if len(label) + len(names) * each <= width else "queue"
    room = (width - len(label) - more * (len(label) + len(names) * each > width)) // each
    shown, hidden = names[: max(room, 0)], len(names) - max(room, 0)
    return line(label, *[part for name in shown for part in (" ", scene.chip(name))], f" +{hidden}" * (hidden > 0))


def draw_way(scene, width):
    """How the newest K and V of the sequence in focus found their place: from a position to a slot. One line."""
    seq, block_size, arrow = scene.sequence(scene.focus), scene.snapshot.block_size, scene.ink.arrow
    if seq is None:
        return line(" " * width)
    head = line(("focus ", "bold"), "  ", scene.chip(seq.name), "  ")
    if not seq.num_computed_tokens:
        return fit(line(head, ("has no K and V in the cache", "dim")), width, scene.ink)
    position = seq.num_computed_tokens - 1
    logical, offset = divmod(position, block_size)
    block = seq.block_table[logical]
    way = f" {arrow} ".join(
        (f"position {position}", f"logical {logical}, offset {offset}", f"physical {block}",
         f"slot {block * block_size + offset}")
    )  # fmt: skip
    remarks = (f"its newest K and V: {way}", way)
    room = width - head.cell_len
    return fit(line(head, next((each for each in remarks if len(each) <= room), way)), width, scene.ink)


def draw_requests(scene, width, height):
    """Every sequence: where it stands, its block table, its text. As many lines each as there is room for."""
    sequences = list(scene.snapshot.sequences)
    hidden = 0
    while len(sequences) + bool(hidden) > height:
        # The finished ones go first, the oldest of them first, then the last to arrive.
        sequences.remove(next((seq for seq in sequences if seq.status == "finished"), sequences[-1]))
        hidden += 1
    drawn = {seq.name: draw_sequence(scene, seq, width, 1) for seq in sequences}
    running = [seq for seq in sequences if seq.block_table]
    waiting = [seq for seq in sequences if seq.name in scene.snapshot.queue]
    finished = [seq for seq in sequences if seq not in running and seq not in waiting]
    growing = [running, waiting, finished] if len(running) * 2 <= height else [[seq] for seq in running]
    for most in range(2, 7):
        for group in list(growing):
            taller = drawn | {seq.name: draw_sequence(scene, seq, width, most) for seq in group}
            old, new = (sum(map(len, each.values())) for each in (drawn, taller))
            if new + bool(hidden) <= height:
                drawn = taller
            if drawn is not taller or old == new:  # no room, or nothing more to show
                growing.remove(group)
    lines = [each for lines in drawn.values() for each in lines]
    if hidden:
        lines.append(fit(line((f"+{hidden:,} more", "dim")), width, scene.ink))
    return lines


def draw_sequence(scene, seq, width, most):
    """One sequence in at most `most` lines: where it stands, its block table, its text."""
    ink, indent = scene.ink, " " * (scene.label_width + 3)
    chip = scene.chip(seq.name)
    status = "aborted" if seq.finish_reason == "abort" else seq.status
    head = line(chip, " " * (len(indent) - len(chip[0])), (f"{status:<9}  ", "bold" if seq.block_table else ""))
    lines = [head]
    if most == 1 and status in ("finished", "aborted"):
        head.append_text(line(*draw_text(scene, seq, width - head.cell_len, 1)))
    elif not seq.block_table:
        head.append(standing(scene, seq, width - head.cell_len))
    elif most < 3:
        head.append(f"{seq.num_computed_tokens}/{seq.num_tokens}  ")
        head.append_text(draw_table(scene, seq, width - head.cell_len))
    else:
        head.append(f"{seq.num_computed_tokens} of {seq.num_tokens} tokens computed")
        lines.append(line(indent, draw_table(scene, seq, width - len(indent))))
    if len(lines) < most:
        lines += [line(indent, each) for each in draw_text(scene, seq, width - len(indent), most - len(lines))]
    return [fit(each, width, ink) for each in lines]


def standing(scene, seq, room):
    """Why a sequence that has no blocks has none, in at most `room` cells."""
    tokens, queue = count(seq.num_tokens, "token"), scene.snapshot.queue
    if seq.name not in queue:
        generated = f"{count(seq.num_tokens - seq.num_prompt_tokens, 'token')} generated"
        phrases = (f"{generated}, holds no blocks now", generated)
    elif seq.name != queue[0]:
        phrases = (f"{tokens}, behind {safe(queue[queue.index(seq.name) - 1], scene.ink)} in the queue", tokens)
    else:
        kept = f", {tokens} kept" if seq.status == "preempted" else f", {tokens}"
        reason = reason_to_wait(scene, seq)
        phrases = (reason + kept, reason)
    return next((phrase for phrase in phrases if cell_len(phrase) <= room), phrases[-1])


def reason_to_wait(scene, seq):
    """Why the head of the queue could not enter in this step, as the engine told it."""
    events = [event for event in scene.snapshot.events if getattr(event.fact, "request", None) == seq.request]
    if any(event.kind == "Preempted" for event in events):
        return "blocks dropped in this step"
    reasons = [event.why.partition(": ")[2] for event in events if event.kind == "KeptWaiting"]
    return reasons[-1] if reasons else "before the first step"


def draw_table(scene, seq, width):
    """logical -> physical, entry by entry; of a long table the beginning and the end."""
    ink, block_size = scene.ink, scene.snapshot.block_size
    old = scene.num_old_blocks(seq) if scene.previous else len(seq.block_table)
    table, most = list(enumerate(seq.block_table)), width // 4  # an entry takes at least 4 cells
    hidden = max(0, len(table) - 2 * most)
    entries = []
    for logical, block in table[:most] + table[max(most, len(table) - most) :]:
        is_new = logical >= old
        entries.append(line((f"{'+' * is_new}{logical}{ink.arrow}{block}", "bold" if is_new else "")))
    last = seq.num_computed_tokens - (len(table) - 1) * block_size
    tail = line((f" ({last}/{block_size})", "dim"))
    shown = list(entries)
    while len(shown) > 2 and sum(each.cell_len + 2 for each in shown) + tail.cell_len + 13 * bool(hidden) > width:
        del shown[len(shown) // 2]
        hidden += 1
    if hidden:
        shown.insert((len(shown) + 1) // 2, line((f"{ink.ellipsis} {hidden} more {ink.ellipsis}", "dim")))
    return line(*[part for each in shown for part in ("  ", each)][1:], tail) if entries else line()


def draw_text(scene, seq, width, number):
    """The end of prompt and generated text in at most `number` lines; the newest token stands out."""
    parts, cells, new_from = [], 0, scene.num_old_tokens(seq)
    for position in reversed(range(len(seq.token_texts))):
        if cells > width * number:  # what stands before can't be seen
            break
        style = "dim" if position < seq.num_prompt_tokens else NEW if position >= new_from else ""
        parts.append((safe(seq.token_texts[position], scene.ink), style))
        cells += cell_len(parts[-1][0])
    return last_lines(line(*reversed(parts)), width, number, scene.ink)


def draw_why(scene, width, height):
    """One sentence for each thing that happened in this step; where room is short, the routine goes first."""
    ink, events = scene.ink, scene.snapshot.events
    drawn = [draw_sentence(scene, event, width) for event in events]
    expendable = sorted(range(len(events)), key=lambda i: (importance(events[i].kind), -i))
    story = wrap(line(safe(scene.story, ink)), width)
    hidden = 0
    while len(story) + sum(map(len, drawn)) + bool(hidden) > height and hidden < len(events) - 1:
        drawn[expendable[hidden]] = []
        hidden += 1
    lines = [each for sentence in drawn for each in sentence]
    lines = lines + story if scene.snapshot.step else story + lines
    if len(lines) + bool(hidden) > height:  # not even one sentence fits
        lines = [*lines[: height - 1 - bool(hidden)], line(lines[height - 1 - bool(hidden)], ink.ellipsis)]
    if not events and not story:
        nothing = (
            "Nothing: no request is here." if scene.snapshot.step else "Nothing yet: the first step is still to come."
        )
        lines.append(line((nothing, "dim")))
    if hidden:
        lines.append(line((f"+{hidden} more", "dim")))
    return [fit(each, width, ink) for each in lines]


def draw_sentence(scene, event, width):
    """A sentence behind the label of whom it is about, wrapped where it is too long."""
    name = next(getattr(event.fact, each) for each in ("sequence", "child", "request") if hasattr(event.fact, each))
    room = scene.label_width + 2
    chip = scene.chip(name) if scene.knows(name) else ("", "")
    text = line((safe(event.why, scene.ink) + ".", "dim" if event.kind in ROUTINE else ""))
    if width < NO_CHIPS:
        return wrap(text, width)
    parts = wrap(text, width - room - 1)
    heads = [line(chip, " " * (room + 1 - len(chip[0]))), *[line(" " * (room + 1))] * (len(parts) - 1)]
    return [line(head, part) for head, part in zip(heads, parts)]
