# Wrong: every slot of a run that holds no token yet counts as reserved.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    for i, (start, length) in enumerate(free_runs):
        if length >= size:
            free_runs[i : i + 1] = [(start + size, length - size)] if length > size else []
            return start
    return None


def waste(layout):
    states = sum(run.num_tokens for run in layout.runs)
    reserved = sum(run.size - run.num_tokens for run in layout.runs)
    return Waste(states, reserved, 0, layout.num_slots - states - reserved)
