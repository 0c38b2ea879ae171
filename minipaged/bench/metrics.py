"""Metrics: what a service's users notice, and what its owner pays for, computed from timestamps.

Everything is defined as vLLM's serving benchmark does (vllm/benchmarks/serve.py, calculate_metrics), and normalized
latency as the paper does (section 6.1). Which numbers are averaged first decides what a mean means, so each docstring
says it. Sums are exact (math.fsum): no order of the requests changes a digit.
"""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

LIMITS = ("ttft", "tpot", "e2e", "normalized")


@dataclass(frozen=True)
class RequestTimes:
    """One request as it was served; seconds on one clock.

    arrival: when it was sent, whether or not it could enter. token_times: when each of its output tokens came, in
    order; empty if none did (it was refused, or the run broke off). first_scheduled: when the first step that computes
    some of it began.
    """

    arrival: float
    token_times: tuple
    num_prompt_tokens: int = 0
    first_scheduled: float | None = None
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0
    num_cached_tokens: int = 0  # of the prompt's, found in the prefix cache
    finish_reason: str | None = "length"  # None: it was still running when the run ended

    @classmethod
    def of(cls, output):
        """The first answer of a serving.outputs.RequestOutput."""
        answer, line = output.outputs[0], output.timeline
        return cls(
            line.arrival, tuple(answer.token_times), len(output.prompt_token_ids), line.first_scheduled,
            line.num_preemptions, line.num_recomputed_tokens, output.num_cached_tokens or 0, answer.finish_reason,
        )  # fmt: skip


def ttft(request):
    """Time to first token: seconds from a request's arrival to its first output token, waiting included."""
    return request.token_times[0] - request.arrival


def itl(request):
    """Inter-token latencies: the seconds between each output token and the one before it.

    One less than there are tokens: the first token has none before it, its time is the TTFT.
    """
    return [later - earlier for earlier, later in zip(request.token_times, request.token_times[1:])]


def normalized_latency(requests):
    """Seconds per output token as the paper measures them: for each request, the time from its arrival to its last
    token divided by the number of its tokens; the mean of these. So a short request weighs as much as a long one."""
    return mean([e2e(request) / len(request.token_times) for request in requests])


def throughput(requests):
    """Output tokens per second: all of them, over the time from the first arrival to the last token of all."""
    return sum(map(num_tokens, requests)) / duration(requests)


def e2e(request):
    """End-to-end latency: seconds from a request's arrival to its last output token."""
    return request.token_times[-1] - request.arrival


def tpot(request):
    """Time per output token after the first, in seconds; None where there is only one."""
    gaps = len(request.token_times) - 1
    return (request.token_times[-1] - request.token_times[0]) / gaps if gaps else None


def duration(requests):
    """Seconds from the first arrival to the last output token."""
    return max(request.token_times[-1] for request in requests) - min(request.arrival for request in requests)


def goodput(requests, **limits):
    """Requests per second that stayed within every limit: seconds of "ttft", "tpot", "e2e" or "normalized" (e2e over
    the number of tokens). Raises ValueError for another name."""
    if wrong := [name for name in limits if name not in LIMITS]:
        raise ValueError(f"goodput under {wrong[0]!r}: must be one of {', '.join(LIMITS)}")
    measures = {"ttft": ttft, "tpot": tpot, "e2e": e2e, "normalized": lambda each: normalized_latency([each])}

    def is_good(request):
        found = {name: measures[name](request) for name in limits}
        return all(found[name] is None or found[name] <= limit for name, limit in limits.items())

    return sum(map(is_good, requests)) / duration(requests)


def mean(values):
    """The sum, rounded once, divided by how many there are."""
    return math.fsum(values) / len(values)


def spread(values):
    """Mean, p50, p90 and p99; None for each where there is no value."""
    if not values:
        return dict.fromkeys(("mean", "p50", "p90", "p99"))
    return {"mean": mean(values), **{f"p{percent}": percentile(values, percent) for percent in (50, 90, 99)}}


def percentile(values, percent):
    """The value below which so many percent of the others lie; between two values, by the distance from each (numpy's
    method "linear"). percent: a whole number. Rounded once."""
    ranked = sorted(values)
    low, hundredths = divmod(percent * (len(ranked) - 1), 100)
    if hundredths == 0:
        return ranked[low]
    return float((Fraction(ranked[low]) * (100 - hundredths) + Fraction(ranked[low + 1]) * hundredths) / 100)


def summary(requests):
    """All metrics of a run as a dict that JSON knows. Seconds, tokens, and counts.

    Latencies and rates are those of the requests that ended by themselves; others are only counted, by reason.
    """
    done = [request for request in requests if request.token_times and request.finish_reason in ("stop", "length")]
    ended = Counter(str(request.finish_reason) for request in requests)
    seconds = duration(done) if done else None
    num_output, num_prompt = (sum(counts) for counts in (map(num_tokens, done), (r.num_prompt_tokens for r in done)))
    return {
        "requests": len(requests),
        "completed": len(done),
        "ended": dict(sorted(ended.items())),
        "duration_s": seconds,
        "prompt_tokens": num_prompt,
        "output_tokens": num_output,
        "requests_per_s": len(done) / seconds if done else None,
        "output_tokens_per_s": num_output / seconds if done else None,
        "total_tokens_per_s": (num_prompt + num_output) / seconds if done else None,
        "ttft_s": spread([ttft(each) for each in done]),
        "itl_s": spread([gap for each in done for gap in itl(each)]),  # of all gaps: a long answer has more of them
        "tpot_s": spread([tpot(each) for each in done if num_tokens(each) > 1]),
        "e2e_s": spread([e2e(each) for each in done]),
        "normalized_s": spread([normalized_latency([each]) for each in done]),
        "preemptions": sum(each.num_preemptions for each in requests),
        "recomputed_tokens": sum(each.num_recomputed_tokens for each in requests),
        "cached_tokens": sum(each.num_cached_tokens for each in requests),
    }


def num_tokens(request):
    """Output tokens."""
    return len(request.token_times)
