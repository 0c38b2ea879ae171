# Right: with the statistics module, whose quantiles are the percentiles from 1 to 99.
import statistics
from itertools import pairwise


def ttft(request):
    return min(request.token_times) - request.arrival


def itl(request):
    return [after - before for before, after in pairwise(request.token_times)]


def normalized_latency(requests):
    return statistics.mean((max(each.token_times) - each.arrival) / len(each.token_times) for each in requests)


def throughput(requests):
    ends = max(max(each.token_times) for each in requests)
    return sum(len(each.token_times) for each in requests) / (ends - min(each.arrival for each in requests))


def percentile(values, percent):
    if percent in (0, 100) or len(values) == 1:
        return max(values) if percent == 100 else min(values)
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
