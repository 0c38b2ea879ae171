"""Why a sequence ends."""


def reason(sequence, token, eos_token_id):
    """Is `token` the last of a sequence? "stop" for the end of text, "length" where max_tokens or the context is
    reached, None if it goes on. `sequence` doesn't hold the token yet.
    """
    request = sequence.request
    if token == eos_token_id and not request.params.ignore_eos:
        return "stop"
    if sequence.num_tokens + 1 - request.num_prompt_tokens >= request.max_tokens:
        return "length"
    return None
