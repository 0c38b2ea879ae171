"""Ledger: who runs, who waits, and what a step did to them. Nothing is decided here.

commit enters what came of a step; a sequence may end there, a request may be aborted, a step may break off. Scheduler
adds the decisions. (vLLM: the second half of v1/core/sched/scheduler.py, update_from_output.)
"""

import time
from collections import deque

from minipaged.events import Aborted, Finished, Preempted, Sampled
from minipaged.serving.group import awaits_forks, num_computed, unfinished
from minipaged.serving.sequence import Status


class Ledger:
    """running: requests, the oldest first. waiting: a queue, whose head is the next to enter.

    clock: gives the seconds that timelines are written in. log: a list that events are appended to, or None.
    """

    def __init__(self, memory, clock=time.monotonic):
        self.memory, self.clock = memory, clock
        self.running, self.waiting = [], deque()
        self.log = None

    def commit(self, plan, continuations, reasons):
        """Enter what a step computed: what is in the cache now, the new tokens, and who is finished.

        continuations: Continuations of the plan's due sequences, any number of each. reasons: for each of them
        (finish_reason, stop_reason), both None where the sequence goes on.
        """
        memory_commit = self.memory.commit
        for sequence, start, num_tokens in plan.rows:
            sequence.num_computed_tokens = num_computed_tokens = start + num_tokens
            memory_commit(sequence.name, sequence.token_ids, num_computed_tokens)
        if self.running:
            self._reunite(self.running[-1])
        heirs, now = self._heirs(plan, continuations, reasons), self.clock()
        for sequence, (_, token, logprob, logprobs), (finish_reason, stop_reason) in zip(heirs, continuations, reasons):
            if self.log is not None:
                self.log.append(Sampled(sequence.name, token, len(sequence.token_ids)))
            sequence.token_ids.append(token)
            sequence.token_times.append(now)
            sequence.cumulative_logprob += logprob
            if logprobs is not None:
                sequence.logprobs.append(logprobs)
            if finish_reason is not None:
                self._note(Finished, sequence.name, finish_reason, sequence.num_output_tokens)
                self._end(sequence, finish_reason, stop_reason)

    def _reunite(self, request):
        """Once the first sequence of a group that had to yield has the prompt again, its siblings are forked there."""
        group = unfinished(request) if len(request.sequences) > 1 else ()
        if awaits_forks(group) and group[0].num_computed_tokens == request.num_prompt_tokens:
            for sibling in group[1:]:
                self._fork(group[0], sibling)

    def _heirs(self, plan, continuations, reasons):
        """The sequence in which each continuation goes on: its parent for the first one, for each further one a fork.

        A due sequence without a continuation ends here: after the forks, which may need its blocks.
        """
        parents = [each.parent for each in continuations]
        if parents == plan.due:  # one for each: nearly every step
            return parents
        heirs, going_on = [], set()
        for parent, (finish_reason, _) in zip(parents, reasons):
            heir = parent
            if parent in going_on:
                heir = parent.request.fork(parent)
                if finish_reason is None:  # otherwise this token is its last, and it never needs a table
                    self._fork(parent, heir)
            going_on.add(parent)
            heirs.append(heir)
        for sequence in plan.due:
            if sequence not in going_on:
                self._end(sequence, "dropped")
        return heirs

    def _fork(self, parent, child):
        self.memory.fork(parent.name, child.name)
        child.num_computed_tokens = parent.num_computed_tokens

    def _end(self, sequence, finish_reason, stop_reason=None):
        """A sequence gives up its blocks; if it was the last of its request, that gives up its place."""
        request, sequence.finish_reason, sequence.stop_reason = sequence.request, finish_reason, stop_reason
        self._release(sequence)
        if not unfinished(request):
            (self.running if request.status is Status.RUNNING else self.waiting).remove(request)
            request.status = Status.FINISHED
            request.timeline.finish = self.clock()

    def _release(self, sequence):
        if sequence.num_computed_tokens:  # between two steps: if it has a table
            self.memory.release(sequence.name)
            sequence.num_computed_tokens = 0

    def abort(self, request):
        """Take an unfinished request away, wherever it stands, with its blocks."""
        self._note(Aborted, request.request_id)
        for sequence in unfinished(request):
            self._end(sequence, "abort")

    def start_over(self, requests):
        """A step broke off, at whatever point: drop every table and queue these requests, all that are unfinished, in
        the order of their arrival. Their tokens are kept, and computed again."""
        num_free = self.memory.allocator.num_free
        self.memory.clear()
        self.running.clear()
        self.waiting.clear()
        for request in requests:
            if request.status in (Status.RUNNING, Status.SWAPPED, Status.FINISHED):  # finished by the very step
                num_dropped = num_computed(request)
                self._note(Preempted, request.request_id, None, num_dropped, num_free)
                request.timeline.preempted(num_dropped, num_swapped_blocks=0)
                request.status = Status.PREEMPTED
            for sequence in request.sequences:
                sequence.num_computed_tokens = 0
            self.waiting.append(request)

    def _note(self, event, *facts):
        if self.log is not None:
            self.log.append(event(*facts))
