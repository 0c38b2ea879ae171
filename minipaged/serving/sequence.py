"""What is asked for and how far it has come: SamplingParams or BeamSearchParams, Request, Sequence and its Status.

Plain records. Nothing here decides anything; the scheduler moves sequences along. (vLLM: v1/request.py.)
"""

import re
from dataclasses import dataclass, field
from enum import Enum

from minipaged.arguments import real, whole
from minipaged.serving.timeline import Timeline


class Status(str, Enum):
    """Where a request stands. Waiting, preempted and swapped requests share one queue."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"  # its blocks are dropped
    SWAPPED = "swapped"  # they are in the host pool
    FINISHED = "finished"


@dataclass(frozen=True)
class SamplingParams:
    """How to choose tokens and when to stop. Names and defaults are vLLM's.

    temperature: 0 takes the likeliest token (greedy); larger values flatten the distribution. top_p: draw from the
    likeliest tokens that together have this probability. top_k: draw from the k likeliest; 0 or -1: from all. Both
    act on what the temperature has made, top_k first. seed: makes a request's draws repeatable whatever else is in
    the batch; None: the engine gives one. max_tokens: the most tokens to generate. ignore_eos: go on after the end of
    text. stop: a text, or several, that ends the generation where it first appears; it is not part of the answer.
    logprobs: tell, for each generated token, its log-probability and those of so many likeliest ones; None: don't.
    n: so many answers to one prompt, which is computed once; they differ only by chance, so n > 1 needs a temperature.

    Raises ValueError for a value that isn't allowed.
    """

    temperature: float = 1.0
    seed: int | None = None
    max_tokens: int = 16
    ignore_eos: bool = False
    top_p: float = 1.0
    top_k: int = 0
    stop: str | list | None = None
    logprobs: int | None = None
    n: int = 1
    stop_strings: tuple = field(init=False, repr=False, compare=False)  # `stop` as a tuple

    def __post_init__(self):
        temperature = real(
            "temperature", self.temperature, lambda number: number >= 0, "0 (greedy) or a positive number"
        )
        whole("max_tokens", self.max_tokens, least=1)
        if self.seed is not None:
            whole("seed", self.seed, least=0, most=2**63 - 1)
        top_p = real("top_p", self.top_p, lambda number: 0 < number <= 1, "a number above 0 and at most 1")
        whole("top_k", self.top_k, least=-1)
        if self.logprobs is not None:
            whole("logprobs", self.logprobs, least=0)
        if whole("n", self.n, least=1) > 1 and temperature == 0:
            raise ValueError(f"n={self.n} with temperature=0: greedy answers would all be the same, so n must be 1")
        given = [] if self.stop is None else self.stop
        stop_strings = tuple(given) if isinstance(given, (list, tuple)) else (given,)
        for text in stop_strings:
            if not (isinstance(text, str) and text):
                raise ValueError(f"stop={self.stop!r}: must be a text or a list of texts, none of them empty")
        # Kept as they were checked, whatever becomes of the list. (That is how a frozen dataclass sets its fields.)
        for name, value in {"temperature": temperature, "top_p": top_p, "stop_strings": stop_strings}.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class BeamSearchParams:
    """Look for the likeliest answers instead of drawing one. Names are vLLM's.

    beam_width: how many beginnings of an answer are followed at a time, and how many answers there are in the end.
    max_tokens, ignore_eos: as in SamplingParams. length_penalty: the score of an answer is the sum of its tokens'
    log-probabilities divided by (their number to this power); 0: the sum itself; the larger, the better for long ones.

    Nothing is drawn, so there is no temperature. Raises ValueError for a value that isn't allowed.
    """

    beam_width: int
    max_tokens: int
    ignore_eos: bool = field(default=False, kw_only=True)
    length_penalty: float = field(default=1.0, kw_only=True)

    stop_strings, logprobs, seed = (), None, None  # SamplingParams has them; here there are none

    def __post_init__(self):
        whole("beam_width", self.beam_width, least=1)
        whole("max_tokens", self.max_tokens, least=1)
        # To the power of 32, any length is a number that a float can hold.
        penalty = real(
            "length_penalty", self.length_penalty, lambda number: abs(number) <= 32, "a number from -32 to 32"
        )
        object.__setattr__(self, "length_penalty", penalty)

    @property
    def n(self):
        """How many sequences such a request has at a time, as SamplingParams.n."""
        return self.beam_width


def sequence_name(request_id, index, num_sequences):
    """A for a request with one sequence; A.1, A.2, ... where there can be several (the paper's A1, A2)."""
    return request_id if num_sequences == 1 else f"{request_id}.{index + 1}"


def is_name_of(name, request_id, num_names):
    """Could one of a request's sequences be called so? num_names: how many it may come to have; without end, inf."""
    head, _, number = name.rpartition(".")
    if num_names == 1 or head != request_id:
        return False
    return bool(re.fullmatch("[1-9][0-9]{0,9}", number)) and int(number) <= num_names


@dataclass(eq=False, slots=True)
class Sequence:
    """One run of tokens: the prompt, then what was generated.

    num_computed_tokens counts the tokens whose K and V are in the cache. The newest sampled token is not among them:
    its K and V are written by the next step. So num_tokens - num_computed_tokens is what is left to compute: 1 while it
    decodes, more for a prompt that isn't finished yet and after a preemption.
    """

    request: "Request" = field(repr=False)
    index: int  # among the request's sequences, from 0
    token_ids: list
    num_computed_tokens: int = 0
    cumulative_logprob: float = 0.0  # of the generated tokens, under the model itself
    logprobs: list = field(default_factory=list)  # if asked for: Continuation.logprobs of each generated token
    token_times: list = field(default_factory=list)  # when each generated token came, on the scheduler's clock
    finish_reason: str | None = None  # "stop", "length", "abort", or "dropped": others were preferred to it
    stop_reason: str | None = None  # the text that stopped it, if one did
    name: str = field(init=False)  # what the memory and the events call this sequence

    def __post_init__(self):
        self.name = self.request.name_of(self.index)

    def mark(self):
        """How far it has come, for go_back_to."""
        return self.num_tokens, len(self.logprobs), self.cumulative_logprob, self.finish_reason, self.stop_reason

    def go_back_to(self, mark):
        """Take back the tokens that came after a mark was made. What is computed is left to Scheduler.start_over."""
        num_tokens, num_logprobs, self.cumulative_logprob, self.finish_reason, self.stop_reason = mark
        del self.token_ids[num_tokens:], self.logprobs[num_logprobs:], self.token_times[self.num_output_tokens :]

    @property
    def num_tokens(self):
        return len(self.token_ids)

    @property
    def num_output_tokens(self):
        return self.num_tokens - self.request.num_prompt_tokens

    @property
    def num_tokens_left(self):
        """The most that it may still generate."""
        return self.request.max_tokens - self.num_output_tokens

    @property
    def output_token_ids(self):
        return self.token_ids[self.request.num_prompt_tokens :]


@dataclass(eq=False, slots=True)
class Request:
    """What a user asked for, and the sequences that answer it.

    There is one at first, with the prompt; each further one begins as a fork of another. In a beam search these may be
    far more than run at a time: the others are finished, most of them "dropped". max_tokens is the parameters'
    number, cut where the model's context ends. seed is theirs, or one that the engine gave. num_cached_tokens: how many
    of the prompt's were found in the prefix cache when it first entered; None before.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list
    params: SamplingParams | BeamSearchParams
    max_tokens: int
    seed: int
    status: Status = Status.WAITING
    timeline: Timeline = field(default_factory=Timeline, repr=False)
    num_cached_tokens: int | None = None
    sequences: list = field(init=False)

    def __post_init__(self):
        self.sequences = [Sequence(self, 0, list(self.prompt_token_ids))]

    def name_of(self, index):
        """The name of one of its sequences."""
        return sequence_name(self.request_id, index, self.num_sequences)

    def fork(self, parent):
        """Add a sequence that has come as far as `parent` has. Its blocks are the memory's business. Returns it."""
        child = Sequence(self, len(self.sequences), list(parent.token_ids))
        child.cumulative_logprob, child.logprobs = parent.cumulative_logprob, list(parent.logprobs)
        child.token_times = list(parent.token_times)
        self.sequences.append(child)
        return child

    def found(self, num_cached_tokens):
        """It enters, and so many of its tokens are cached. Only the first time counts: later ones are its own work."""
        if self.num_cached_tokens is None:
            self.num_cached_tokens = num_cached_tokens

    def mark(self):
        """How far all its sequences have come, for go_back_to."""
        return [sequence.mark() for sequence in self.sequences]

    def go_back_to(self, marks):
        """Take back what came after the marks were made: forks, and tokens."""
        del self.sequences[len(marks) :]
        self.timeline.finish = None
        for sequence, mark in zip(self.sequences, marks):
            sequence.go_back_to(mark)

    @property
    def is_beam_search(self):
        return isinstance(self.params, BeamSearchParams)

    @property
    def num_sequences(self):
        """How many sequences it may have at a time."""
        return self.params.n

    @property
    def num_prompt_tokens(self):
        return len(self.prompt_token_ids)
