"""Exercise 02: reserve runs of slots, and count the waste.

Goal: find a place for a request's run of slots, and say what every slot of a pool is used for.

    free_runs     a list of pairs (start, length): slots start .. start + length - 1 are free; ascending, none is empty
    size          how many slots a request needs, side by side; 1 or more
    layout        a Layout(num_slots, runs): a pool of slots 0 .. num_slots - 1, and a list of the runs reserved in it;
                  they don't overlap, and come in any order
    one run       a Run(start, size, num_tokens, num_final): slots start .. start + size - 1 belong to one request; it
                  has stored num_tokens tokens by now, and will have stored num_final tokens in all when it ends
                  0 <= num_tokens <= num_final <= size
    Waste         four counts of slots: Waste(states, reserved, internal, external)

Edit below the line, not the tests. About 12 lines, 20 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex02 --impl yours -x

Hints: python -m minipaged.exercises hint ex02
"""

from minipaged.memory.reservations import Layout, Run, Waste  # noqa: F401 (given: they hold numbers and compute nothing)

# ------------------------------------------------------------------------------------------------ edit below this line


def first_fit(free_runs, size):
    """Take `size` slots from the front of the first free run that is long enough. Returns the first slot taken.

    The list itself is changed: what is left of that run stays in its place, and a run that is used up is removed.
    Returns None, with nothing changed, if no run is long enough by itself.
    """
    raise NotImplementedError("ex02: first_fit is yours to write")


def waste(layout):
    """What each slot of the pool is used for. Returns a Waste; its four counts sum to layout.num_slots.

    states: hold a token now. reserved: wait for a later token of the same request. internal: are reserved, and no token
    will ever come. external: lie in no run. The layout isn't changed.
    """
    raise NotImplementedError("ex02: waste is yours to write")
