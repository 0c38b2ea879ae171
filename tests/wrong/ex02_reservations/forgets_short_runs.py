# Wrong: runs that are too short are dropped from the list on the way.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    while free_runs:
        start, length = free_runs.pop(0)
        if length >= size:
            if length > size:
                free_runs.insert(0, (start + size, length - size))
            return start
    return None


def waste(layout):
    states = sum(run.num_tokens for run in layout.runs)
    reserved = sum(run.num_final - run.num_tokens for run in layout.runs)
    internal = sum(run.size - run.num_final for run in layout.runs)
    return Waste(states, reserved, internal, layout.num_slots - states - reserved - internal)
