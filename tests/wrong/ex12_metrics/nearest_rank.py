# Wrong: one of the values is taken, and nothing between two of them.
import math


def ttft(request):
    return request.token_times[0] - request.arrival


def itl(request):
    return [later - earlier for earlier, later in zip(request.token_times, request.token_times[1:])]


def normalized_latency(requests):
    return sum((each.token_times[-1] - each.arrival) / len(each.token_times) for each in requests) / len(requests)


def throughput(requests):
    seconds = max(each.token_times[-1] for each in requests) - min(each.arrival for each in requests)
    return sum(len(each.token_times) for each in requests) / seconds


def percentile(values, percent):
    return sorted(values)[max(0, math.ceil(percent * len(values) / 100) - 1)]
