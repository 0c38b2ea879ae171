"""Results: what came of a line of service.py, as numbers that JSON knows.

A line is busy while somebody waits: then as many requests run as the memory allows. Means over that time are weighted
by it.
"""

import math
from itertools import pairwise

from minipaged.bench import metrics

POINTS = 200  # at most so many moments of a run are kept
ENTRY = 4  # bytes of an entry of a block table: the model reads them as int32


def result_of(line, limits=None):
    """A dict about one line. limits: of metrics.goodput, seconds by name; None: no goodput."""
    requests, busy = line.requests(), busy_moments(line.moments)
    memory = line.engine.memory
    shares = {
        name: mean(busy, lambda each, name=name: each.slots[name] / each.total_slots) for name in line.moments[0].slots
    }
    seconds = math.fsum(each.end - each.start for each in busy)
    summary = metrics.summary(requests)
    return {
        "line": line.name,
        "num_blocks": memory.num_blocks,
        "block_size": memory.block_size,
        "refused": len(line.refused),
        "busy_s": seconds,
        "running": mean(busy, lambda each: each.num_running),
        "busy_tokens_per_s": sum(each.num_sampled for each in busy) / seconds,
        "kv": shares,
        "filled": filled(line.moments),
        "saved": mean(busy, lambda each: each.saved_slots / each.total_slots),
        "table_bytes": ENTRY * max(each.num_entries for each in line.moments),
        "steps": len(line.moments),
        "computed_tokens": sum(each.num_tokens for each in line.moments),
        **summary,
        "goodput_per_s": metrics.goodput(requests, **limits) if limits and summary["completed"] else None,
        "queue_grows": queue_grows(line.moments, line.last_arrival) if line.is_over else None,
        "over_time": over_time(line.moments),
    }


def busy_moments(moments):
    """Those at whose end somebody waits; all of them if nobody ever does."""
    return [each for each in moments if each.num_waiting] or moments


def mean(moments, value):
    """The mean of value(moment), weighted by how long each lasted."""
    seconds = math.fsum(each.end - each.start for each in moments)
    return math.fsum(value(each) * (each.end - each.start) for each in moments) / seconds


def filled(moments):
    """Of all slots that somebody holds, the part with a token in it: summed over the steps, whatever they took."""
    states = sum(each.slots["states"] for each in moments)
    held = states + sum(each.slots[name] for each in moments for name in ("reserved", "internal", "rounding"))
    return states / held if held else None


def filled_by_lengths(asked, block_size):
    """The same for paged memory, from the lengths alone: every request holds its prompt after its first step, then one
    token more in each step, in whole blocks. After its last step it holds nothing."""
    states = blocks = 0
    for each in asked:
        for stored in range(each.num_prompt_tokens, each.num_tokens - 1):
            states += stored
            blocks += -(-stored // block_size)
    return states / (blocks * block_size) if blocks else None


def queue_grows(moments, last_arrival):
    """Whether more wait in the second half of the arrivals than in the first, by a request or more; None where all
    come at once. An engine that keeps up has a queue that comes and goes; one that doesn't has one that grows for ever.
    """
    first, second = ([each for each in moments if low <= each.end < high] for low, high in halves(last_arrival))
    if not last_arrival or not first or not second:
        return None
    before, after = (mean(half, lambda each: each.num_waiting) for half in (first, second))
    return after - before >= 1


def halves(seconds):
    return pairwise((0.0, seconds / 2, seconds))


def over_time(moments):
    """How it stood at most POINTS moments, evenly chosen: lists of the same length."""
    step = math.ceil(len(moments) / POINTS)
    chosen = moments[step - 1 :: step]
    return {
        "end_s": [each.end for each in chosen],
        "running": [each.num_running for each in chosen],
        "waiting": [each.num_waiting for each in chosen],
        "kv": {name: [each.slots[name] / each.total_slots for each in chosen] for name in moments[0].slots},
    }


def stable_rate(results, name):
    """The highest rate, of those tried, up to which a line's queue didn't grow; None if it did at the lowest."""
    stable = None
    for row in sorted((row for row in results if row["line"] == name and row["rate"]), key=lambda row: row["rate"]):
        if row["queue_grows"] is not False:
            break
        stable = row["rate"]
    return stable
