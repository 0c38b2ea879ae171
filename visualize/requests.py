"""The requests of a frame: where each sequence stands, its block table, its text. Those of one request stand together.

Where room is short, a group of sequences becomes one line before anybody else is left out. This file only draws; every
number comes from the snapshot.
"""

from rich.cells import cell_len

from visualize.ink import NEW, clip_start, pad, safe
from visualize.lines import fit, last_lines, line
from visualize.sharing import striped, together
from visualize.words import count


def draw_requests(scene, width, height):
    """Every sequence: where it stands, its block table, its text. As many lines each as there is room for."""
    families = {}  # request -> its sequences
    for seq in scene.snapshot.sequences:
        families.setdefault(seq.request, []).append(seq)
    members, hidden = choose(families, height)
    drawn, sequences = {}, [seq for request in members for seq in members[request]]
    for request, shown in members.items():
        if len(families[request]) > 1:
            drawn[request, "group"] = [draw_group(scene, families[request], width)]
        drawn |= {seq.name: draw_sequence(scene, seq, width, 1) for seq in shown}
    running = [seq for seq in sequences if seq.block_table]
    waiting = [seq for seq in sequences if seq.name in scene.snapshot.queue and seq not in running]
    finished = [seq for seq in sequences if seq not in running and seq not in waiting]
    room = height - (len(drawn) - len(sequences))  # without the lines of whole groups
    growing = [running, waiting, finished] if len(running) * 2 <= room else [[seq] for seq in running]
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


def choose(families, height):
    """({request: its sequences to be drawn, a line each at least}, how many sequences are left out).

    A request with several has a line for itself as well, so none of them need be drawn.
    """
    members = {request: [seq for seq in group if seq.finish_reason != "dropped"] for request, group in families.items()}
    groups = [request for request, group in families.items() if len(group) > 1]
    hidden = []

    def fits():
        lines = sum(len(shown) + (request in groups) for request, shown in members.items())
        return lines + bool(hidden) <= height

    while not fits():
        # First what is finished goes: in a group, then the oldest request. Then a group draws together, the largest
        # first. At last, the last to arrive.
        finished = [seq for request in groups for seq in members.get(request, ()) if seq.finish_reason]
        over = [request for request in members if all(seq.finish_reason for seq in families[request])]
        largest = max(groups, key=lambda request: len(members.get(request, ())), default=None)
        if finished:
            members[finished[0].request].remove(finished[0])
        elif not over and members.get(largest):
            members[largest] = []
        else:
            hidden.append((over or list(members))[0 if over else -1])
            del members[hidden[-1]]
    for request in reversed(list(hidden)):  # a group that drew together may have left room for others
        hidden.remove(request)
        members[request] = [] if request in groups else list(families[request])
        if not fits():
            del members[request]
            hidden.append(request)
    members = {request: members[request] for request in families if request in members}
    return members, sum(len(families[request]) for request in hidden)


def draw_group(scene, sequences, width):
    """One line for all sequences of a request: who they are, and how many blocks they hold together."""
    ink, indent = scene.ink, scene.label_width + 3
    going_on = [seq for seq in sequences if seq.status != "finished"]
    finished = [seq for seq in sequences if seq not in going_on and seq.finish_reason != "dropped"]
    named = [block for seq in sequences for block in seq.block_table]
    status = going_on[0].status if going_on else "finished"
    shown = going_on or finished or sequences
    request = clip_start(safe(sequences[0].request, ink), scene.label_width, ink)
    head = line((pad(f" {request}", indent), "bold"), (f"{status:<9}  ", "bold" if named else ""))
    head.append_text(line(striped(together(shown, ink), [scene.style(seq.name) for seq in shown]), "  "))
    counts = ((len(finished) * bool(going_on), "finished"), (len(sequences) - len(finished + going_on), "dropped"))
    ended = [f"{number:,} {what}" for number, what in counts if number]
    held = count(len(set(named)), "block")
    if named:
        there = " in the host pool" * any(seq.is_swapped for seq in sequences)
        facts = (f"{held}{there}, named {count(len(named), 'time')}", f"{held}{there}", held)
    else:
        facts = (standing(scene, going_on[0], width - head.cell_len) if going_on else "",)
    phrases = [", ".join(filter(None, (fact, *ended))) for fact in facts]
    head.append(next((each for each in phrases if cell_len(each) <= width - head.cell_len), phrases[-1]))
    return fit(head, width, ink)


