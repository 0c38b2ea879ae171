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
from minipaged.serving.plan import Plan, Row
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
        """Put a request at the end of the queue. Raises ValueError, with nothing added, if it can never fit."""
        facts = request.request_id, request.num_prompt_tokens, request.max_tokens
        try:
            self.check(request)
        except ValueError:
            self._note(Refused, *facts, "pool", self.memory.blocks_at_most(*facts[1:]), self.memory.num_blocks)
            raise
        self.waiting.append(request)
        self._note(Arrived, *facts)

    def check(self, request):
        """Raise ValueError if a request can never fit: it would wait for ever, and everybody behind it."""
        num_prompt_tokens, max_tokens = request.num_prompt_tokens, request.max_tokens
        if not self.memory.fits_ever(num_prompt_tokens, max_tokens):
            raise ValueError(
                f"the request can never fit: {num_prompt_tokens} prompt tokens and max_tokens={max_tokens} need "
                f"{self.memory.blocks_at_most(num_prompt_tokens, max_tokens)} blocks of {self.memory.block_size}, "
                f"the pool has {self.memory.num_blocks}"
            )

    def schedule(self):
        """Decide the next step and take the blocks for it. Returns a Plan, without rows if there is nothing to do."""
        plan = Plan()
        budget = self.max_num_batched_tokens
        preempted = False

        # Who continues: the running, oldest first. Who must yield: the newest, until there is room for the older one.
        i = 0
        while i < len(self.running):
            request = self.running[i]
            while not (num_tokens := self._grant(plan, request, budget)):  # 0: too few blocks are free
                preempted = True
                victim = self.running.pop()
                self._preempt(victim, needed_by=request.request_id)
                if victim is request:
                    break
            budget -= num_tokens
            i += 1

        # Who may enter: the waiting in order, none of them past the head. After a preemption nobody: who just had to
        # yield is the head, and must not be back in the same step.
        while self.waiting and not preempted and self._admit(self.waiting[0], budget):
            budget -= self._grant(plan, self.running[-1], budget)
        if preempted:
            self._note(KeptWaiting, self.waiting[0].request_id, "preemption", 0, self.memory.allocator.num_free)

        plan.handed_out, plan.released = self.memory.take_moved()
        return plan

    def _grant(self, plan, request, budget):
        """Give a running request slots for as many of its tokens as the budget allows. Returns their number.

        Returns 0, with nothing changed, if the pool has too few free blocks.
        """
        sequence = request.sequences[0]
        name, start, total = sequence.name, sequence.num_computed_tokens, len(sequence.token_ids)
        num_tokens = min(total - start, budget)
        copies = self.memory.grow([(name, num_tokens)])
        if copies is None:
            return 0
        plan.rows.append(Row(sequence, start, num_tokens))
        if copies:
            plan.copies += copies
        if start + num_tokens == total:
            plan.due.append(sequence)
        if self.log is not None:  # not through _note, here and in commit: these two are nearly all events there are
            self.log.append(Scheduled(name, start, num_tokens, total, request.num_prompt_tokens))
        return num_tokens

    def _admit(self, request, budget):
        """Let the head of the queue enter if budget, number of sequences and memory allow it."""
        sequence, num_free = request.sequences[0], self.memory.allocator.num_free
        needed = blocks_for(sequence.num_tokens, self.memory.block_size)
        if len(self.running) >= self.max_num_seqs:
            self._note(KeptWaiting, request.request_id, "max_num_seqs", 0, num_free)
            return False
        if budget == 0:
            self._note(KeptWaiting, request.request_id, "budget", 0, num_free)
            return False
        num_left = request.max_tokens - sequence.num_output_tokens
        num_cached = self.memory.admit(sequence.name, sequence.token_ids, num_left)
        if num_cached is None:
            self._note(KeptWaiting, request.request_id, "blocks", needed, num_free)
            return False
        sequence.num_computed_tokens = num_cached
        self.waiting.popleft()
        self.running.append(request)
        request.status = Status.RUNNING
        self._note(Admitted, request.request_id, sequence.num_tokens, num_cached, needed, num_free)
        return True

    def _preempt(self, request, needed_by):
        """By recompute: drop the blocks, keep the tokens. The request goes back to the front of the queue."""
        sequence = request.sequences[0]
        num_free = self.memory.allocator.num_free
        self._note(Preempted, request.request_id, needed_by, sequence.num_computed_tokens, num_free)
        self.memory.release(sequence.name)
        sequence.num_computed_tokens = 0
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
            sequence = request.sequences[0]
            if request.status in (Status.RUNNING, Status.FINISHED):  # finished by the step that broke off
                self._note(Preempted, request.request_id, None, sequence.num_computed_tokens, num_free)
                request.status = Status.PREEMPTED
            sequence.num_computed_tokens = 0
            self.waiting.append(request)

    def commit(self, plan, continuations, reasons):
        """Enter what a step computed: what is in the cache now, the new tokens, and who is finished.

        continuations: for every due sequence of the plan, in order, a Continuation. reasons: for each of them
        (finish_reason, stop_reason), both None where the sequence goes on.
        """
        for sequence, start, num_tokens in plan.rows:
            sequence.num_computed_tokens = start + num_tokens
            self.memory.commit(sequence.name, sequence.token_ids, start + num_tokens)
        for (sequence, token, logprob, logprobs), (finish_reason, stop_reason) in zip(continuations, reasons):
            if self.log is not None:
                self.log.append(Sampled(sequence.name, token, sequence.num_tokens))
            sequence.token_ids.append(token)
            sequence.cumulative_logprob += logprob
            if logprobs is not None:
                sequence.logprobs.append(logprobs)
            if finish_reason is not None:
                sequence.finish_reason, sequence.stop_reason = finish_reason, stop_reason
                self._finish(sequence)

    def _finish(self, sequence):
        request = sequence.request
        self._note(Finished, sequence.name, sequence.finish_reason, sequence.num_output_tokens)
        self.running.remove(request)
        self._let_go(request)

    def abort(self, request):
        """Take an unfinished request away, wherever it stands, with its blocks."""
        self._note(Aborted, request.request_id)
        request.sequences[0].finish_reason = "abort"
        (self.running if request.status is Status.RUNNING else self.waiting).remove(request)
        self._let_go(request)

    def _let_go(self, request):
        sequence = request.sequences[0]
        if request.status is Status.RUNNING:
            self.memory.release(sequence.name)
        sequence.num_computed_tokens = 0
        request.status = Status.FINISHED

    def _note(self, event, *facts):
        if self.log is not None:
            self.log.append(event(*facts))
