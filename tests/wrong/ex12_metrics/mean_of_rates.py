# Wrong: throughput is the mean of every request's own tokens per second.


def ttft(request):
    return request.token_times[0] - request.arrival


def itl(request):
    return [later - earlier for earlier, later in zip(request.token_times, request.token_times[1:])]


def normalized_latency(requests):
    return sum((each.token_times[-1] - each.arrival) / len(each.token_times) for each in requests) / len(requests)


def throughput(requests):
    rates = [len(each.token_times) / (each.token_times[-1] - each.arrival) for each in requests]
    return sum(rates) / len(rates)


def percentile(values, percent):
    ranked = sorted(values)
    low, hundredths = divmod(percent * (len(ranked) - 1), 100)
    if hundredths == 0:
        return ranked[low]
    return ((100 - hundredths) * ranked[low] + hundredths * ranked[low + 1]) / 100
