"""Who continues, who must yield, who may enter: one plan a step, made before anything is computed.

Every step lets each sequence catch up from num_computed_tokens to num_tokens, within one budget of tokens. A fresh
prompt is a long catch-up, cut into chunks where the budget ends; a decode is a catch-up of one token. So there are no
prefill and decode phases. The scheduler decides with counts only; it never sees a tensor. Lesson 08 builds it for
memory that never runs out (ample.py), lesson 09 what is done when it does (preemption.py).
(Paper: section 4.5. vLLM: v1/core/sched/scheduler.py.)
"""

import math
import time

from minipaged.arguments import PREEMPTION, watermark_of, whole
from minipaged.events import Admitted, Arrived, KeptWaiting, Preempted, Refused, Scheduled
from minipaged.serving import preemption as own_rules
from minipaged.serving.group import (
    blocks_wanted,
    extra_blocks_for,
    num_computed,
    num_known,
    preempt_group,
    refused,
    resident,
    resume_group,
    rows_of,
    unfinished,
)
from minipaged.serving.ledger import Ledger
from minipaged.serving.plan import Plan, new_row
from minipaged.serving.sequence import Status


class Scheduler(Ledger):
    """First come, first served over one waiting queue and one list of running requests, oldest first.

    max_num_seqs: the most sequences that run together. max_num_batched_tokens: the budget, tokens computed in one step;
    at least max_num_seqs, so that every running sequence that has caught up gets its token in every step. preemption:
    what becomes of the blocks of who must yield: "recompute" drops them, "swap" copies them to the memory's host pool
    and back, as long as that has room. watermark: the share of the pool that stays free when a request enters while
    others run, so that these find blocks to go on. clock: gives the seconds of the timelines. parts: has
    `choose_victim`, `preempt` and `resume`, called in the place of those in preemption.py. The victim must have no row
    in this step yet: the newest never has.

    Raises ValueError for a value that isn't allowed.
    """

    def __init__(
        self,
        memory,
        max_num_seqs=64,
        max_num_batched_tokens=512,
        preemption="recompute",
        watermark=0.0,
        clock=time.monotonic,
        parts=own_rules,
    ):
        whole("max_num_seqs", max_num_seqs, least=1)
        if whole("max_num_batched_tokens", max_num_batched_tokens, least=0) < max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens={max_num_batched_tokens}: must be at least max_num_seqs={max_num_seqs}, "
                "so that every running sequence can get a token in every step"
            )
        if preemption not in PREEMPTION:
            raise ValueError(f"preemption={preemption!r}: must be one of {', '.join(PREEMPTION)}")
        if preemption == "swap" and memory.host is None:
            raise ValueError("preemption='swap': there is no host pool to swap to (num_host_blocks=0)")
        super().__init__(memory, clock)
        self.max_num_seqs, self.max_num_batched_tokens = max_num_seqs, max_num_batched_tokens
        self.swaps, self._reserve = preemption == "swap", math.ceil(watermark_of(watermark) * memory.num_blocks)
        self._parts = parts

    def add(self, request):
        """Put a request at the end of the queue. Raises ValueError, with nothing added, if it can never run."""
        facts = request.request_id, request.num_prompt_tokens, request.max_tokens
        if refusal := refused(request, self.memory, self.max_num_seqs):
            self._note(Refused, *facts, *refusal[1:])
            raise ValueError(refusal[0])
        self.waiting.append(request)
        request.timeline.arrival = self.clock()
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

        # Who continues: the running, oldest first.
        num_served = 0
        while num_served < len(self.running):
            more, budget = self._grant(plan, self.running[num_served:], budget)
            num_served += more
            if num_served < len(self.running):
                # Who must yield: too few blocks are free, so the newest. If that was another, this one asks again.
                preempted, needed_by = True, self.running[num_served].request_id
                self._preempt(plan, self._parts.choose_victim(self.running), needed_by)

        # Who may enter: the waiting in order, none past the head. After a preemption nobody: the head is who yielded.
        while self.waiting and not preempted and self._admit(plan, self.waiting[0], budget):
            _, budget = self._grant(plan, self.running[-1:], budget)
        if preempted:
            self._note(KeptWaiting, self.waiting[0].request_id, "preemption", 0, self.memory.allocator.num_free)

        plan.handed_out, plan.released = self.memory.take_moved()
        return plan

    def _grant(self, plan, requests, budget):
        """Give running requests slots, one after the other, for as many of their tokens as the budget allows.

        Returns how many have theirs, which is all of them unless the pool has too few free blocks for the next one, and
        what is left of the budget.
        """
        # Every running sequence comes by here in every step, so what the loop uses is looked up once, before it.
        rows, due, grow, log = plan.rows, plan.due, self.memory.grow_one, self.log
        for number, request in enumerate(requests):
            sequences = request.sequences
            if len(sequences) > 1:
                left = self._grant_group(plan, request, budget)
                if left is None:
                    return number, budget
                budget = left
                continue
            sequence = sequences[0]
            start, total = sequence.num_computed_tokens, len(sequence.token_ids)
            num_tokens = total - start
            if num_tokens > budget:
                num_tokens = budget
            copies = grow(sequence.name, num_tokens)
            if copies is None:
                return number, budget
            if copies:
                plan.copies += copies
            budget -= num_tokens
            rows.append(new_row((sequence, start, num_tokens)))
            if start + num_tokens == total:
                due.append(sequence)
            if log is not None:  # not through _note, here and in commit: these two are nearly all events there are
                log.append(Scheduled(sequence.name, start, num_tokens, total, request.num_prompt_tokens))
        return len(requests), budget

    def _grant_group(self, plan, request, budget):
        """The same for a request with several sequences: all of them get their slots together, or none does.

        Returns what is left of the budget, or None, with nothing changed, if the pool has too few free blocks.
        """
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
        num_free, num_running = self.memory.allocator.num_free, sum(each.num_sequences for each in self.running)
        needed, reason = blocks_wanted(request, self.memory.block_size), None  # why it must wait
        if num_running + request.num_sequences > self.max_num_seqs:
            reason = "max_num_seqs"
        elif budget < max(1, len(resident(request))):  # who comes back from the host pool has all its sequences at once
            reason = "budget"
        elif len(plan.rows) > len(plan.due):  # so that only the last of the running can be in the middle of its prompt
            reason = "catching up"
        elif not self._resume(plan, request):
            reason = "blocks"
        if reason is not None:
            self._note(KeptWaiting, request.request_id, reason, needed if reason == "blocks" else 0, num_free)
            return False
        if request.timeline.first_scheduled is None:
            request.timeline.first_scheduled = self.clock()
        num_cached = unfinished(request)[0].num_computed_tokens
        if request.status is not Status.SWAPPED:
            request.found(num_cached)
            request.timeline.recomputed(num_cached)
        self.waiting.popleft()
        self.running.append(request)
        request.status = Status.RUNNING
        self._note(Admitted, request.request_id, num_known(request), num_cached, needed, num_free)
        return True

    def _resume(self, plan, request):
        """Ask the memory for room for all its known tokens; what the others of a group need is taken when they are
        forked. Returns whether there is."""
        reserve = self._reserve if self.running else 0  # alone it leaves nobody without blocks
        extra_blocks = extra_blocks_for(request, self.memory.block_size) + reserve
        if len(request.sequences) == 1:
            pairs = self._parts.resume(request.sequences[0], self.memory, extra_blocks)
        else:
            pairs = resume_group(request, self.memory, extra_blocks)
        if pairs is None:
            return False
        plan.swap_in += pairs
        request.timeline.num_swapped_blocks += len(pairs)
        return True

    def _preempt(self, plan, request, needed_by):
        """Take all its blocks from a running request. It keeps its tokens, and waits at the front of the queue."""
        num_dropped = num_computed(request)
        self._note(Preempted, request.request_id, needed_by, num_dropped, self.memory.allocator.num_free)
        if len(request.sequences) == 1:
            pairs = self._parts.preempt(request.sequences[0], self.memory, self.swaps)
        else:
            pairs = preempt_group(request, self.memory, self.swaps)
        request.status = Status.SWAPPED if pairs else Status.PREEMPTED
        request.timeline.preempted(0 if pairs else num_dropped, len(pairs))
        plan.swap_out += pairs
        self.running.remove(request)
        self.waiting.appendleft(request)
