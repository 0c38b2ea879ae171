"""Long runs of slots, one reserved for each request, and what they waste: the way of storing K and V before paging.

A request's tokens had to lie in one run of neighbouring slots, so the run was reserved when the request came, as long
as the request might ever become. This file counts slots only and stores nothing. Lesson 02 builds it. (Paper: section
3.1 and Figure 3.)
"""

from typing import NamedTuple

from minipaged.arguments import whole


class Run(NamedTuple):
    """One request's reservation: slots start .. start + size - 1. 0 <= num_tokens <= num_final <= size."""

    start: int
    size: int  # slots reserved
    num_tokens: int  # stored by now
    num_final: int  # stored when the request ends


class Layout(NamedTuple):
    """A pool of num_slots slots, and the runs reserved in it. No two of them overlap."""

    num_slots: int
    runs: list  # of Run, in any order


class Waste(NamedTuple):
    """How many slots of a pool are used for what. The four numbers sum to the pool. (Paper: Figure 2.)"""

    states: int  # hold a token's K and V
    reserved: int  # wait for a later token of the same request, and can serve nobody else until it comes
    internal: int  # lie in a reservation, and no token will ever come
    external: int  # lie in no reservation


def first_fit(free_runs, size):
    """Take `size` slots from the front of the first free run that is long enough. Returns where they begin.

    free_runs: a list of (start, length), ascending. The run is shortened in place, or removed where it fits exactly.
    Returns None, with nothing changed, if no run is long enough: there may be more than `size` free slots then, but not
    side by side. Raises ValueError for size < 1.
    """
    size = whole("size", size, least=1)
    for i, (start, length) in enumerate(free_runs):
        if length >= size:
            if length == size:
                del free_runs[i]
            else:
                free_runs[i] = (start + size, length - size)
            return start
    return None


def waste(layout):
    """Layout -> Waste: what the slots of a pool are used for."""
    return Waste(
        states=sum(run.num_tokens for run in layout.runs),
        reserved=sum(run.num_final - run.num_tokens for run in layout.runs),
        internal=sum(run.size - run.num_final for run in layout.runs),
        external=layout.num_slots - sum(run.size for run in layout.runs),
    )
