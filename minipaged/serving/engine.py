"""Engine: the corridor that every step walks through, from the scheduler's plan to the tokens that came of it.

It decides nothing itself: it hands each stage what the one before made. Lesson 05 walks through one step.
"""

import random
from dataclasses import dataclass
from itertools import count

import torch

from minipaged.events import Refused
from minipaged.serving import sampler, stopping
from minipaged.serving.batch import Batch
from minipaged.serving.outputs import RequestOutput
from minipaged.serving.plan import Plan
from minipaged.serving.sequence import Request, SamplingParams


@dataclass(frozen=True)
class StepResult:
    """What one step planned, what happened since the step before, and the requests that are finished with it."""

    plan: Plan
    events: list
    outputs: list


class Engine:
    """Runs requests through one model, one cache and one scheduler, a step at a time.

    tokenizer may be None: prompts are then lists of token ids, and there is no end of text. seed: where requests
    without a seed get theirs from. events: whether the facts of each step are collected.
    """

    def __init__(self, model, tokenizer, cache, scheduler, seed=0, events=True):
        self.model, self.tokenizer, self.cache, self.scheduler = model, tokenizer, cache, scheduler
        self.memory = scheduler.memory
        self.max_model_len, self.vocab_size = model.config.max_model_len, model.config.vocab_size
        self.log = scheduler.log = self.memory.log = [] if events else None
        self._requests = {}  # the unfinished ones, by request_id
        self._num_added = 0
        self._seed = seed

    def add(self, prompt, params=None, request_id=None):
        """Queue a request: prompt is a text or a list of token ids. Returns its request_id.

        Raises ValueError, with nothing added, for a wrong prompt and for what can never run: a prompt that fills the
        context, or more tokens than the pool can hold.
        """
        params = params or SamplingParams()
        if request_id is None:
            request_id = self._free_name()
        if request_id in self._requests:
            raise ValueError(f"request_id={request_id!r} is in use by an unfinished request")
        token_ids = self.encode(prompt)
        num_left = self.max_model_len - len(token_ids)
        if num_left <= 0:
            if self.log is not None:
                facts = (len(token_ids), params.max_tokens, "context", len(token_ids) + 1, self.max_model_len)
                self.log.append(Refused(request_id, *facts))
            raise ValueError(
                f"request {request_id!r} has a prompt of {len(token_ids)} tokens: at most {self.max_model_len - 1} "
                f"leave room for an answer in the model's context of {self.max_model_len}"
            )
        max_tokens = min(params.max_tokens, num_left)
        text = prompt if isinstance(prompt, str) else None
        seed = params.seed
        if seed is None:
            seed = random.Random(f"{self._seed}/{self._num_added}").getrandbits(63)
        request = Request(request_id, text, token_ids, params, max_tokens, seed)
        self.scheduler.add(request)
        self._requests[request_id] = request
        self._num_added += 1
        return request_id

    def _free_name(self):
        """The number of requests added so far, or the next one that no unfinished request has as its name."""
        return next(name for name in map(str, count(self._num_added)) if name not in self._requests)

    def encode(self, prompt):
        """A text or a list of token ids -> a list of token ids. Raises ValueError if it is empty or out of range."""
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise ValueError(f"prompt={prompt!r}: this engine has no tokenizer, give a list of token ids")
            prompt = self.tokenizer.encode(prompt)
        if not isinstance(prompt, (list, tuple)):
            raise ValueError(f"prompt={prompt!r}: must be a text or a list of token ids")
        if not prompt:
            raise ValueError("the prompt is empty: at least 1 token is needed")
        for token in prompt:
            if type(token) is not int or not 0 <= token < self.vocab_size:
                raise ValueError(f"token id {token!r}: must be an integer from 0 to {self.vocab_size - 1}")
        return list(prompt)

    @torch.inference_mode()
    def step(self):
        """Run one step for all that can run. Returns a StepResult; with nothing to do its plan has no rows.

        Raises whatever the model raises; the step is undone then, and can be taken again.
        """
        plan = self.scheduler.schedule()
        try:
            self.cache.apply(plan)
            if not plan.rows:
                return StepResult(plan, self._take_events(), [])
            batch = Batch.build(plan, self.memory)
            logits = self.model(batch, self.cache)
            continuations = sampler.choose(plan, logits)
        except BaseException:  # an error, or Ctrl-C while the model computes: nothing of this step counts
            self.scheduler.give_up_step()
            raise
        eos_token_id = self.tokenizer.eos_token_id if self.tokenizer else None
        reasons = [stopping.reason(each.parent, each.token, eos_token_id) for each in continuations]
        self.scheduler.commit(plan, continuations, reasons)
        finished = [each.parent.request.request_id for each, reason in zip(continuations, reasons) if reason]
        outputs = [RequestOutput.of(self._requests.pop(request_id), self.tokenizer) for request_id in finished]
        return StepResult(plan, self._take_events(), outputs)

    def _take_events(self):
        if self.log is None:
            return []
        events = list(self.log)
        self.log.clear()
        return events

    def abort(self, request_id):
        """Take a request away, in whatever state it is. Returns False if it isn't there, or no longer."""
        request = self._requests.pop(request_id, None)
        if request is not None:
            self.scheduler.abort(request)
        return request is not None

    def has_unfinished(self):
        return bool(self._requests)
