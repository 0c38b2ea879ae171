"""The scheduler where memory never runs out gives the rows of the real one, as long as that has blocks enough."""

from collections import deque
from random import Random

import pytest
from harness import Drive, request, scheduler, some_slow

from minipaged.serving import ample


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


@pytest.mark.parametrize("seed", some_slow(range(30), range(6, 30)))
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


def test_rows_are_rows():
    [row] = ample.schedule([], deque(request("A", 7).sequences), 4, 2)
    assert (row.start, row.num_tokens) == (0, 4)
