"""For the checks of exercise 12: requests to measure, what they must give in exact fractions, and calls in words."""

from fractions import Fraction
from numbers import Real
from random import Random

from minipaged.bench.metrics import RequestTimes

SPARE = 10 * 2.0**-53  # a few roundings of a float64


def request(arrival, *token_times, prompt=7, waited=0.0):
    """A served request. waited: seconds before its first step began; a prompt's length and this are of no use here."""
    return RequestTimes(arrival, token_times, num_prompt_tokens=prompt, first_scheduled=arrival + waited)


def told(requests):
    """Requests for a message: their times where there are few, else how many they are."""
    each = [f"arrival {r.arrival:g}, tokens at {', '.join(f'{at:g}' for at in r.token_times)}" for r in requests]
    text = "; ".join(each)
    return text if len(text) <= 200 else f"{len(requests)} requests, the first: {each[0]:.120}"


def is_number(number):
    return isinstance(number, Real) and not isinstance(number, bool)


def must_be(call, got, expected, scale, why):
    """Is this number the exact one, but for a few roundings of numbers as large as `scale`?"""
    assert is_number(got), f"{call} gave {got!r:.60} ({type(got).__name__}): expected a number, {float(expected):g}"
    wanted = f"expected {float(expected):.9g}. {why}"
    assert abs(float(got) - float(expected)) <= SPARE * float(scale), f"{call} gave {float(got):.9g}: {wanted}"


def check_ttft(impl, one, why):
    call, kept = f"ttft({told([one])})", RequestTimes(**vars(one))
    got = impl.ttft(one)
    assert one == kept, f"{call} changed the request: it must only be read"
    must_be(call, got, Fraction(one.token_times[0]) - Fraction(one.arrival), one.token_times[-1], why)


def check_itl(impl, one, why):
    call, kept = f"itl({told([one])})", RequestTimes(**vars(one))
    found = impl.itl(one)
    assert one == kept, f"{call} changed the request: it must only be read"
    got = found.tolist() if hasattr(found, "tolist") else found
    shown = type(found).__name__ if hasattr(found, "__next__") else f"{found!r:.60} ({type(found).__name__})"
    assert isinstance(got, (list, tuple)), f"{call} gave {shown}: expected a list. {why}"
    gaps = [Fraction(b) - Fraction(a) for a, b in zip(one.token_times, one.token_times[1:])]
    shown = f"[{', '.join(f'{each:.6g}' if is_number(each) else repr(each) for each in got[:12])}]"
    wanted = f"expected [{', '.join(f'{float(each):.6g}' for each in gaps[:12])}]. {why}"
    assert len(got) == len(gaps), f"{call} gave {len(got)} numbers, {shown}: {wanted}"
    for value, gap in zip(got, gaps):
        is_right = is_number(value) and abs(value - gap) <= SPARE * one.token_times[-1]
        assert is_right, f"{call} gave {shown}: {wanted}"


def last_of(requests):
    return max(one.token_times[-1] for one in requests)


def of_all(impl, name, requests):
    """Call normalized_latency or throughput -> (the call in words, what it gave); nothing given has changed."""
    call, kept = f"{name}({told(requests)})", list(requests)
    got = getattr(impl, name)(requests)
    assert requests == kept, f"{call} changed the list of requests, or put it into another order: it must only be read"
    return call, got


def check_normalized(impl, requests, why):
    call, got = of_all(impl, "normalized_latency", requests)
    each = [(Fraction(r.token_times[-1]) - Fraction(r.arrival)) / len(r.token_times) for r in requests]
    must_be(call, got, sum(each) / len(each), last_of(requests), why)


def check_throughput(impl, requests, why):
    call, got = of_all(impl, "throughput", requests)
    last, first = last_of(requests), min(r.arrival for r in requests)
    expected = sum(len(r.token_times) for r in requests) / (Fraction(last) - Fraction(first))
    must_be(call, got, expected, expected * Fraction(last) / (Fraction(last) - Fraction(first)), why)


def check_percentile(impl, values, percent, why):
    shown = [f"{value:g}" for value in values]
    text = f"[{', '.join(shown)}]" if len(shown) <= 12 else f"{len(shown)} values, from {min(values):g} on"
    call, kept = f"percentile({text}, {percent})", list(values)
    got = impl.percentile(values, percent)
    assert values == kept, f"{call} changed the list of values, or put it into another order: it must only be read"
    low, hundredths = divmod(percent * (len(values) - 1), 100)
    ranked = sorted(map(Fraction, values))
    expected = ranked[low]
    if hundredths:
        expected += (ranked[low + 1] - ranked[low]) * Fraction(hundredths, 100)
    place = percent * (len(values) - 1) / 100
    must_be(call, got, expected, max(map(abs, values)), f"Its place is {place:g}, counted from 0. {why}")


def drawn(seed, count, start=0.0):
    """Requests in no order, on a clock that has run for `start` seconds when the first of them may come."""
    random, requests = Random(seed), []
    for _ in range(count):
        arrival = start + random.uniform(0, 20)
        waited, num_tokens = random.expovariate(2), random.choice((1, 1, 2, 3, 9, 30))
        now, times = arrival + waited, []
        for _ in range(num_tokens):
            now += random.choice((0.0, random.expovariate(30), random.expovariate(3)))
            times.append(now)
        requests.append(request(arrival, *times, prompt=random.randint(1, 99), waited=waited))
    return requests
