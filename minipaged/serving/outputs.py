"""What a user gets back. Names are vLLM's (outputs.py)."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from minipaged.serving.beam_search import score
from minipaged.serving.stopping import first_stop, settled
from minipaged.serving.timeline import Timeline


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
    if asked for, for each generated token a dict of token id -> Logprob: its own and the likeliest ones. token_times:
    when each came, in seconds of the clock that the request's timeline is told in.
    """

    index: int
    text: str | None
    token_ids: list
    cumulative_logprob: float
    finish_reason: str | None
    stop_reason: str | None = None
    logprobs: list | None = None
    token_times: list | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RequestOutput:
    """A request and its answers, SamplingParams.n of them in order. prompt is None if token ids were given, a text is
    None if the engine has no tokenizer. num_cached_tokens: of the prompt's, found in the prefix cache when the request
    first entered, so neither computed nor stored again; None while it waits. timeline: when it arrived, entered and
    ended, and what the shortage of memory cost it."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list
    outputs: list
    finished: bool
    num_cached_tokens: int | None = None
    timeline: Timeline | None = field(default=None, compare=False)  # outputs are equal whenever they say the same

    @classmethod
    def of(cls, request, tokenizer):
        """What a serving.sequence.Request has come to."""
        outputs = [completion(sequence, tokenizer) for sequence in request.sequences]
        finished = all(sequence.finish_reason for sequence in request.sequences)
        return cls(
            request.request_id,
            request.prompt,
            list(request.prompt_token_ids),
            outputs,
            finished,
            request.num_cached_tokens,
            replace(request.timeline),
        )


@dataclass(frozen=True)
class BeamSearchSequence:
    """One answer of a beam search.

    text, token_ids, cumulative_logprob and finish_reason are as in CompletionOutput: of the answer alone, with the end
    of text among the token_ids if that ended it. (vLLM's text has the prompt in front.) score: what answers are
    compared by, cumulative_logprob / len(token_ids) ** length_penalty. tokens: prompt and answer, as in vLLM.
    """

    text: str | None
    token_ids: list
    tokens: list
    cumulative_logprob: float
    score: float
    finish_reason: str | None
    stop_reason: str | None = None

    @property
    def cum_logprob(self):
        """vLLM's name for cumulative_logprob."""
        return self.cumulative_logprob


@dataclass(frozen=True)
class BeamSearchOutput:
    """A prompt and the answers that a beam search has found, beam_width of them, the one with the best score first.

    While the search goes on, they are the best of those found and those still followed. The rest is as in
    RequestOutput.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list
    sequences: list
    finished: bool
    num_cached_tokens: int | None = None
    timeline: Timeline | None = field(default=None, compare=False)

    @property
    def outputs(self):
        """The sequences, under RequestOutput's name for them."""
        return self.sequences

    @classmethod
    def of(cls, request, tokenizer):
        """What the beam search of a serving.sequence.Request has come to."""
        found = [sequence for sequence in request.sequences if sequence.finish_reason != "dropped"]
        # Of equal ones, those that were found first; those of one step in the order of their token ids.
        found.sort(key=lambda sequence: (-score(sequence), sequence.num_output_tokens, sequence.token_ids))
        best = []
        for sequence in found[: request.params.beam_width]:
            answer = completion(sequence, tokenizer)
            facts = answer.cumulative_logprob, score(sequence), answer.finish_reason
            best.append(BeamSearchSequence(answer.text, answer.token_ids, list(sequence.token_ids), *facts))
        finished = all(sequence.finish_reason for sequence in request.sequences)
        return cls(
            request.request_id,
            request.prompt,
            list(request.prompt_token_ids),
            best,
            finished,
            request.num_cached_tokens,
            replace(request.timeline),
        )


def output_of(request, tokenizer):
    """What a request has come to, for its user: a RequestOutput, or a BeamSearchOutput."""
    return (BeamSearchOutput if request.is_beam_search else RequestOutput).of(request, tokenizer)


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
    return CompletionOutput(
        sequence.index, text, token_ids, sequence.cumulative_logprob, *ending, logprobs, list(sequence.token_times)
    )


def with_texts(facts, tokenizer):
    """{token: (logprob, rank)} -> {token: Logprob}."""
    return {
        token: Logprob(logprob, rank, tokenizer.decode([token]) if tokenizer else None)
        for token, (logprob, rank) in facts.items()
    }
