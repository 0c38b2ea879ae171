"""View: two snapshots and a size become one frame, exactly that size.

It is pure: it looks at nothing but its arguments and remembers nothing, so the same snapshots give the same frame,
going forward or back, live or from a recording. What doesn't fit is counted ("+3 more"), never silently cut off.
"""

from rich.cells import cell_len
from rich.text import Text

from visualize.budget import draw_budget
from visualize.host import SIDE, draw_host
from visualize.ink import FREED, SHARED, TAKEN, UNICODE, WRITTEN, clip, safe
from visualize.lines import fit, heading, line
from visualize.panels import draw_free_queue, draw_memory, draw_queue, draw_way, draw_why
from visualize.pool import draw_pool
from visualize.requests import draw_requests
from visualize.reserved import draw_free_runs
from visualize.scene import Scene
from visualize.sharing import draw_copies
from visualize.storage import draw_storage
from visualize.timeline import draw_timeline
from visualize.words import count

MIN_WIDTH, MIN_HEIGHT = 60, 15
ROOMY = 20  # lines, from which on there is room for the timeline and the way to a slot
SPACIOUS = 36  # lines, from which on the parts are set apart by blank ones
LEAST_POOL = 5  # lines: a heading, three of blocks, the free queue
WIDE = 120  # from here on, requests and pool stand side by side


def view(
    snapshot,
    previous=None,
    width=120,
    height=36,
    ink=UNICODE,
    title="",
    footer="",
    story="",
    timeline=None,
    focus=None,
    only_why=False,
):
    """A rich Text of `height` lines, each `width` cells wide.

    Below MIN_WIDTH or MIN_HEIGHT it is a short note instead.

    previous: the snapshot before, to show what this step changed. title: what stands above, a string. footer: what
    stands below, such as the keys, a string or a Text. story: some sentences about the run. timeline: a Timeline, drawn
    where there is room. focus: the name of the sequence whose newest K and V are followed to their slot. only_why: the
    sentences get all the room.
    """
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return too_small(width, height, ink)
    scene = Scene(snapshot, previous, ink, story, focus)
    step = line(spent(snapshot) if width >= WIDE else "", (f"step {snapshot.step} ", "bold"))
    name = fit(line(("minipaged", "bold"), f" {ink.dot} {safe(title, ink)}"), width - step.cell_len - 1, ink)
    lines = [line(name, " ", step)]
    lines += draw_memory(scene, width, 1 if height < ROOMY else 2)
    if height >= ROOMY:
        lines.append(draw_way(scene, width))
    budget = draw_budget(scene, width) if height >= ROOMY else []
    if height >= SPACIOUS:
        lines = [lines[0], *(budget or [line(" " * width)]), *lines[1:], line(" " * width)]
    else:
        lines[1:1] = budget
    below = [draw_timeline(timeline, width, ink)] if timeline and height >= ROOMY else []
    below.append(fit(line(footer), width, ink))
    body = height - len(lines) - len(below)
    draw = why_panel if only_why else wide if width >= WIDE else narrow
    lines += draw(scene, width, body)
    lines += below
    return Text("\n", no_wrap=True).join(lines)


def spent(snapshot):
    """How much of its budget of tokens a step has used; nothing where there was no step, before the first of a half."""
    if not snapshot.step or (snapshot.part and not snapshot.events):
        return ""
    tokens = 0
    for event in snapshot.events:
        if event.kind == "Scheduled":
            tokens += event.fact.num_tokens
        elif event.kind == "Preempted" and event.fact.needed_by is None:
            tokens = 0  # a step broke off: what was granted before doesn't count
    return f"{tokens:,} of at most {snapshot.budget:,} tokens computed in "


def too_small(width, height, ink):
    note = [f"This terminal is {width}x{height};", f"{MIN_WIDTH}x{MIN_HEIGHT} is needed."]
    lines = [line(clip(each, width, ink)) for each in note[:height]]
    return Text("\n", no_wrap=True).join(lines)


def narrow(scene, width, height):
    """One below the other: the pool, a host pool if there is one, the requests, why, which gets what others leave."""
    pool = pool_panel(scene, width, max(LEAST_POOL, height * 2 // 5))
    for_why = max(3, (height - len(pool)) * 2 // 5)
    pool += draw_host(scene, width, max(2, height // 6))
    requests = requests_panel(scene, width, height - len(pool) - for_why, fill=False)
    return pool + requests + why_panel(scene, width, height - len(pool) - len(requests))


def wide(scene, width, height):
    """Requests at the left, the pool at the right, the host pool, if there is one, beside it, why below all."""
    for_why = height // 3
    left, gap = width * 9 // 20, 3
    beside = SIDE + gap if scene.snapshot.host else 0
    columns = [
        requests_panel(scene, left, height - for_why),
        pool_panel(scene, width - left - gap - beside, height - for_why, fill=True),
    ]
    if beside:
        columns.append(filled(draw_host(scene, SIDE, height - for_why), SIDE, height - for_why))
    rows = [line(*[part for cell in row for part in (" " * gap, cell)][1:]) for row in zip(*columns)]
    return rows + why_panel(scene, width, for_why)


def pool_panel(scene, width, height, fill=False):
    snapshot = scene.snapshot
    by_runs = f", runs by {snapshot.memory}" * scene.may_reserve
    title = f"Physical KV cache: {count(snapshot.num_blocks, 'block')} of {snapshot.block_size}{by_runs}"
    lines = [heading(title, legend(scene, width - len(title) - 8), width, scene.ink)]
    lines += draw_storage(scene, width) if height > LEAST_POOL else []
    lines += draw_pool(scene, width, height - 1 - len(lines), scene.focus)
    lines += draw_free_runs(scene, width) if scene.may_reserve else draw_free_queue(scene, width)
    return filled(lines, width, height) if fill else lines


def legend(scene, room):
    """What the marks mean and, before that, the copies of this step, in at most `room` cells."""
    owners = f" {SHARED}owners" * (scene.may_share or scene.may_hit)
    # The first to go: the memory line says it too.
    signs = f" {scene.ink.cached} cached" * scene.may_hit + f" {scene.ink.reserved} reserved" * scene.may_reserve
    candidates = [f"{TAKEN}taken {WRITTEN}written{owners} {FREED}freed{more}" for more in (signs, "")]
    candidates.append(f"{TAKEN}taken {WRITTEN}written {FREED}freed")
    marks = line((next((each for each in candidates if cell_len(each) <= room), candidates[-1]), "dim"))
    if not scene.copies:
        return marks
    copies = draw_copies(scene, room)
    both = line(copies, "  ", marks)
    return both if both.cell_len <= room else copies if copies.cell_len else marks


def requests_panel(scene, width, height, fill=True):
    title = f"Requests, logical{scene.ink.arrow}physical"
    lines = [heading(title, draw_queue(scene, width - len(title) - 8), width, scene.ink)]
    lines += draw_requests(scene, width, height - len(lines))
    return filled(lines, width, height) if fill else lines


def why_panel(scene, width, height):
    lines = [heading("Why: what happened in this step", line(), width, scene.ink)]
    return filled(lines + draw_why(scene, width, height - 1), width, height)


def filled(lines, width, height):
    """As many lines as there is room for, blank ones at the end."""
    return lines + [line(" " * width)] * (height - len(lines))
