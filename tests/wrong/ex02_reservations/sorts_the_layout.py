# Wrong: the runs of the layout are put into another order.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    for i, (start, length) in enumerate(free_runs):
        if length >= size:
            free_runs[i : i + 1] = [(start + size, length - size)] if length > size else []
            return start
    return None


def waste(layout):
    layout.runs.sort()
    states = reserved = internal = external = end = 0
    for run in layout.runs:
        states += run.num_tokens
        reserved += run.num_final - run.num_tokens
        internal += run.size - run.num_final
        external += run.start - end
        end = run.start + run.size
    return Waste(states, reserved, internal, external + layout.num_slots - end)
