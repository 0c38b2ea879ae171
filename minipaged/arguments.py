"""Arguments from outside, checked where they come in, so that a wrong one is named at once and not three calls
later."""

import math
import operator


def whole(name, value, least):
    """`value` as an int. Raises ValueError unless it is a whole number, and at least `least`."""
    try:  # numpy's integers have an index, floats have none
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(f"{name}={value!r}: must be a whole number, {least} or more")
    return number


def real(name, value, allowed, says):
    """`value` as a float. Raises ValueError unless it is a finite number for which allowed(number); says: in words."""
    try:
        number = float("nan") if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not (math.isfinite(number) and allowed(number)):
        raise ValueError(f"{name}={value!r}: must be {says}")
    return number
