# Wrong: TTFT is when the first token came, as if every request had come at 0.


def ttft(request):
    return request.token_times[0]


def itl(request):
    return [later - earlier for earlier, later in zip(request.token_times, request.token_times[1:])]


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
