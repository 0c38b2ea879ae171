"""Why a sequence ends."""


def reason(sequence, token, eos_token_id):
    """Why `token` is the last of a sequence, which doesn't hold it yet: "stop" at the end of text, "length" where
    max_tokens or the context is reached. None if the sequence goes on.
    """
    request = sequence.request
    if token == eos_token_id and not request.params.ignore_eos:
        return "stop"
    if sequence.num_output_tokens + 1 >= request.max_tokens:
        return "length"
    return None
