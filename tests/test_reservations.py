"""Long reservations: where a run fits, and what the slots of a pool are used for."""

import random
from collections import Counter

import pytest

from minipaged.memory.reservations import Layout, Run, Waste, first_fit, waste


def test_first_fit_takes_the_front_of_the_first_run_that_is_long_enough():
    free_runs = [(0, 3), (10, 6), (20, 9)]
    assert first_fit(free_runs, 4) == 10
    assert free_runs == [(0, 3), (14, 2), (20, 9)]
    assert first_fit(free_runs, 2) == 0
    assert free_runs == [(2, 1), (14, 2), (20, 9)]


def test_a_run_that_fits_exactly_is_gone():
    free_runs = [(0, 3), (10, 6)]
    assert first_fit(free_runs, 3) == 0
    assert free_runs == [(10, 6)]
    assert first_fit(free_runs, 6) == 10
    assert free_runs == []
    assert first_fit(free_runs, 1) is None


def test_free_slots_that_are_not_side_by_side():
    free_runs = [(0, 3), (10, 3), (20, 3)]
    assert first_fit(free_runs, 4) is None
    assert free_runs == [(0, 3), (10, 3), (20, 3)]


@pytest.mark.parametrize("size", [0, -1, 1.5, "2", True])
def test_a_size_that_cannot_be(size):
    free_runs = [(0, 3)]
    with pytest.raises(ValueError, match=f"size={size!r}"):
        first_fit(free_runs, size)
    assert free_runs == [(0, 3)]


def runs_of(free):
    """A list that says of each slot whether it is free -> its free runs."""
    runs = []
    for slot, is_free in enumerate(free):
        if is_free and slot and free[slot - 1]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        elif is_free:
            runs.append((slot, 1))
    return runs


def test_first_fit_does_what_a_look_at_every_slot_does():
    rng, found = random.Random(0), Counter()
    for _ in range(2000):
        free, size = [rng.random() < 0.7 for _ in range(30)], rng.randint(1, 12)
        free_runs = runs_of(free)
        expected = next((s for s in range(31 - size) if all(free[s : s + size])), None)
        assert first_fit(free_runs, size) == expected
        if expected is not None:
            free[expected : expected + size] = [False] * size
        assert free_runs == runs_of(free)
        found[expected is None] += 1
    assert min(found.values()) > 300


def test_figure_3_of_the_paper():
    """A may become 2,048 tokens long and B 512; A stores its prompt of 7 tokens, and B its prompt of 3.

    In the step that is shown A's next token gets its slot, and so does B's. Two more of A's and one of B's come later.
    """
    before = Layout(2563, [Run(0, 2048, 7, 10), Run(2051, 512, 3, 5)])
    assert waste(before) == Waste(states=10, reserved=3 + 2, internal=2038 + 507, external=3)
    after = Layout(2563, [Run(0, 2048, 8, 10), Run(2051, 512, 4, 5)])
    assert waste(after) == Waste(states=12, reserved=2 + 1, internal=2038 + 507, external=3)


def test_an_empty_pool_and_a_full_one():
    assert waste(Layout(40, [])) == Waste(0, 0, 0, 40)
    assert waste(Layout(40, [Run(0, 40, 40, 40)])) == Waste(40, 0, 0, 0)


def test_waste_is_what_a_look_at_every_slot_says():
    rng = random.Random(0)
    for _ in range(300):
        slots, runs = [], []
        for _ in range(rng.randint(0, 5)):
            slots += ["external"] * rng.randint(0, 4)
            stored, later, never = (rng.randint(0, 6) for _ in range(3))
            runs.append(Run(len(slots), stored + later + never, stored, stored + later))
            slots += ["states"] * stored + ["reserved"] * later + ["internal"] * never
        slots += ["external"] * rng.randint(0, 4)
        counted = waste(Layout(len(slots), runs))
        assert counted == Waste(*(slots.count(kind) for kind in Waste._fields))
        assert sum(counted) == len(slots)
