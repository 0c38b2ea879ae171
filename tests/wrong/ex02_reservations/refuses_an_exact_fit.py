# Wrong: a run that is just long enough is passed over.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    for i, (start, length) in enumerate(free_runs):
        if length > size:
            free_runs[i : i + 1] = [(start + size, length - size)] if length > size else []
            return start
    return None


def waste(layout):
    states = sum(run.num_tokens for run in layout.runs)
    reserved = sum(run.num_final - run.num_tokens for run in layout.runs)
    internal = sum(run.size - run.num_final for run in layout.runs)
    return Waste(states, reserved, internal, layout.num_slots - states - reserved - internal)
