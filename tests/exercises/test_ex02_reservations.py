"""The checks of exercise 02."""

import operator
import random
from numbers import Integral

import pytest

from minipaged.memory.reservations import Layout, Run

# ------------------------------------------------------------------------------------------------ first_fit


def is_whole(number):
    return isinstance(number, Integral) and not isinstance(number, bool)


def is_count(number):
    """As is_whole, or what Python can take for one: a tensor that holds a single whole number, say."""
    try:
        return operator.index(number) == number
    except TypeError:
        return False


def fit(impl, free_runs, size):
    """Call first_fit -> (call, start): the call in words, and the slot that it gave, or None. Changes free_runs."""
    call = f"first_fit({list(free_runs)}, {size})"
    start = impl.first_fit(free_runs, size)
    if start is None:
        return call, None
    wanted = "it must be the first slot taken, a whole number, or None where no run is long enough"
    assert is_whole(start), f"{call} gave {start!r}: {wanted}"
    return call, operator.index(start)


def check_list(call, free_runs, wanted, why):
    """The list after a call must be `wanted`; whether its pairs are tuples or lists is all the same."""
    pairs = [tuple(run) if isinstance(run, (tuple, list)) else run for run in free_runs]
    for pair in pairs:
        is_pair = isinstance(pair, tuple) and len(pair) == 2
        assert is_pair, f"{call} left {free_runs}: {pair!r} is no pair (start, length)"
        assert all(map(is_whole, pair)), f"{call} left {free_runs}: {pair} must be two whole numbers"
        said = "no slot is left of it, so it must be removed"
        assert pair[1] != 0, f"{call} left {free_runs}: the run {pair} is empty; {said}"
    assert pairs == wanted, f"{call} left {free_runs}, not {wanted}: {why}"


@pytest.mark.parametrize("start, length, size", [(4, 10, 3), (0, 32, 12), (100, 2, 1)])
def test_slots_are_taken_from_the_front_of_a_run(impl, start, length, size):
    free_runs = [(start, length)]
    call, got = fit(impl, free_runs, size)
    last = start + length - 1
    assert got == start, f"{call} gave {got}: slots {start} to {last} are free, and the run's front is slot {start}"
    why = f"slots {start} to {start + size - 1} are taken, so {length - size} are left, from slot {start + size} on"
    check_list(call, free_runs, [(start + size, length - size)], why + "; the list itself must be changed")


@pytest.mark.parametrize("size, wanted", [(4, 8), (3, 0), (9, 8), (10, 40)])
def test_the_first_run_that_is_long_enough_is_taken(impl, size, wanted):
    runs = [(0, 3), (8, 9), (20, 4), (40, 30)]
    for again in ("", " when called once more on the same runs"):
        free_runs = list(runs)
        call, got = fit(impl, free_runs, size)
        why = f"{wanted} is the start of the first run of {size} slots or more, whichever run fits best"
        assert got == wanted, f"{call} gave {got}{again}, not {wanted}: {why}"
        left = [(s + size, n - size) if s == wanted else (s, n) for s, n in runs]
        why = "only the run that was taken from is shorter; the others, and their order, stay as they were"
        check_list(call, free_runs, [run for run in left if run[1]], why)


@pytest.mark.parametrize(
    "runs, size, wanted", [([(16, 4)], 4, 16), ([(0, 2), (5, 7), (20, 9)], 7, 5), ([(3, 1)], 1, 3)]
)
def test_a_run_that_is_just_long_enough_is_taken_whole(impl, runs, size, wanted):
    free_runs = list(runs)
    call, got = fit(impl, free_runs, size)
    assert got == wanted, f"{call} gave {got}, not {wanted}: the run at {wanted} has {size} slots, just enough"
    left = [run for run in runs if run[0] != wanted]
    check_list(call, free_runs, left, f"no slot is left of the run at {wanted}, so it is no longer in the list")


@pytest.mark.parametrize(
    "runs, size",
    [([(0, 4), (8, 4), (20, 4)], 8), ([(0, 4), (8, 4), (20, 4)], 5), ([(6, 3)], 4), ([], 1), ([(0, 4), (4, 4)], 5)],
)
def test_no_run_is_long_enough(impl, runs, size):
    free_runs = list(runs)
    longest = max((length for _, length in runs), default=0)
    total = sum(length for _, length in runs)
    why = f"{total} slots are free, but no more than {longest} side by side"
    try:
        call, got = fit(impl, free_runs, size)
    except (ValueError, LookupError, MemoryError, StopIteration) as error:
        raise AssertionError(f"first_fit({runs}, {size}) raised {error!r}: it must return None, {why}") from error
    assert got is None, f"{call} gave {got}: it must be None, {why}"
    check_list(call, free_runs, runs, "where None is returned, nothing may be changed")


def test_a_list_of_many_runs(impl):
    runs = [*((10 * i, 9) for i in range(400)), (5000, 1000)]
    free_runs = list(runs)
    got = impl.first_fit(free_runs, 700)
    assert got == 5000, (
        f"first_fit with 400 runs of 9 slots and one of 1000, at 5000, for 700 slots gave {got}, not 5000"
    )
    assert len(free_runs) == 401 and tuple(free_runs[-1]) == (5700, 300), (
        f"700 slots were taken from the run at 5000; the last of the runs left is {free_runs[-1]}, not (5700, 300)"
    )


def runs_of(is_free):
    """The free runs of a pool, counted slot by slot."""
    runs = []
    for slot, free in enumerate(is_free):
        if free and (slot == 0 or not is_free[slot - 1]):
            runs.append((slot, 0))
        if free:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
    return runs


