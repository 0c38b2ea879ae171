"""The parts of a frame beside the pool and the requests: the memory line, the free queue, the way to a slot, and why.

Each returns a list of lines of exactly the width it was given, and never more lines than it was given. Numbers come
from the snapshot; nothing is counted here that the engine didn't say.
"""

from itertools import product

from visualize.ink import CACHED_SIGN, RESERVED_SIGN, safe
from visualize.lines import fit, line, spread, wrap
from visualize.reserved import instead
from visualize.sharing import saved
from visualize.why import ROUTINE, importance
from visualize.words import count

NO_CHIPS = 90  # below this width, sentences need all the room they can get


def draw_memory(scene, width, height):
    """How the pool's slots are used: a bar, and the same in numbers."""
    usage, ink = scene.snapshot.usage, scene.ink
    numbers, remark = memory_in_numbers(scene, width)
    numbers = spread(numbers, line(remark), width, ink)
    if height == 1:
        return [numbers]
    length = width - len("memory  ")
    used_to = length * usage.used_slots // usage.total_slots
    allocated_to = length * usage.allocated_slots // usage.total_slots
    cached_to = length * (usage.allocated_slots + usage.cached_slots) // usage.total_slots  # or reserved, never both
    kept_to = length * (usage.allocated_slots + usage.cached_slots + usage.reserved_slots) // usage.total_slots
    bar = line(
        ("memory", "bold"), "  ", ink.bar[0] * used_to, ink.bar[1] * (allocated_to - used_to),
        (ink.cached * (cached_to - allocated_to), CACHED_SIGN), (ink.reserved * (kept_to - cached_to), RESERVED_SIGN),
        (ink.bar[2] * (length - kept_to), "dim"),
    )  # fmt: skip
    return [bar, numbers]


def memory_in_numbers(scene, width):
    """The slots, and a remark on what sharing saves and what reserving would take, in as many words as fit."""
    usage, ink = scene.snapshot.usage, scene.ink
    waste = usage.allocated_slots - usage.used_slots
    free = usage.total_slots - usage.allocated_slots - usage.cached_slots - usage.reserved_slots
    resident = sum(bool(seq.device_table) for seq in scene.snapshot.sequences)
    amount, times = f"{usage.max_would_reserve:,}", usage.max_would_reserve / usage.total_slots
    context = f"{usage.max_would_reserve // max(resident, 1):,}"
    who = count(resident, "sequence" if scene.may_share else "request")
    reserving = (
        f"reserving the whole context ({context}) for {who} would take {amount} slots, {times:,.1f} pools",
        f"reserving {context} slots for each of {resident}: {amount}",
        f"reserved whole: {amount}",
    )
    reserving = instead(scene.snapshot) if scene.may_reserve else reserving if resident else ("",)
    *more, least = saved(usage)
    remarks = [f"{shared}  {reserve}".strip() for shared in (*more, least) for reserve in reserving]
    is_short_of_room = usage.saved_blocks or usage.cached_slots or scene.may_reserve
    names = ("tail waste", "waste") if is_short_of_room else ("tail waste",)
    kept = ((ink.cached, CACHED_SIGN), f" {usage.cached_slots:,} cached  ") if usage.cached_slots else ()
    if scene.may_reserve:
        kept = ((ink.reserved, RESERVED_SIGN), f" {usage.reserved_slots:,} reserved  ")
    for name, remark in [*product(names, [*remarks, *more]), *product(names, [least]), *product(names, [""])]:
        numbers = line(
            ink.bar[0], f" {usage.used_slots:,} used  ", ink.bar[1], f" {waste:,} {name}  ", *kept,
            (ink.bar[2], "dim"), f" {free:,} free  of {usage.total_slots:,} slots",
        )  # fmt: skip
        if numbers.cell_len + len(f"  {remark}" if remark else "") <= width:
            return numbers, remark
    of_kept = (ink.reserved, usage.reserved_slots) if scene.may_reserve else (ink.cached, usage.cached_slots)
    signs = (ink.bar[0], usage.used_slots), (ink.bar[1], waste), of_kept, (ink.bar[2], free)
    return line(*(f"{sign}{slots:,} " for sign, slots in signs), f"of {usage.total_slots:,} slots"), ""


def draw_free_queue(scene, width):
    """The free blocks, the next to be taken first; the cached ones among them with a sign."""
    order, ink = scene.snapshot.free_order, scene.ink
    text = line(("free queue  ", "dim"), f"front {ink.arrow} ")
    for shown, block in enumerate(order):
        more = f" +{len(order) - shown:,} more"
        sign = ink.cached if scene.is_cached(block) else ""
        if text.cell_len + len(f" {sign}{block}") + len(more) > width:
            text.append(more, "dim")
            break
        text.append_text(line(" ", (sign, CACHED_SIGN), f"{block}"))
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
    if not seq.device_table:
        nothing = "its K and V are in the host pool" if seq.is_swapped else "has no K and V in the cache"
        return fit(line(head, (nothing, "dim")), width, scene.ink)
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


def draw_why(scene, width, height):
    """One sentence for each thing that happened in this step; where room is short, the routine goes first."""
    ink, events = scene.ink, scene.snapshot.events
    drawn = [draw_sentence(scene, event, width) for event in events]
    expendable = sorted(range(len(events)), key=lambda i: (importance(events[i].kind, events[i].dropped), -i))
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
    whose = ("sequence", "child", "request", "sequences")
    name = next(getattr(event.fact, who) for who in whose if hasattr(event.fact, who))
    name = name[0] if isinstance(name, tuple) else name
    room = scene.label_width + 2
    chip = scene.chip(name) if scene.knows(name) else ("", "")
    text = line((safe(event.why, scene.ink) + ".", "dim" if event.kind in ROUTINE else ""))
    if width < NO_CHIPS:
        return wrap(text, width)
    parts = wrap(text, width - room - 1)
    heads = [line(chip, " " * (room + 1 - len(chip[0]))), *[line(" " * (room + 1))] * (len(parts) - 1)]
    return [line(head, part) for head, part in zip(heads, parts)]
