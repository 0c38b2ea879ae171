"""Timeline: a whole run on one line: where we stand in it, and at which steps somebody came, yielded or left."""

from dataclasses import dataclass

from visualize.lines import fit, line

# Each kind of landmark and its mark, the weightier later: where two share a column, the later is drawn.
MARKS = {"Forked": "&", "Admitted": "+", "Finished": "x", "Aborted": "x", "Refused": "x", "Preempted": "!"}


@dataclass(frozen=True)
class Timeline:
    """position: which snapshot is shown. last: the last one there is so far. landmarks: (position, kind of event)."""

    position: int
    last: int
    is_complete: bool  # the run ends with the last one
    landmarks: tuple = ()


def draw_timeline(timeline, width, ink, marks=MARKS):
    """A line of `width` cells. marks: of each kind of landmark."""
    head = f"history  0 {ink.wall}"
    tail = f"{ink.wall} {timeline.last:,}{'' if timeline.is_complete else ink.ellipsis}"
    length = width - len(head) - len(tail)
    cells = [ink.rule] * length

    def column(position):
        return position * (length - 1) // max(timeline.last, 1)

    for kind, mark in marks.items():
        for position, landmark in timeline.landmarks:
            if landmark == kind:
                cells[column(position)] = mark
    here = column(timeline.position)
    before, after = "".join(cells[:here]), "".join(cells[here + 1 :])
    return fit(line((head, "dim"), before, (ink.here, "bold reverse"), (after, "dim"), (tail, "dim")), width, ink)
