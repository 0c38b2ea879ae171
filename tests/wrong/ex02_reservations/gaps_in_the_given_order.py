# Wrong: gaps are counted from run to run in the order given, as if they were sorted.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    for i, (start, length) in enumerate(free_runs):
        if length >= size:
            free_runs[i : i + 1] = [(start + size, length - size)] if length > size else []
            return start
    return None


def waste(layout):
    states = reserved = internal = external = end = 0
    for run in layout.runs:
        states += run.num_tokens
        reserved += run.num_final - run.num_tokens
        internal += run.size - run.num_final
        external += max(0, run.start - end)
        end = run.start + run.size
    return Waste(states, reserved, internal, external + layout.num_slots - end)
