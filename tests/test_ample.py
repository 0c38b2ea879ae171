"""The scheduler where memory never runs out gives the rows of the real one, as long as that has blocks enough."""

from collections import deque
from random import Random

import pytest
from harness import Drive, request, scheduler, some_slow

from minipaged.serving import ample
from minipaged.serving.asking import AskingScheduler


class BesideAmple:
    """Before each of a scheduler's steps the other one is asked, about the same sequences."""

    def __init__(self, real):
        self.real, self.schedule = real, real.schedule
        real.schedule = self

    def __call__(self):
        running, waiting = (
            [each for request in queue for each in request.sequences]
            for queue in (self.real.running, self.real.waiting)
        )
        waiting = deque(waiting)
        rows = ample.schedule(running, waiting, self.real.max_num_batched_tokens, self.real.max_num_seqs)
        plan = self.schedule()
        assert plan.rows == rows
        assert [request.sequences[0] for request in self.real.running] == running
        assert [request.sequences[0] for request in self.real.waiting] == list(waiting)
        return plan


@pytest.mark.parametrize("seed", some_slow(range(30), range(2, 30)))
def test_the_real_scheduler_gives_the_same_rows(seed):
    random = Random(seed)
    max_num_seqs = random.choice((1, 2, 3, 8))
    budget = max_num_seqs + random.choice((0, 1, 4, 16, 100))
    real = scheduler(800, random.choice((1, 3, 4, 16)), max_num_seqs, budget)
    BesideAmple(real)
    drive, num_steps = Drive(real), 0
    for number in range(40):
        real.add(request(f"R{number}", random.choice((1, 2, 5, 17, 60)), random.choice((1, 2, 9, 30))))
        while random.random() < 0.6:
            drive.step()
            num_steps += 1
        if real.running and random.random() < 0.1:
            real.abort(random.choice(real.running))
    assert num_steps + drive.run() > 40


class Deciding(AskingScheduler):
    """Counts the steps that the function decided."""

    num_decided = num_steps = 0

    def schedule(self):
        rows = []
        ask, self._ask = self._ask, lambda *arguments: rows.append(ask(*arguments)) or rows[-1]
        plan = super().schedule()
        self._ask, self.num_steps = ask, self.num_steps + 1
        self.num_decided += bool(rows) and [tuple(row)[1:] for row in rows[0]] == [row[1:] for row in plan.rows]
        return plan


@pytest.mark.parametrize("prefix_caching", [False, True])
@pytest.mark.parametrize("seed", some_slow(range(30), range(2, 30)))
def test_a_function_decides_the_steps_of_the_real_one(seed, prefix_caching):
    """Whatever the pool, the invariants hold after every step, and everybody finishes. In an ample one the steps are
    those of the real scheduler."""
    random = Random(seed)
    max_num_seqs, block_size = random.choice((1, 2, 3, 8)), random.choice((1, 3, 4, 16))
    budget, is_ample = max_num_seqs + random.choice((0, 1, 4, 16, 100)), seed % 2
    num_blocks = 800 if is_ample else -(-100 // block_size) + random.choice((0, 3, 20))
    drives = []
    for kind in (lambda made: made, lambda made: Deciding(made, ample.schedule)):
        made = kind(scheduler(num_blocks, block_size, max_num_seqs, budget, prefix_caching))
        drives.append(Drive(made))
    steps = []
    for drive in drives:
        random, done = Random(seed), []
        for number in range(25):
            name = f"R{number}"
            drive.scheduler.add(request(name, random.choice((1, 2, 5, 17, 60)), random.choice((1, 2, 9, 30)), n=1))
            while random.random() < 0.6:
                done.append(drive.step())
        while drive.scheduler.running or drive.scheduler.waiting:
            done.append(drive.step())
        steps.append(done)
    theirs = drives[1].scheduler
    assert theirs.num_decided > 0.3 * theirs.num_steps
    if is_ample:
        assert steps[0] == steps[1]
        assert theirs.num_decided == theirs.num_steps


def test_several_answers_are_left_to_the_engines_own_rules():
    asked = []
    made = AskingScheduler(scheduler(40, 4), lambda *arguments: asked.append(arguments))
    made.add(request("A", 7, max_tokens=5, n=3))
    assert Drive(made).run() == 5
    assert asked == []


def test_rows_are_rows():
    [row] = ample.schedule([], deque(request("A", 7).sequences), 4, 2)
    assert (row.start, row.num_tokens) == (0, 4)
