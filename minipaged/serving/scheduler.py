"""Who continues, who must yield, who may enter: one plan a step, made before anything is computed.

Every step lets each sequence catch up from num_computed_tokens to num_tokens, within one budget of tokens. A fresh
prompt is a long catch-up, cut into chunks where the budget ends; a decode is a catch-up of one token. So there are no
prefill and decode phases. The scheduler decides with counts only; it never sees a tensor. Lesson 08 builds it.
(Paper: section 4.5. vLLM: v1/core/sched/scheduler.py.)
"""

from collections import deque

from minipaged.arguments import whole
from minipaged.events import Aborted, Admitted, Arrived, Finished, KeptWaiting, Preempted, Refused, Sampled, Scheduled
from minipaged.memory.block_table import blocks_for
from minipaged.serving.group import blocks_wanted, is_apart, num_computed, num_known, refused, rows_of, unfinished
from minipaged.serving.plan import Plan, new_row
from minipaged.serving.sequence import Status


class Scheduler:
    """First come, first served over one waiting queue and one list of running requests, oldest first.

    max_num_seqs: the most sequences that run together. max_num_batched_tokens: the budget, tokens computed in one step;
    at least max_num_seqs, so that every running sequence that has caught up gets its token in every step.
    log: a list that events are appended to, or None. Raises ValueError for a number that isn't allowed.
    """

    def __init__(self, memory, max_num_seqs=64, max_num_batched_tokens=512):
        whole("max_num_seqs", max_num_seqs, least=1)
        if whole("max_num_batched_tokens", max_num_batched_tokens, least=0) < max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens={max_num_batched_tokens}: must be at least max_num_seqs={max_num_seqs}, "
                "so that every running sequence can get a token in every step"
            )
        self.memory = memory
        self.max_num_seqs, self.max_num_batched_tokens = max_num_seqs, max_num_batched_tokens
        self.running, self.waiting = [], deque()
        self.log = None

    def add(self, request):
        """Put a request at the end of the queue. Raises ValueError, with nothing added, if it can never run."""
        facts = request.request_id, request.num_prompt_tokens, request.max_tokens
        if refusal := refused(request, self.memory, self.max_num_seqs):
            self._note(Refused, *facts, *refusal[1:])
            raise ValueError(refusal[0])
        self.waiting.append(request)
        self._note(Arrived, *facts)

    def check(self, request):
        """Raise ValueError if a request can never run: it would wait for ever, and everybody behind it."""
        if refusal := refused(request, self.memory, self.max_num_seqs):
            raise ValueError(refusal[0])

    def schedule(self):
        """Decide the next step and take the blocks for it. Returns a Plan, without rows if there is nothing to do."""
        plan = Plan()
        budget = self.max_num_batched_tokens
        preempted = False

        # Who continues: the running, oldest first. Who must yield: the newest, until there is room for the older one.
        i = 0
        while i < len(self.running):
            request = self.running[i]
            while (left := self._grant(plan, request, budget)) is None:  # too few blocks are free
                preempted = True
                victim = self.running.pop()
                self._preempt(victim, needed_by=request.request_id)
                if victim is request:
                    break
            else:
                budget = left
            i += 1

        # Who may enter: the waiting in order, none past the head. After a preemption nobody: the head is who yielded.
        while self.waiting and not preempted and self._admit(plan, self.waiting[0], budget):
            budget = self._grant(plan, self.running[-1], budget)
        if preempted:
            self._note(KeptWaiting, self.waiting[0].request_id, "preemption", 0, self.memory.allocator.num_free)

        plan.handed_out, plan.released = self.memory.take_moved()
        return plan

    def _grant(self, plan, request, budget):
        """Give a running request slots for as many of its tokens as the budget allows. Returns what is left of that.

        Returns None, with nothing changed, if the pool has too few free blocks.
        """
        if len(request.sequences) > 1:
            return self._grant_group(plan, request, budget)
        [sequence] = request.sequences  # nearly every request: the same as for a group of one, in a third of the time
        start, total = sequence.num_computed_tokens, len(sequence.token_ids)
        num_tokens = total - start
        if num_tokens > budget:
            num_tokens = budget
        copies = self.memory.grow([(sequence.name, num_tokens)])
        if copies is None:
            return None
        if copies:
            plan.copies += copies
        plan.rows.append(new_row((sequence, start, num_tokens)))
        if start + num_tokens == total:
            plan.due.append(sequence)
        if self.log is not None:  # not through _note, here and in commit: these two are nearly all events there are
            self.log.append(Scheduled(sequence.name, start, num_tokens, total, request.num_prompt_tokens))
        return budget - num_tokens

    def _grant_group(self, plan, request, budget):
        """The same for a request with several sequences: all of them get their slots together, or none does."""
        rows = rows_of(request, budget)
        copies = self.memory.grow([(row.sequence.name, row.num_tokens) for row in rows])
        if copies is None:
            return None
        plan.copies += copies
        plan.rows += rows
        for sequence, start, num_tokens in rows:
            if start + num_tokens == sequence.num_tokens:
                plan.due.append(sequence)
            self._note(Scheduled, sequence.name, start, num_tokens, sequence.num_tokens, request.num_prompt_tokens)
        return budget - sum(row.num_tokens for row in rows)

    def _admit(self, plan, request, budget):
        """Let the head of the queue enter if number of sequences, budget and memory allow it."""
        first, *others = unfinished(request)
        num_free, num_running = self.memory.allocator.num_free, sum(each.num_sequences for each in self.running)
        needed, reason = blocks_wanted(request, self.memory.block_size), None  # why it must wait
        if num_running + request.num_sequences > self.max_num_seqs:
            reason = "max_num_seqs"
        elif budget == 0:
            reason = "budget"
        elif len(plan.rows) > len(plan.due):  # so that only the last of the running can be in the middle of its prompt
            reason = "catching up"
        if reason is None:
            # Room for all that is known; what the others need is taken when they are forked.
            token_ids = first.token_ids[: request.num_prompt_tokens] if others else first.token_ids
            extra_blocks = needed - blocks_for(len(token_ids), self.memory.block_size)
            max_new_tokens = request.max_tokens - first.num_output_tokens
            num_cached = self.memory.admit(first.name, token_ids, max_new_tokens, extra_blocks, first.num_output_tokens)
            reason = "blocks" if num_cached is None else None
        if reason is not None:
            self._note(KeptWaiting, request.request_id, reason, needed if reason == "blocks" else 0, num_free)
            return False
        first.num_computed_tokens = num_cached
        request.found(num_cached)
        self.waiting.popleft()
        self.running.append(request)
        request.status = Status.RUNNING
        self._note(Admitted, request.request_id, num_known(request), num_cached, needed, num_free)
        return True

    def _preempt(self, request, needed_by):
        """By recompute: drop all its blocks, keep the tokens. The request goes back to the front of the queue."""
        self._note(Preempted, request.request_id, needed_by, num_computed(request), self.memory.allocator.num_free)
        for sequence in request.sequences:
            self._release(sequence)
        request.status = Status.PREEMPTED
        self.waiting.appendleft(request)

    def start_over(self, requests):
        """A step broke off, at whatever point: drop every table and queue these requests, all that are unfinished, in
        the order of their arrival. Their tokens are kept, and computed again."""
        num_free = self.memory.allocator.num_free
        self.memory.clear()
        self.running.clear()
        self.waiting.clear()
        for request in requests:
            if request.status in (Status.RUNNING, Status.FINISHED):  # finished by the step that broke off
                self._note(Preempted, request.request_id, None, num_computed(request), num_free)
                request.status = Status.PREEMPTED
            for sequence in request.sequences:
                sequence.num_computed_tokens = 0
            self.waiting.append(request)

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
        heirs = self._heirs(plan, continuations, reasons)
        for sequence, (_, token, logprob, logprobs), (finish_reason, stop_reason) in zip(heirs, continuations, reasons):
            if self.log is not None:
                self.log.append(Sampled(sequence.name, token, len(sequence.token_ids)))
            sequence.token_ids.append(token)
            sequence.cumulative_logprob += logprob
            if logprobs is not None:
                sequence.logprobs.append(logprobs)
            if finish_reason is not None:
                self._note(Finished, sequence.name, finish_reason, sequence.num_output_tokens)
                self._end(sequence, finish_reason, stop_reason)

    def _reunite(self, request):
        """Once the first sequence of a group that had to yield has the prompt again, its siblings are forked there."""
        group = unfinished(request) if len(request.sequences) > 1 else ()
        if is_apart(group) and group[0].num_computed_tokens == request.num_prompt_tokens:
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

    def _release(self, sequence):
        if sequence.num_computed_tokens:  # between two steps: if it has a table
            self.memory.release(sequence.name)
            sequence.num_computed_tokens = 0

    def abort(self, request):
        """Take an unfinished request away, wherever it stands, with its blocks."""
        self._note(Aborted, request.request_id)
        for sequence in unfinished(request):
            self._end(sequence, "abort")

    def _note(self, event, *facts):
        if self.log is not None:
            self.log.append(event(*facts))
