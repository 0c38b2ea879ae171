# Wrong: a run that begins at slot 0 reads as none found.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    found = next((start for start, length in free_runs if length >= size), None)
    if not found:
        return None
    i, length = next((i, run[1]) for i, run in enumerate(free_runs) if run[0] == found)
    free_runs[i : i + 1] = [(found + size, length - size)] if length > size else []
    return found


def waste(layout):
    states = sum(run.num_tokens for run in layout.runs)
    reserved = sum(run.num_final - run.num_tokens for run in layout.runs)
    internal = sum(run.size - run.num_final for run in layout.runs)
    return Waste(states, reserved, internal, layout.num_slots - states - reserved - internal)
