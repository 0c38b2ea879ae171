# Right: the runs are one array; the slot and the counts come back as numpy integers.
import numpy as np

from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401


def first_fit(free_runs, size):
    lengths = np.array([length for _, length in free_runs], dtype=int)
    fits = np.flatnonzero(lengths >= size)
    if fits.size == 0:
        return None
    i = int(fits[0])
    start, length = free_runs[i]
    if length == size:
        free_runs.pop(i)
    else:
        free_runs[i] = (start + size, length - size)
    return np.int64(start)


def waste(layout):
    runs = np.array(layout.runs, dtype=int).reshape(-1, 4)
    _, size, num_tokens, num_final = runs.sum(axis=0)
    return Waste(num_tokens, num_final - num_tokens, size - num_final, layout.num_slots - size)
