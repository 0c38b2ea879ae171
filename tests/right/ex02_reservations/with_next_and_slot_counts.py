# Right: next() finds the run; waste writes the use of every slot into a list, and counts.
from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    i = next((i for i, run in enumerate(free_runs) if run[1] >= size), None)
    if i is None:
        return None
    start, length = free_runs.pop(i)
    if length != size:
        free_runs.insert(i, (start + size, length - size))
    return start


def waste(layout):
    uses = ["external"] * layout.num_slots
    for start, size, num_tokens, num_final in layout.runs:
        for offset in range(size):
            use = "states" if offset < num_tokens else "reserved" if offset < num_final else "internal"
            uses[start + offset] = use
    return Waste(*(uses.count(use) for use in Waste._fields))
