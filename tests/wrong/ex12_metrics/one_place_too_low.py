# Wrong: places are counted from 1, and read as if they were counted from 0.


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
    place = max(0, percent * (len(ranked) - 1) / 100 - 1)
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)
