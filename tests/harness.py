"""What several test files need: a scheduler driven without a model, and every invariant checked after every step."""

import pytest

from minipaged.memory.check import BrokenInvariant, ShadowSlots, check
from minipaged.memory.paged import PagedMemory
from minipaged.serving.plan import Continuation
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams, Status


def some_slow(values, slow):
    """Parameters of a test; those in `slow` only where slow tests are run."""
    return [pytest.param(value, marks=pytest.mark.slow if value in slow else ()) for value in values]


def request(name, num_prompt_tokens, max_tokens=100):
    """A request for the scheduler alone, with a prompt of that many tokens."""
    return Request(name, None, list(range(num_prompt_tokens)), SamplingParams(), max_tokens, seed=0)


def scheduler(num_blocks, block_size, max_num_seqs=8, max_num_batched_tokens=256, **options):
    made = Scheduler(PagedMemory(num_blocks, block_size, **options), max_num_seqs, max_num_batched_tokens)
    made.log = made.memory.log = []
    return made


def needs_a_kernel():
    """Skip this test where a notebook can't be run."""
    from notebooks import PACKAGES

    for name in PACKAGES:
        pytest.importorskip(name, reason=f'{name} is not installed: python -m pip install -e ".[lessons]"')


class Drive:
    """Plays the engine without a model: every due sequence goes on with token 7 until it has max_tokens."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.shadow = ShadowSlots()

    def step(self):
        """One step, checked. Returns {name: number of tokens computed}, in the plan's order."""
        plan = self.scheduler.schedule()
        for sequence, start, num_tokens in plan.rows:
            self.shadow.write(sequence.name, self.scheduler.memory.table(sequence.name), start, start + num_tokens)
        due = plan.due
        last = [sequence.num_tokens + 1 - len(sequence.request.prompt_token_ids) for sequence in due]
        reasons = [("length" if n >= sequence.request.max_tokens else None, None) for n, sequence in zip(last, due)]
        self.scheduler.commit(plan, [Continuation(sequence, 7, 0.0) for sequence in due], reasons)
        check_scheduler(self.scheduler, self.shadow)
        return {row.sequence.name: row.num_tokens for row in plan.rows}

    def run(self, limit=10_000):
        """Step until nothing is left, at most `limit` times. Returns the number of steps."""
        for step in range(limit):
            if not (self.scheduler.running or self.scheduler.waiting):
                return step
            self.step()
        raise AssertionError(f"not finished after {limit} steps")


def check_scheduler(scheduler, shadow=None):
    """check(memory), and what must hold between a scheduler and its memory between two steps."""
    memory = scheduler.memory
    check(memory, shadow)
    running = [sequence for request in scheduler.running for sequence in request.sequences]
    if [sequence.name for sequence in running] != memory.sequences():
        raise BrokenInvariant(f"running are {[s.name for s in running]}, tables have {memory.sequences()}")
    for sequence in running:
        if memory.table(sequence.name).num_tokens != sequence.num_computed_tokens:
            raise BrokenInvariant(f"{sequence.name}: the table's tokens aren't num_computed_tokens")
    if not all(request.status is Status.RUNNING for request in scheduler.running):
        raise BrokenInvariant("a running request has another status")
    for request in scheduler.waiting:
        if request.status not in (Status.WAITING, Status.PREEMPTED) or request.sequences[0].num_computed_tokens:
            raise BrokenInvariant(f"{request.request_id} waits as {request.status} with tokens computed")
    if len(running) > scheduler.max_num_seqs:
        raise BrokenInvariant(f"{len(running)} sequences run, {scheduler.max_num_seqs} may")
