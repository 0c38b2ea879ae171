# Right: the list is written anew in one go, pairs as lists; the gaps are added up in the order of the slots.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    taken, left = None, []
    for start, length in free_runs:
        if taken is None and length >= size:
            taken, start, length = start, start + size, length - size
        if length > 0:
            left.append([start, length])
    free_runs[:] = left
    return taken


def waste(layout):
    states = reserved = internal = external = end = 0
    for run in sorted(layout.runs, key=lambda run: run.start):
        external += run.start - end
        end = run.start + run.size
        states += run.num_tokens
        reserved += run.num_final - run.num_tokens
        internal += run.size - run.num_final
    external += layout.num_slots - end
    return Waste(states=states, reserved=reserved, internal=internal, external=external)
