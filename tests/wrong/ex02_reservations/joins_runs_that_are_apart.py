# Wrong: takes slots from several runs as if they lay side by side.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    if sum(length for _, length in free_runs) < size:
        return None
    first = free_runs[0][0]
    while size:
        start, length = free_runs.pop(0)
        taken = min(size, length)
        size -= taken
        if taken < length:
            free_runs.insert(0, (start + taken, length - taken))
    return first


def waste(layout):
    states = sum(run.num_tokens for run in layout.runs)
    reserved = sum(run.num_final - run.num_tokens for run in layout.runs)
    internal = sum(run.size - run.num_final for run in layout.runs)
    return Waste(states, reserved, internal, layout.num_slots - states - reserved - internal)
