"""What a user gets back. Names are vLLM's (outputs.py)."""

from dataclasses import dataclass

from minipaged.serving.stopping import first_stop


@dataclass(frozen=True)
class CompletionOutput:
    """One answer.

    text ends before the stop text that ended it; token_ids are all that were generated. cumulative_logprob: of these
    tokens under the model itself. finish_reason: "stop", "length", or None while it grows. stop_reason: the stop text
    that ended it, if one did.
    """

    index: int
    text: str | None
    token_ids: list
    cumulative_logprob: float
    finish_reason: str | None
    stop_reason: str | None = None


@dataclass(frozen=True)
class RequestOutput:
    """A request and its answers: one, for now. prompt is None if token ids were given, a text is None if the engine
    has no tokenizer."""

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
        return cls(request.request_id, request.prompt, request.prompt_token_ids, outputs, finished)


def completion(sequence, tokenizer):
    token_ids, text = sequence.output_token_ids, None
    if tokenizer:
        text = tokenizer.decode(token_ids)
        text = text[: first_stop(text, sequence.request.params.stop_texts)[0]]
    return CompletionOutput(
        sequence.index, text, token_ids, sequence.cumulative_logprob, sequence.finish_reason, sequence.stop_reason
    )
