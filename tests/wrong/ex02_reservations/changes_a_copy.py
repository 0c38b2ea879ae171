# Wrong: a new list is made, the caller keeps the old one.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    for i, (start, length) in enumerate(free_runs):
        if length >= size:
            rest = [(start + size, length - size)] if length > size else []
            free_runs = free_runs[:i] + rest + free_runs[i + 1 :]
            return start
    return None


def waste(layout):
    states = sum(run.num_tokens for run in layout.runs)
    reserved = sum(run.num_final - run.num_tokens for run in layout.runs)
    internal = sum(run.size - run.num_final for run in layout.runs)
    return Waste(states, reserved, internal, layout.num_slots - states - reserved - internal)
