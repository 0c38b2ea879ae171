"""Service: engines that serve the same stream of requests, a step at a time in turn, and what is noted of each.

Every engine has a clock of its own, which runs only while it works. So a busy moment of the machine hits all of them
alike, and an arrival at second 3 is at the third second of everybody's own time.
"""

import random
import time
from collections import deque
from contextlib import contextmanager
from typing import NamedTuple

from minipaged.bench.metrics import RequestTimes
from minipaged.memory.contiguous import ContiguousUsage
from minipaged.serving.outputs import output_of
from minipaged.serving.sequence import SamplingParams, Status

STATES = ("states", "reserved", "internal", "external", "rounding", "cached")


class OwnTime:
    """A clock: the seconds that were spent inside `running`, and those that were skipped."""

    def __init__(self):
        self._before, self._since = 0.0, None

    def __call__(self):
        return self._before + (time.perf_counter() - self._since if self._since is not None else 0.0)

    @contextmanager
    def running(self):
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._before, self._since = self(), None

    def skip_to(self, seconds):
        self._before = max(self._before, seconds)


class Moment(NamedTuple):
    """How it stood after a step. slots: how many slots of the pool are in each of STATES; what is left is free."""

    start: float
    end: float
    num_running: int  # sequences that computed in this step
    num_waiting: int  # requests that wait after it
    num_tokens: int  # computed
    num_sampled: int  # output tokens that it gave
    slots: dict
    saved_slots: int  # would be used more if nobody shared a block
    total_slots: int
    num_entries: int  # of all block tables together, the metadata of the blocks in them


class Line:
    """One engine under load. asked: workload.Asked, in order of arrival. prompts: a list of token ids for each."""

    def __init__(self, name, engine, asked, prompts):
        self.name, self.engine, self.clock = name, engine, OwnTime()
        engine.scheduler.clock = self.clock
        self.moments, self.refused, self._finished = [], [], {}
        self._coming = deque(zip(range(len(asked)), asked, prompts, strict=True))
        self.num_asked, self.last_arrival = len(asked), max((each.arrival for each in asked), default=0.0)

    @property
    def is_over(self):
        return not self._coming and not self.engine.has_unfinished()

    def step(self):
        """Queue who has arrived, and run one step."""
        if not self.engine.has_unfinished() and self._coming:
            self.clock.skip_to(self._next_arrival)
        while self._coming and self._next_arrival <= self.clock():
            self._queue(*self._coming.popleft())
        if not self.engine.has_unfinished():
            return
        start = self.clock()
        with self.clock.running():
            result = self.engine.step()
        for request in result.requests:
            if request.status is Status.FINISHED:
                self._finished[int(request.request_id)] = output_of(request, None)
        self.moments.append(self._moment(start, result.plan))

    @property
    def _next_arrival(self):
        _, asked, _ = self._coming[0]
        return asked.arrival

    def _queue(self, number, asked, prompt):
        params = SamplingParams(temperature=0, max_tokens=asked.num_output_tokens, ignore_eos=True)
        try:
            self.engine.add(prompt, params, request_id=str(number))
        except ValueError as error:
            self.refused.append((number, str(error)))
        else:
            self.engine.scheduler.waiting[-1].timeline.arrival = asked.arrival

    def _moment(self, start, plan):
        memory, waiting = self.engine.memory, len(self.engine.scheduler.waiting)
        usage, computed = memory.usage(), sum(row.num_tokens for row in plan.rows)
        entries = sum(len(memory.table(name).blocks) for name in memory.sequences())
        facts = (slots_of(usage), usage.saved_slots, usage.total_slots, entries)
        return Moment(start, self.clock(), len(plan.rows), waiting, computed, len(plan.due), *facts)

    @property
    def num_finished(self):
        return len(self._finished)

    def requests(self):
        """RequestTimes of those that are finished, in order of arrival."""
        return [RequestTimes.of(output) for _, output in sorted(self._finished.items())]

    def tokens(self):
        """{number of a finished request: its tokens}"""
        return {number: output.outputs[0].token_ids for number, output in sorted(self._finished.items())}


def slots_of(usage):
    """A memory's Usage by STATES. In paged memory the rest of a last block is internal, and nothing is reserved."""
    if isinstance(usage, ContiguousUsage):
        return {name: getattr(usage, name) for name in STATES[:-1]} | {"cached": 0}
    internal = usage.allocated_slots - usage.used_slots
    used = {"states": usage.used_slots, "internal": internal, "cached": usage.cached_slots}
    return dict.fromkeys(STATES, 0) | used


def serve(lines, told=lambda lines: None):
    """Run all lines to their ends, in turn. told: called after each round, to show progress."""
    while open_lines := [line for line in lines if not line.is_over]:
        for line in open_lines:
            line.step()
        told(lines)


def prompts_for(asked, vocab_size, shared=0.0, seed=0):
    """Made-up token ids for each request. shared: the part of each prompt, from its beginning, that is the beginning of
    one text, the same for all."""
    longest = max(each.num_prompt_tokens for each in asked)
    common = random.Random(f"shared {seed}").choices(range(vocab_size), k=longest)
    made = []
    for number, each in enumerate(asked):
        num_shared = int(each.num_prompt_tokens * shared)
        own = random.Random(f"{number} {seed}").choices(range(vocab_size), k=each.num_prompt_tokens - num_shared)
        made.append(common[:num_shared] + own)
    return made
