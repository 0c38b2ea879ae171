# Right: exact fractions, rounded once at the end.
from fractions import Fraction


def ttft(request):
    return float(Fraction(request.token_times[0]) - Fraction(request.arrival))


def itl(request):
    times = [Fraction(time) for time in request.token_times]
    return [float(times[i + 1] - times[i]) for i in range(len(times) - 1)]


def normalized_latency(requests):
    quotients = [(Fraction(r.token_times[-1]) - Fraction(r.arrival)) / len(r.token_times) for r in requests]
    return float(sum(quotients) / len(quotients))


def throughput(requests):
    seconds = Fraction(max(r.token_times[-1] for r in requests)) - Fraction(min(r.arrival for r in requests))
    return float(sum(len(r.token_times) for r in requests) / seconds)


def percentile(values, percent):
    ranked = sorted(Fraction(value) for value in values)
    ranked.append(ranked[-1])
    place = Fraction(percent * (len(values) - 1), 100)
    beyond = place - int(place)
    return float(ranked[int(place)] * (1 - beyond) + ranked[int(place) + 1] * beyond)
