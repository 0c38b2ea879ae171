"""Why a sequence ends, and what of its text is the answer.

(vLLM: check_stop in v1/core/sched/utils.py, check_stop_strings in v1/engine/detokenizer.py.)
"""


def reason(sequence, token, tokenizer):
    """Why `token`, which a sequence doesn't hold yet, is its last: (finish_reason, stop_reason), or (None, None).

    "stop" at the end of text and where a stop string is complete (that text is the stop_reason), "length" where
    max_tokens or the context is reached. A stop string may begin in one token and end in another. tokenizer may be
    None.
    """
    request = sequence.request
    if tokenizer and token == tokenizer.eos_token_id and not request.params.ignore_eos:
        return "stop", None
    if request.params.stop_strings:
        text = tokenizer.decode([*sequence.output_token_ids, token])
        _, stop = first_stop(text, request.params.stop_strings)
        if stop is not None:
            return "stop", stop
    if len(sequence.token_ids) + 1 - len(request.prompt_token_ids) >= request.max_tokens:
        return "length", None
    return None, None


def first_stop(text, stop_strings):
    """(where it begins, which) of the stop string that appears first in a text; (len(text), None) if none does."""
    found = [(text.find(stop), stop) for stop in stop_strings if stop in text]
    return min(found, default=(len(text), None))


def settled(text, stop_strings):
    """As much of an unfinished text as no later token can change or take back.

    U+FFFD at the end may be the first bytes of a character whose last ones are still to come, and an end that
    begins a stop string may turn out to be one.
    """
    text = text.rstrip("\ufffd")
    ends = [len(text)]
    for stop in stop_strings:
        lengths = range(min(len(stop), len(text)), 0, -1)
        ends += [len(text) - length for length in lengths if text.endswith(stop[:length])]
    return text[: min(ends)]
