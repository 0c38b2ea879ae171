"""The batch curve: how many tokens a second this machine makes of a batch, by how many requests run at once.

Memory decides how many requests run; this curve decides what that is worth. It is measured with the engine itself, on
the same requests, with memory for all of them: only a cap on the number of sequences makes the others wait. Between two
batches it is read off a straight line.
"""

from dataclasses import replace
from itertools import cycle, islice, pairwise

from minipaged.bench.results import busy_moments, mean

TURNS = 3  # so many requests for each place
LEAST = 40  # requests: fewer would have other lengths than the stream


def batch_line(batch, asked, prompts, llm):
    """A service.Line of the engine of `llm`, in which `batch` requests run at once: those of the stream, all queued at
    once, over and over if it has too few."""
    from minipaged.bench.service import Line

    count = max(LEAST, TURNS * batch)
    queued = [replace(each, arrival=0.0) for each in islice(cycle(asked), count)]
    return Line(f"batch {batch}", llm.engine, queued, list(islice(cycle(prompts), count)))


def point_of(line):
    """What a batch_line has measured, while it was full: {"running", "tokens_per_s", "steps"}."""
    busy = busy_moments(line.moments)
    seconds = sum(each.end - each.start for each in busy)
    return {
        "running": mean(busy, lambda each: each.num_running),
        "tokens_per_s": sum(each.num_sampled for each in busy) / seconds,
        "steps": len(busy),
    }


def tokens_per_s(points, running):
    """What the curve says of so many running requests; None beyond its ends. points: of point_of."""
    curve = sorted((each["running"], each["tokens_per_s"]) for each in points)
    for (low, slow), (high, fast) in pairwise(curve):
        if low <= running <= high:
            return slow + (fast - slow) * (running - low) / (high - low) if high > low else slow
    return None
