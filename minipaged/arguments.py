"""Arguments from outside, checked where they come in, so that a wrong one is named at once and not three calls
later."""

import math
import operator
import re

PREEMPTION = ("recompute", "swap")  # what becomes of the blocks of who must yield
UNITS = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
MAX_SLOTS = 2**20  # of an LLM's pool: 2 GiB of K and V for the tiny model in float32


def whole(name, value, least, most=math.inf):
    """`value` as an int. Raises ValueError unless it is a whole number from `least` to `most`."""
    try:  # numpy's integers have an index, floats have none
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        allowed = f"{least} or more" if most == math.inf else f"from {least} to {most}"
        shown = f"{value!r}" if not isinstance(value, int) or abs(value) < 10**30 else "a number of more than 30 digits"
        raise ValueError(f"{name}={shown}: must be a whole number, {allowed}")
    return number


def size(name, value):
    """A text such as "2MiB" as a number of bytes. Raises ValueError for anything but a number above 0 and a unit."""
    match = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([A-Za-z]+)", value) if isinstance(value, str) else None
    unit = UNITS.get(match[2].lower()) if match else None
    if unit is None or float(match[1]) == 0:
        raise ValueError(
            f"{name}={value!r:.60}: must be a number and a unit, such as '2MiB', of B, KiB, MiB, GiB, kB, MB, GB"
        )
    return int(float(match[1]) * unit)


def swapping(preemption, swap_blocks):
    """Raises ValueError unless these two, which are in order each by itself, make sense together."""
    if preemption == "swap" and not swap_blocks:
        raise ValueError("preemption='swap' with swap_blocks=0: must be 1 or more, to have where to swap to")
    if swap_blocks and preemption != "swap":
        raise ValueError(f"swap_blocks={swap_blocks} with preemption={preemption!r}: only 'swap' has use for them")


def watermark_of(value):
    """`value` as a float. Raises ValueError unless it is a share of a pool that leaves some of it."""
    return real("watermark", value, lambda number: 0 <= number < 1, "a number from 0 to below 1")


def real(name, value, allowed, says):
    """`value` as a float. Raises ValueError unless it is a finite number for which allowed(number); says: in words."""
    try:
        number = float("nan") if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not (math.isfinite(number) and allowed(number)):
        raise ValueError(f"{name}={str(value)[:40] if isinstance(value, int) else repr(value)}: must be {says}")
    return number
