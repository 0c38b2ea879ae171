# Wrong: the place is counted over all values, as if the largest had the place len(values).


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
    ranked = sorted(values)
    low, hundredths = divmod(percent * len(ranked), 100)
    ranked += [ranked[-1]] * 2
    return ((100 - hundredths) * ranked[low] + hundredths * ranked[low + 1]) / 100
