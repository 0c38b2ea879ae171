# Right: both functions call themselves, on the next run and on the runs that are left.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size, i=0):
    if i == len(free_runs):
        return None
    start, length = free_runs[i]
    if length < size:
        return first_fit(free_runs, size, i + 1)
    del free_runs[i]
    if length > size:
        free_runs.insert(i, (start + size, length - size))
    return start


def waste(layout):
    if not layout.runs:
        return Waste(0, 0, 0, layout.num_slots)
    run, rest = layout.runs[0], waste(Layout(layout.num_slots - layout.runs[0].size, layout.runs[1:]))
    return Waste(
        rest.states + run.num_tokens,
        rest.reserved + run.num_final - run.num_tokens,
        rest.internal + run.size - run.num_final,
        rest.external,
    )
