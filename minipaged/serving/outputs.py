"""What a user gets back. Names are vLLM's (outputs.py)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CompletionOutput:
    """One answer. finish_reason: "stop" (end of text) or "length"."""

    index: int
    text: str | None
    token_ids: list
    finish_reason: str | None


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
        outputs = []
        for sequence in request.sequences:
            token_ids = sequence.output_token_ids
            text = tokenizer.decode(token_ids) if tokenizer else None
            outputs.append(CompletionOutput(sequence.index, text, token_ids, sequence.finish_reason))
        finished = all(sequence.finish_reason for sequence in request.sequences)
        return cls(request.request_id, request.prompt, request.prompt_token_ids, outputs, finished)
