"""Metrics of a service, beside an independent computation in fractions, and by hand."""

import json
import math
from fractions import Fraction
from random import Random

import pytest

from minipaged.bench import metrics
from minipaged.bench.metrics import RequestTimes


def exact(values):
    """The mean, rounded once: what fsum and a division should give, but for the division's own rounding."""
    return float(sum(map(Fraction, values)) / len(values))


def percentile(values, percent):
    """Between its two neighbours, by the distance from each."""
    ranked = sorted(map(Fraction, values))
    place = Fraction(percent, 100) * (len(ranked) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ranked) - 1)
    return float(ranked[low] + (ranked[high] - ranked[low]) * (place - low))


def drawn(seed, count=40):
    random = Random(seed)
    requests = []
    for number in range(count):
        arrival = random.uniform(0, 20)
        now, times = arrival + random.expovariate(2), []
        for _ in range(random.choice((1, 1, 2, 3, 9, 30))):
            now += random.expovariate(30)
            times.append(now)
        reason = "abort" if number % 13 == 5 else random.choice(("stop", "length"))
        requests.append(
            RequestTimes(arrival, tuple(times), random.randint(1, 99), arrival, number % 3, number, 4, reason)
        )
    return [*requests, RequestTimes(3.0, (), 7, None, finish_reason=None)]


@pytest.mark.parametrize("seed", range(20))
def test_a_summary_is_what_the_timelines_say(seed):
    requests = drawn(seed)
    done = [r for r in requests if r.finish_reason in ("stop", "length")]
    told = metrics.summary(requests)
    first, last = min(r.arrival for r in done), max(r.token_times[-1] for r in done)
    ttfts = [r.token_times[0] - r.arrival for r in done]
    gaps = [b - a for r in done for a, b in zip(r.token_times, r.token_times[1:])]
    tpots = [(r.token_times[-1] - r.token_times[0]) / (len(r.token_times) - 1) for r in done if len(r.token_times) > 1]
    whole = [r.token_times[-1] - r.arrival for r in done]
    normal = [(r.token_times[-1] - r.arrival) / len(r.token_times) for r in done]
    for name, values in (
        ("ttft_s", ttfts),
        ("itl_s", gaps),
        ("tpot_s", tpots),
        ("e2e_s", whole),
        ("normalized_s", normal),
    ):
        assert told[name]["mean"] == pytest.approx(exact(values), rel=2**-52, abs=0), name
        for percent in (50, 90, 99):
            assert told[name][f"p{percent}"] == percentile(values, percent), name
    tokens, prompts = sum(len(r.token_times) for r in done), sum(r.num_prompt_tokens for r in done)
    assert told["duration_s"] == last - first and told["output_tokens_per_s"] == tokens / (last - first)
    assert told["requests_per_s"] == len(done) / (last - first)
    assert told["total_tokens_per_s"] == (tokens + prompts) / (last - first)
    assert (told["requests"], told["completed"], told["output_tokens"], told["prompt_tokens"]) == (
        *(len(requests), len(done), tokens, prompts),
    )
    assert told["ended"] == {
        reason: sum(str(r.finish_reason) == reason for r in requests)
        for reason in sorted({str(r.finish_reason) for r in requests})
    }
    assert told["preemptions"] == sum(r.num_preemptions for r in requests)
    assert told["recomputed_tokens"] == sum(r.num_recomputed_tokens for r in requests)
    assert json.loads(json.dumps(told)) == told
    shuffled = Random(1).sample(requests, len(requests))
    assert metrics.summary(shuffled) == told  # to the last digit, whatever their order


def test_by_hand():
    one, other = RequestTimes(10.0, (11.0, 11.5, 13.0)), RequestTimes(12.0, (16.0,))
    assert metrics.ttft(one) == 1.0 and metrics.ttft(other) == 4.0
    assert metrics.itl(one) == [0.5, 1.5] and metrics.itl(other) == []
    assert metrics.tpot(one) == 1.0 and metrics.tpot(other) is None
    # Not (3 + 4) / (3 + 1): the mean of 1 and 4.
    assert metrics.normalized_latency([one, other]) == 2.5
    # From the first arrival, 10, to the last token, 16.
    assert metrics.throughput([one, other]) == 4 / 6 == metrics.summary([one, other])["output_tokens_per_s"]
    # 9 gaps of 1 and one of 11, whoever they belong to: a mean of means would be 6.
    many, few = RequestTimes(0.0, tuple(range(10))), RequestTimes(0.0, (0.0, 11.0))
    assert metrics.summary([many, few])["itl_s"]["mean"] == 2.0


def test_goodput():
    quick, slow, single = RequestTimes(0.0, (1.0, 2.0, 3.0)), RequestTimes(0.0, (1.0, 9.0)), RequestTimes(0.0, (2.0,))
    all_of_them, seconds = [quick, slow, single], 9.0
    assert metrics.goodput(all_of_them) == 3 / seconds
    assert metrics.goodput(all_of_them, ttft=1.0) == 2 / seconds
    assert metrics.goodput(all_of_them, tpot=1.0) == 2 / seconds  # a single token has no gap to be too long
    assert metrics.goodput(all_of_them, ttft=1.0, tpot=1.0) == 1 / seconds
    assert metrics.goodput(all_of_them, e2e=2.9) == 1 / seconds
    assert metrics.goodput(all_of_them, normalized=2.0) == 2 / seconds
    with pytest.raises(ValueError, match="goodput under 'itl': must be one of ttft, tpot, e2e, normalized"):
        metrics.goodput(all_of_them, itl=1.0)


def test_nothing_was_completed():
    told = metrics.summary(
        [RequestTimes(1.0, (), finish_reason=None), RequestTimes(1.0, (2.0,), finish_reason="abort")]
    )
    assert told["completed"] == 0 and told["ended"] == {"None": 1, "abort": 1}
    assert told["requests_per_s"] is told["duration_s"] is told["ttft_s"]["mean"] is None


def test_the_real_engine_is_read():
    from minipaged import LLM, SamplingParams

    outputs = LLM(num_blocks=12, block_size=4).generate(
        ["ROMEO:", "JULIET:", "IAGO:"], SamplingParams(max_tokens=9, ignore_eos=True, seed=1)
    )
    requests = [RequestTimes.of(output) for output in outputs]
    for request, output in zip(requests, outputs):
        line = output.timeline
        assert request.arrival == line.arrival and len(request.token_times) == 9
        assert request.arrival <= request.first_scheduled < request.token_times[0]
        assert line.arrival + metrics.e2e(request) <= line.finish + 1e-9  # the clock is read once more at the end
        assert math.isclose(metrics.ttft(request) + sum(metrics.itl(request)), metrics.e2e(request))
    assert metrics.summary(requests)["completed"] == 3
