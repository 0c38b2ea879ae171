"""Why a sequence ends, and what of its text is the answer."""


def reason(sequence, token, tokenizer):
    """Why `token`, which a sequence doesn't hold yet, is its last: (finish_reason, stop_reason), or (None, None).

    "stop" at the end of text and where a stop text is complete (that text is the stop_reason), "length" where
    max_tokens or the context is reached. A stop text may begin in one token and end in another. tokenizer may be
    None.
    """
    request = sequence.request
    if tokenizer and token == tokenizer.eos_token_id and not request.params.ignore_eos:
        return "stop", None
    if request.params.stop_texts:
        text = tokenizer.decode([*sequence.output_token_ids, token])
        _, stop = first_stop(text, request.params.stop_texts)
        if stop is not None:
            return "stop", stop
    if sequence.num_output_tokens + 1 >= request.max_tokens:
        return "length", None
    return None, None


def first_stop(text, stop_texts):
    """(where it begins, which) of the stop text that appears first in a text; (len(text), None) if none does."""
    found = [(text.find(stop), stop) for stop in stop_texts if stop in text]
    return min(found, default=(len(text), None))