def draw_sequence(scene, seq, width, most):
    """One sequence in at most `most` lines: where it stands, its block table, its text."""
    ink, indent = scene.ink, " " * (scene.label_width + 3)
    chip = scene.chip(seq.name)
    status = {"abort": "aborted", "dropped": "dropped"}.get(seq.finish_reason, seq.status)
    head = line(chip, " " * (len(indent) - len(chip[0])), (f"{status:<9}  ", "bold" if seq.block_table else ""))
    lines = [head]
    if most == 1 and seq.status == "finished":
        head.append_text(line(*draw_text(scene, seq, width - head.cell_len, 1)))
    elif not seq.block_table:
        head.append(standing(scene, seq, width - head.cell_len))
    elif most < 3:
        head.append(f"{seq.num_computed_tokens}/{seq.num_tokens}  ")
        head.append_text(draw_table(scene, seq, width - head.cell_len))
    else:
        where = "in the host pool" if seq.is_swapped else "computed"
        head.append(f"{seq.num_computed_tokens} of {seq.num_tokens} tokens {where}")
        lines.append(line(indent, draw_table(scene, seq, width - len(indent))))
    if len(lines) < most:
        lines += [line(indent, each) for each in draw_text(scene, seq, width - len(indent), most - len(lines))]
    return [fit(each, width, ink) for each in lines]


def standing(scene, seq, room):
    """Why a sequence that has no blocks has none, in at most `room` cells."""
    tokens, queue = count(seq.num_tokens, "token"), scene.snapshot.queue
    ahead = [scene.sequence(name).request for name in queue[: queue.index(seq.name)]] if seq.name in queue else []
    ahead = [request for request in ahead if request != seq.request]
    if seq.status == "running":
        phrases = ("is forked again once the prompt is computed", "to be forked again")
    elif seq.name not in queue:
        generated = f"{count(seq.num_tokens - seq.num_prompt_tokens, 'token')} generated"
        phrases = (f"{generated}, holds no blocks now", generated)
    elif ahead:
        phrases = (f"{tokens}, behind {safe(ahead[-1], scene.ink)} in the queue", tokens)
    else:
        kept = f", {tokens} kept" if seq.status == "preempted" else f", {tokens}"
        reason = reason_to_wait(scene, seq)
        phrases = (reason + kept, reason)
    return next((phrase for phrase in phrases if cell_len(phrase) <= room), phrases[-1])


def reason_to_wait(scene, seq):
    """Why the head of the queue could not enter in this step, as the engine told it."""
    who = ("request", "sequence")  # NoRun is about a sequence: it has no siblings
    events = [event for event in scene.snapshot.events if seq.request in (getattr(event.fact, w, None) for w in who)]
    if any(event.kind == "Preempted" for event in events):
        return "blocks dropped in this step"
    reasons = [event.why.partition(": ")[2] for event in events if event.kind in ("KeptWaiting", "NoRun")]
    return reasons[-1] if reasons else "before the first step"


def draw_table(scene, seq, width):
    """logical -> physical, entry by entry; of a long table the beginning and the end."""
    ink, block_size = scene.ink, scene.snapshot.block_size
    table, most = list(enumerate(seq.block_table)), width // 4  # an entry takes at least 4 cells
    hidden = max(0, len(table) - 2 * most)
    entries = []
    for logical, block in table[:most] + table[max(most, len(table) - most) :]:
        mark = scene.entry_mark(seq, logical)
        entries.append(line((f"{mark}{logical}{ink.arrow}{'h' * seq.is_swapped}{block}", "bold" if mark else "")))
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
