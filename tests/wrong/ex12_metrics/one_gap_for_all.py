# Wrong: the mean gap, time per output token, in the place of each.


def ttft(request):
    return request.token_times[0] - request.arrival


def itl(request):
    times = request.token_times
    return [(times[-1] - times[0]) / (len(times) - 1)] * (len(times) - 1) if len(times) > 1 else []


def normalized_latency(requests):
    return sum((each.token_times[-1] - each.arrival) / len(each.token_times) for each in requests) / len(requests)


def throughput(requests):
    seconds = max(each.token_times[-1] for each in requests) - min(each.arrival for each in requests)
    return sum(len(each.token_times) for each in requests) / seconds


def percentile(values, percent):
    ranked = sorted(values)
    low, hundredths = divmod(percent * (len(ranked) - 1), 100)
    if hundredths == 0:
        return ranked[low]
    return ((100 - hundredths) * ranked[low] + hundredths * ranked[low + 1]) / 100
