# Wrong: takes the shortest run that is long enough, not the first.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    fitting = [(length, start) for start, length in free_runs if length >= size]
    if not fitting:
        return None
    length, start = min(fitting)
    i = free_runs.index((start, length))
    free_runs[i : i + 1] = [(start + size, length - size)] if length > size else []
    return start


def waste(layout):
    states = sum(run.num_tokens for run in layout.runs)
    reserved = sum(run.num_final - run.num_tokens for run in layout.runs)
    internal = sum(run.size - run.num_final for run in layout.runs)
    return Waste(states, reserved, internal, layout.num_slots - states - reserved - internal)
