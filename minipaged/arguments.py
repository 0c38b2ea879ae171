"""Arguments from outside, checked where they come in, so that a wrong one is named at once and not three calls
later."""

import operator


def whole(name, value, least):
    """`value` as an int. Raises ValueError unless it is a whole number, and at least `least`."""
    try:
        number = (
            None if isinstance(value, bool) else operator.index(value)
        )  # numpy's integers have an index, floats none
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(f"{name}={value!r}: must be a whole number, {least} or more")
    return number
