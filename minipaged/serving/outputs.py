"""What a user gets back. Names are vLLM's (outputs.py)."""

from dataclasses import dataclass
from typing import NamedTuple

from minipaged.serving.stopping import first_stop, settled


class Logprob(NamedTuple):
    """What the model thought of a token: the likeliest has rank 1. decoded_token is None without a tokenizer."""

    logprob: float
    rank: int
    decoded_token: str | None


@dataclass(frozen=True)
class CompletionOutput:
    """One answer, the index-th of its request's.

    text ends before the stop string that ended it, and while it grows, before anything that could still be taken back;
    token_ids are all that were generated. cumulative_logprob: of these tokens under the model itself. finish_reason:
    "stop", "length", "abort", or None while it grows. stop_reason: the stop string that ended it, if one did. logprobs:
    if asked for, for each generated token a dict of token id -> Logprob: its own and the likeliest ones.
    """

    index: int
    text: str | None
    token_ids: list
    cumulative_logprob: float
    finish_reason: str | None
    stop_reason: str | None = None
    logprobs: list | None = None


@dataclass(frozen=True)
class RequestOutput:
    """A request and its answers, SamplingParams.n of them in order. prompt is None if token ids were given, a text is
    None if the engine has no tokenizer."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list
    outputs: list
    finished: bool

    @classmethod
    def of(cls, request, tokenizer):
        """What a serving.sequence.Request has come to."""
        outputs = [completion(sequence, tokenizer) for sequence in request.sequences]
        finished = all(sequence.finish_reason for sequence in request.sequences)
        return cls(request.request_id, request.prompt, list(request.prompt_token_ids), outputs, finished)


def completion(sequence, tokenizer):
    token_ids, text = sequence.output_token_ids, None
    if tokenizer:
        text = tokenizer.decode(token_ids)
        stop_strings = sequence.request.params.stop_strings
        text = text[: first_stop(text, stop_strings)[0]] if sequence.finish_reason else settled(text, stop_strings)
    logprobs = None
    if sequence.request.params.logprobs is not None:
        logprobs = [with_texts(facts, tokenizer) for facts in sequence.logprobs]
    ending = sequence.finish_reason, sequence.stop_reason
    return CompletionOutput(sequence.index, text, token_ids, sequence.cumulative_logprob, *ending, logprobs)


def with_texts(facts, tokenizer):
    """{token: (logprob, rank)} -> {token: Logprob}."""
    return {
        token: Logprob(logprob, rank, tokenizer.decode([token]) if tokenizer else None)
        for token, (logprob, rank) in facts.items()
    }
