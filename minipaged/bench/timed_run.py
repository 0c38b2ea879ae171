"""A scheduler driven by a cost model's clock: requests arrive, steps take their time, tokens get a time stamp.

The scheduler and the memory are the real ones. Only the model is missing: what it would say is made up, which changes
nothing, since requests end by max_tokens. A Run remembers each step; what it was like for a request is derived.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from minipaged.bench.cost_model import Clock
from minipaged.serving.plan import Continuation
from minipaged.serving.sequence import Request, SamplingParams, Status


class Work(NamedTuple):
    """A row of a step. kind: "prompt", "decode", "recompute" (tokens computed once before, lost by a preemption), or
    "held" (static batching only: a finished request whose place is kept). gives: tokens that it generates."""

    request: str
    sequence: str
    start: int
    num_tokens: int
    kind: str
    gives: int


class Step(NamedTuple):
    """One step: when, what was computed, which requests had been preempted and not come back, blocks swapped."""

    start_s: float
    end_s: float
    work: tuple
    preempted: tuple = ()
    num_swapped_blocks: int = 0


class Served(NamedTuple):
    """What a run was like for one request; seconds on the run's clock, None for what didn't come.

    token_times_s: of all its tokens. A request with several sequences has those of all of them, in order of time.
    """

    arrival_s: float
    first_scheduled_s: float | None
    token_times_s: list
    finish_s: float | None

    @property
    def first_token_s(self):
        """Time to first token: from the arrival on."""
        return self.token_times_s[0] - self.arrival_s

    @property
    def longest_gap_s(self):
        """The longest time between two of its tokens: the stall that a reader would notice. 0 for a single token."""
        return max((b - a for a, b in zip(self.token_times_s, self.token_times_s[1:])), default=0.0)

    @property
    def normalized_latency_s(self):
        """Seconds from arrival to end for each token generated: the paper's measure."""
        return (self.finish_s - self.arrival_s) / len(self.token_times_s)


@dataclass
class Run:
    """What happened. arrivals: {request: second} of those accepted. refused: those that could never run."""

    name: str
    arrivals: dict = field(default_factory=dict)
    steps: list = field(default_factory=list)
    refused: list = field(default_factory=list)
    finishes: dict = field(default_factory=dict)  # {request: second}

    @property
    def end_s(self):
        return self.steps[-1].end_s if self.steps else 0.0

    def served(self):
        """{request: Served}, in the order of arrival."""
        made = {name: [arrival, None, [], self.finishes.get(name)] for name, arrival in self.arrivals.items()}
        for step in self.steps:
            for work in step.work:
                facts = made[work.request]
                facts[1] = step.start_s if facts[1] is None else facts[1]
                facts[2].extend([step.end_s] * work.gives)
        return {name: Served(*facts) for name, facts in made.items()}

    def mean_normalized_latency_s(self):
        """Over all requests that finished. Raises ValueError if none did."""
        latencies = [each.normalized_latency_s for each in self.served().values() if each.finish_s is not None]
        if not latencies:
            raise ValueError(f"{self.name}: no request finished, so there is no mean latency")
        return sum(latencies) / len(latencies)


def request(name, num_prompt_tokens, max_tokens):
    """A Request with a made-up prompt, which shares nothing with another's but by a rare chance."""
    token = int.from_bytes(name.encode(), "big") % 2**62
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    return Request(name, None, [token] * num_prompt_tokens, params, max_tokens, seed=0)


def run(scheduler, arrivals, cost, clock=None, name="run"):
    """Serve requests until all are done. Returns a Run.

    arrivals: (second, Request) pairs in any order; times count from the clock's present. clock: the one that the
    scheduler was given; None: a new one. A step begins with schedule(), lasts as long as `cost` says, and ends with
    commit(): tokens are stamped with its end. What arrives in between is queued at its own time and considered by the
    next step. Where there is nothing to do, the clock jumps to the next arrival. A request that `add` refuses is
    listed in Run.refused.
    """
    clock = Clock() if clock is None else clock
    result, came, block_size = Run(name), clock.now, scheduler.memory.block_size
    coming = deque(sorted(arrivals, key=lambda arrival: arrival[0]))
    reached = {}  # sequence -> the most tokens it ever had computed; below that, work is done again
    idle = 0

    def arrive(until):
        while coming and came + coming[0][0] <= until:
            second, asked = coming.popleft()
            clock.advance_to(max(clock.now, came + second))
            try:
                scheduler.add(asked)
            except ValueError:
                result.refused.append(asked.request_id)
            else:
                result.arrivals[asked.request_id] = clock.now

    while True:
        arrive(clock.now)
        if not (scheduler.running or scheduler.waiting):
            if not coming:
                return result
            clock.advance_to(came + coming[0][0])
            continue
        start, plan = clock.now, scheduler.schedule()
        end = start + cost.plan_seconds(plan, block_size)
        idle = 0 if plan.rows else idle + 1
        if idle > 1:  # one step without rows can be: all that it did was to preempt
            raise RuntimeError("the scheduler has requests, and plans nothing twice in a row")
        continuations = made_up(plan)
        gives = {}
        for each in continuations:
            gives[each.parent.name] = gives.get(each.parent.name, 0) + 1
        work = tuple(work_of(row, reached, gives) for row in plan.rows)
        yielded = takewhile(lambda each: each.status is not Status.WAITING, scheduler.waiting)
        preempted = tuple(each.request_id for each in yielded)
        arrive(end)
        clock.advance_to(end)
        scheduler.commit(plan, continuations, [reason(each) for each in continuations])
        result.steps.append(Step(start, end, work, preempted, len(plan.swap_out) + len(plan.swap_in)))
        for row in plan.rows:
            if row.sequence.request.status is Status.FINISHED:
                result.finishes[row.sequence.request.request_id] = end


def work_of(row, reached, gives):
    sequence, start, num_tokens = row
    before = reached.get(sequence.name, 0)
    reached[sequence.name] = max(before, start + num_tokens)
    kind = "recompute" if start < before else "prompt" if start < sequence.request.num_prompt_tokens else "decode"
    return Work(sequence.request.request_id, sequence.name, start, num_tokens, kind, gives.get(sequence.name, 0))


def made_up(plan):
    """What a model would say: always token 0. A request for several answers has them all at the end of its prompt."""
    continuations = []
    for sequence in plan.due:
        missing = sequence.request.num_sequences - len(sequence.request.sequences)
        continuations += [Continuation(sequence, 0, 0.0)] * (1 + missing)
    return continuations


def reason(continuation):
    sequence = continuation.parent
    return ("length" if sequence.num_output_tokens + 1 == sequence.request.max_tokens else None), None
