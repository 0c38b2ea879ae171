"""Engine: the corridor that every step walks through, from the scheduler's plan to the tokens that came of it.

It decides nothing itself: it hands each stage what the one before made. Lesson 05 walks through one step.
"""

import math
import random
from dataclasses import dataclass
from itertools import count

import torch

from minipaged.events import Refused
from minipaged.serving import sampler, stopping
from minipaged.serving.batch import Batch
from minipaged.serving.outputs import output_of
from minipaged.serving.plan import Plan
from minipaged.serving.sequence import BeamSearchParams, Request, SamplingParams, Status, is_name_of


@dataclass(frozen=True)
class StepResult:
    """What one step planned, what happened since the step before, and which requests got a token in it."""

    plan: Plan
    events: list
    requests: list = ()
    tokenizer: object = None

    @property
    def outputs(self):
        """A RequestOutput for each request that got a token, as it stands when asked: most steps are never asked.
        For a beam search, a BeamSearchOutput."""
        return [output_of(request, self.tokenizer) for request in self.requests]


class Engine:
    """Runs requests through one model, one cache and one scheduler, a step at a time.

    tokenizer may be None: prompts are then lists of token ids, and there is no end of text. seed: where requests
    without a seed get theirs from. events: whether the facts of each step are collected. Raises ValueError if cache and
    memory differ in size.
    """

    def __init__(self, model, tokenizer, cache, scheduler, seed=0, events=True):
        self.model, self.tokenizer, self.cache, self.scheduler = model, tokenizer, cache, scheduler
        self.memory = scheduler.memory
        if (cache.num_blocks, cache.block_size) != (self.memory.num_blocks, self.memory.block_size):
            raise ValueError(
                f"a cache of {cache.num_blocks} blocks of {cache.block_size} for a memory of {self.memory.num_blocks} "
                f"blocks of {self.memory.block_size}: they must be the same"
            )
        self.max_model_len, self.vocab_size = model.config.max_model_len, model.config.vocab_size
        self.log = scheduler.log = self.memory.log = [] if events else None
        self._requests = {}  # the unfinished ones, by request_id
        self._names = map(str, count())  # for requests that come without one
        self._num_added = 0
        self._seed = seed

    def add(self, prompt, params=None, request_id=None):
        """Queue a request. prompt: a text, a list of token ids, {"prompt": text} or {"prompt_token_ids": ids}.
        params: SamplingParams or BeamSearchParams.

        Returns its request_id. Raises ValueError, with nothing added, for a wrong prompt or wrong params, a request_id
        in use, a prompt that fills the context, more answers than may run together, or more tokens than the pool can
        hold; the last three are events too (Refused).
        """
        num_names = num_names_for(params)
        if request_id is None:
            request_id = next(name for name in self._names if not self._in_use(name, num_names))
        if not (isinstance(request_id, str) and request_id):
            raise ValueError(f"request_id={request_id!r}: must be a text of at least 1 character")
        if name := self._in_use(request_id, num_names):
            why = "" if name == request_id else f": {name!r}, as one of its sequences would be called"
            raise ValueError(f"request_id={request_id!r} is in use by an unfinished request{why}")
        request = self._request(prompt, params, request_id, self.log)
        self.scheduler.add(request)
        self._requests[request_id] = request
        self._num_added += 1
        return request_id

    def check(self, prompt, params=None):
        """Raise the ValueError that `add` would raise for a wrong prompt or one that can never run, and add nothing."""
        self.scheduler.check(self._request(prompt, params, "", log=None))

    def _in_use(self, request_id, num_names):
        """A name that a request with so many sequences would give and that an unfinished one has given, or None."""
        if request_id in self._requests:
            return request_id
        group = self._requests.get(request_id.rpartition(".")[0])  # of B.2: B, one of whose sequences it may be
        if group and is_name_of(request_id, group.request_id, num_names_for(group.params)):
            return request_id
        taken = self._requests if num_names > 1 else ()
        return next((name for name in taken if is_name_of(name, request_id, num_names)), None)

    def _request(self, prompt, params, request_id, log):
        """The Request that a prompt stands for. Where the prompt fills the context, ValueError is raised and noted."""
        params = SamplingParams() if params is None else params
        if not isinstance(params, (SamplingParams, BeamSearchParams)):
            raise ValueError(f"params={params!r}: must be a SamplingParams or a BeamSearchParams")
        token_ids = self.encode(prompt)
        if params.stop_strings and self.tokenizer is None:
            raise ValueError(f"stop={params.stop!r}: this engine has no tokenizer, so it can't see texts")
        if params.logprobs is not None and params.logprobs > self.vocab_size:
            raise ValueError(f"logprobs={params.logprobs}: at most {self.vocab_size}, the size of the vocabulary")
        if isinstance(params, BeamSearchParams) and params.beam_width > self.vocab_size:
            raise ValueError(f"beam_width={params.beam_width}: at most {self.vocab_size}, the size of the vocabulary")
        num_left = self.max_model_len - len(token_ids)
        if num_left <= 0:
            if log is not None:
                facts = (len(token_ids), params.max_tokens, "context", len(token_ids) + 1, self.max_model_len)
                log.append(Refused(request_id, *facts))
            raise ValueError(
                f"the prompt has {len(token_ids)} tokens: at most {self.max_model_len - 1} leave room for an answer "
                f"in the model's context of {self.max_model_len}"
            )
        seed = params.seed
        if seed is None:
            seed = random.Random(f"{self._seed}/{self._num_added}").getrandbits(63)
        text = prompt.get("prompt") if isinstance(prompt, dict) else prompt
        text = text if isinstance(text, str) else None
        return Request(request_id, text, token_ids, params, min(params.max_tokens, num_left), seed)

    def encode(self, prompt):
        """A prompt of any form -> a list of token ids. Raises ValueError if it is empty or out of range."""
        if isinstance(prompt, dict) and len(prompt) == 1:
            prompt = prompt.get("prompt_token_ids", prompt.get("prompt", prompt))
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise ValueError(f"prompt={prompt!r}: this engine has no tokenizer, give a list of token ids")
            if not prompt.isascii() and any("\ud800" <= char <= "\udfff" for char in prompt):
                raise ValueError(f"prompt={prompt!r}: must be a text without surrogates, which no encoding has")
            prompt = self.tokenizer.encode(prompt)
        if not isinstance(prompt, (list, tuple)):
            forms = 'a text, a list of token ids, {"prompt": text} or {"prompt_token_ids": ids}'
            raise ValueError(f"prompt={prompt!r}: must be {forms}")
        if not prompt:
            raise ValueError("the prompt is empty: at least 1 token is needed")
        for token in prompt:
            if type(token) is not int or not 0 <= token < self.vocab_size:
                raise ValueError(f"token id {token!r}: must be an integer from 0 to {self.vocab_size - 1}")
        return list(prompt)

    @torch.inference_mode()
    def step(self):
        """Run one step for all that can run. Returns a StepResult; with nothing to do its plan has no rows.

        Raises whatever the model or the sampler raises (FloatingPointError for NaN). No token is lost then: every
        request is queued again, and what the cache held of it is computed anew.
        """
        unfinished, marks, num_events = dict(self._requests), [], 0
        try:
            plan = self.scheduler.schedule()
            self.cache.apply(plan)
            if not plan.rows:
                return StepResult(plan, self._take_events())
            batch = Batch.build(plan, self.memory)
            logits = self.model(batch, self.cache)
            continuations = sampler.choose(plan, logits, self.tokenizer)
            reasons = [stopping.reason(each.parent, each.token, self.tokenizer) for each in continuations]
            requests = list(dict.fromkeys(sequence.request for sequence in plan.due))
            marks, num_events = [(request, request.mark()) for request in requests], len(self.log or ())
            self.scheduler.commit(plan, continuations, reasons)
            for request in requests:
                if request.status is Status.FINISHED:
                    del self._requests[request.request_id]
        except BaseException:  # an error, or Ctrl-C: nothing of this step counts
            self._undo(unfinished, marks, num_events)
            raise
        return StepResult(plan, self._take_events(), requests, self.tokenizer)

    def _undo(self, unfinished, marks, num_events):
        """A step broke off: who was unfinished is so again, without the tokens and forks that it may have had."""
        self._requests = unfinished
        for request, mark in marks:
            request.go_back_to(mark)
        if marks and self.log is not None:
            del self.log[num_events:]  # what commit told of has not happened
        self.scheduler.start_over(unfinished.values())

    def _take_events(self):
        if self.log is None:
            return []
        events = list(self.log)
        self.log.clear()
        return events

    def abort(self, request_id):
        """Take a request away, in whatever state it is. Returns False if it isn't there, or no longer.

        Raises ValueError for a request_id that is no text.
        """
        if not isinstance(request_id, str):
            raise ValueError(f"request_id={request_id!r}: must be a text")
        request = self._requests.pop(request_id, None)
        if request is not None:
            self.scheduler.abort(request)
        return request is not None

    def clear(self):
        """Take all requests away. It holds even where a step was interrupted halfway."""
        self._requests.clear()
        self.scheduler.start_over([])

    def has_unfinished(self):
        return bool(self._requests)


def num_names_for(params):
    """How many sequences such a request may come to have, all in all: each of them has a name of its own."""
    if isinstance(params, BeamSearchParams) and params.beam_width > 1:
        return math.inf  # every fork is a new one
    return params.n if isinstance(params, SamplingParams) else 1
