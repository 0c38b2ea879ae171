"""A Scheduler that asks a function like ample.schedule who continues and who enters, and the memory for the blocks.

So a learner's schedule (exercise 08) decides an engine's steps. It knows neither blocks nor groups: where the running
find too few blocks for its rows, or a request is in the host pool or has several sequences, the step is planned by the
engine's own rules, those of scheduler.py.
"""

from collections import deque
from dataclasses import dataclass

from minipaged.serving.plan import Plan
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, Status


@dataclass(frozen=True, eq=False, repr=False)
class Asked:
    """What the function sees of a sequence. num_computed_tokens: for one that waits, what a prefix hit would save."""

    name: str
    num_tokens: int
    num_computed_tokens: int
    request: Request

    def __repr__(self):
        return self.name


class AskingScheduler(Scheduler):
    """scheduler: an idle Scheduler, in whose place this one steps, with its memory and all its settings."""

    def __init__(self, scheduler, ask):
        vars(self).update(vars(scheduler))
        self._ask = ask

    def schedule(self):
        requests = [*self.running, *self.waiting]
        if any(each.num_sequences > 1 or each.status is Status.SWAPPED for each in requests):
            return super().schedule()
        running, waiting = [self._asked(each) for each in self.running], deque(map(self._asked, self.waiting))
        rows = self._ask(running, waiting, self.max_num_batched_tokens, self.max_num_seqs)
        if not self._has_room(rows):
            return super().schedule()  # somebody must yield
        plan, budget = Plan(), self.max_num_batched_tokens
        for asked, _, num_tokens in rows:
            if asked.request.status is not Status.RUNNING and not self._admit(plan, asked.request, budget):
                break
            # An earlier row may have evicted what this one would have hit: then these tokens are the ones before.
            _, left = self._grant(plan, [asked.request], num_tokens)
            budget -= num_tokens - left
        else:
            while self.waiting and self._admit(plan, self.waiting[0], budget):  # it says why the head waits
                _, budget = self._grant(plan, self.running[-1:], budget)
        plan.handed_out, plan.released = self.memory.take_moved()
        return plan

    def _asked(self, request):
        [sequence] = request.sequences
        is_running = request.status is Status.RUNNING
        num_computed = sequence.num_computed_tokens if is_running else self.memory.lookup(sequence.token_ids)
        return Asked(sequence.name, sequence.num_tokens, num_computed, request)

    def _has_room(self, rows):
        """Are there blocks for the rows of those that run already? (Who enters asks for its own, in _admit.)"""
        continued = [row for row in rows if row[0].request.status is Status.RUNNING]
        needed = sum(self.memory.table(row[0].name).blocks_needed(row[1] + row[2]) for row in continued)
        return needed <= self.memory.allocator.num_free