@pytest.mark.parametrize("num_slots, largest, seed", [(40, 9, 0), (101, 30, 1)])
def test_a_pool_that_requests_enter_and_leave(impl, num_slots, largest, seed):
    """The list is held against a plain list of slots, request by request."""
    draw = random.Random(seed)
    is_free, taken = [True] * num_slots, {}
    for _ in range(120):
        if taken and draw.random() < 0.45:
            start = draw.choice(sorted(taken))
            for slot in range(start, start + taken.pop(start)):
                is_free[slot] = True
            continue
        size, free_runs = draw.randint(1, largest), runs_of(is_free)
        fitting = [start for start, length in free_runs if length >= size]
        call, got = fit(impl, free_runs, size)
        wanted = fitting[0] if fitting else None
        assert got == wanted, f"{call} gave {got}: it must be {wanted}, where the first run of {size} or more begins"
        for slot in range(wanted, wanted + size) if fitting else ():
            is_free[slot] = False
        check_list(call, free_runs, runs_of(is_free), f"{size if fitting else 'no'} slots were to be taken")
        if fitting:
            taken[wanted] = size


# ------------------------------------------------------------------------------------------------ waste

USES = ("states", "reserved", "internal", "external")


def told(layout):
    return f"waste(Layout({layout.num_slots}, [{', '.join('Run' + str(tuple(run)) for run in layout.runs)}]))"


def check_waste(impl, layout, wanted, why):
    """waste(layout) must give the four counts, and change nothing."""
    before, call = list(layout.runs), told(layout)
    got = impl.waste(layout)
    assert all(hasattr(got, use) for use in USES), (
        f"{call} gave {got!r}, a {type(got).__name__}: it must be a Waste, with states, reserved, internal and external"
    )
    for use, count in zip(USES, wanted):
        kind = type(getattr(got, use)).__name__
        assert is_count(getattr(got, use)), (
            f"{call} gave {use}={getattr(got, use)!r}, a {kind}: a whole number is needed"
        )
        assert getattr(got, use) == count, f"{call} gave {use}={getattr(got, use)!r}, not {count}: {why}"
    assert layout.runs == before, f"{call} changed layout.runs to {layout.runs}: it must leave the layout as it is"


@pytest.mark.parametrize("num_slots", [32, 7])
def test_a_pool_without_runs_is_all_external(impl, num_slots):
    check_waste(impl, Layout(num_slots, []), (0, 0, 0, num_slots), f"no run is reserved, {num_slots} slots are free")


@pytest.mark.parametrize("run, num_slots", [(Run(4, 16, 7, 10), 32), (Run(0, 9, 2, 5), 9), (Run(11, 5, 0, 4), 17)])
def test_one_run(impl, run, num_slots):
    _, size, stored, final = run
    why = (
        f"of the run's {size} slots {stored} hold a token, {final} will when the request ends; the pool has {num_slots}"
    )
    check_waste(impl, Layout(num_slots, [run]), (stored, final - stored, size - final, num_slots - size), why)


def test_the_example_of_the_paper(impl):
    layout = Layout(3072, [Run(0, 2048, 8, 10), Run(2304, 512, 4, 5)])
    why = "A has stored 8 of 10 tokens in 2048 slots, B 4 of 5 in 512; the 512 slots between and behind are in no run"
    check_waste(impl, layout, (12, 3, 2545, 512), why)


def test_a_request_with_its_last_token_waits_for_none(impl):
    why = "all tokens of both requests are stored; nothing is reserved for a later one"
    check_waste(impl, Layout(24, [Run(0, 16, 12, 12), Run(16, 8, 8, 8)]), (20, 0, 4, 0), why)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_runs_may_lie_anywhere_and_come_in_any_order(impl, order):
    runs = [Run(3, 10, 6, 9), Run(15, 4, 1, 4), Run(20, 9, 2, 2)]
    why = "18 of the 41 slots are in no run: 3 before the first, 2 and 1 between them, 12 behind the last"
    check_waste(impl, Layout(41, [runs[i] for i in order]), (9, 6, 8, 18), why)


@pytest.mark.parametrize("num_slots, seed", [(64, 0), (213, 1), (1000, 2)])
def test_every_slot_is_counted_once(impl, num_slots, seed):
    """The four numbers are held against a plain list that says of each slot what it is used for."""
    draw = random.Random(seed)
    uses, runs, start = ["external"] * num_slots, [], draw.randint(0, 3)
    while start + (size := draw.randint(1, 24)) <= num_slots:
        final = draw.randint(0, size)
        stored = draw.randint(0, final)
        runs.append(Run(start, size, stored, final))
        uses[start : start + size] = (
            ["states"] * stored + ["reserved"] * (final - stored) + ["internal"] * (size - final)
        )
        start += size + draw.choice((0, 0, 1, 5))
    draw.shuffle(runs)
    layout, wanted = Layout(num_slots, runs), tuple(uses.count(use) for use in USES)
    check_waste(impl, layout, wanted, "so many slots were counted one by one")


def test_nothing_is_remembered(impl):
    layout = Layout(32, [Run(4, 16, 7, 10)])
    first = impl.waste(layout)
    kept = tuple(getattr(first, use) for use in USES)
    layout.runs[0] = Run(4, 16, 8, 10)
    check_waste(impl, layout, (8, 2, 6, 16), "the same Layout as in the call before, now with a token more")
    check_waste(impl, Layout(32, [Run(0, 10, 1, 2)]), (1, 1, 8, 22), "this is another layout of 32 slots and one run")
    now = tuple(getattr(first, use) for use in USES)
    assert now == kept, f"{told(layout)} and another call changed what the first one gave, from {kept} to {now}"
