# Right: loops and running numbers, no function of Python's that sums or sorts.


def ttft(request):
    first, *_ = request.token_times
    return first - request.arrival


def itl(request):
    gaps = []
    for i in range(1, len(request.token_times)):
        gaps.append(request.token_times[i] - request.token_times[i - 1])
    return gaps


def normalized_latency(requests):
    total = 0.0
    for request in requests:
        total += (request.token_times[-1] - request.arrival) / len(request.token_times) / len(requests)
    return total


def throughput(requests):
    first, last, num_tokens = None, None, 0
    for request in requests:
        if first is None or request.arrival < first:
            first = request.arrival
        for time in request.token_times:
            num_tokens += 1
            if last is None or time > last:
                last = time
    return num_tokens / (last - first)


def percentile(values, percent):
    left, place = list(values), percent * (len(values) - 1)
    for _ in range(place // 100):
        left.remove(min(left))
    low = min(left)
    if place % 100 == 0:
        return low
    left.remove(low)
    return low + (min(left) - low) * (place % 100) / 100
