# Right: sums from the last request to the first; ttft and itl are parts of one list; percentiles count from the top.


def steps(request):
    moments = [request.arrival, *request.token_times]
    return [moments[i] - moments[i - 1] for i in range(1, len(moments))]


def ttft(request):
    return steps(request)[0]


def itl(request):
    return tuple(steps(request)[1:])


def normalized_latency(requests):
    return sum(sum(reversed(steps(request))) / len(request.token_times) for request in reversed(requests)) / len(
        requests
    )


def throughput(requests):
    start = min(request.arrival for request in requests)
    moments = sorted(time - start for request in requests for time in request.token_times)
    return len(moments) / moments[-1]


def percentile(values, percent):
    ranked = sorted(values, reverse=True)
    high, hundredths = divmod((100 - percent) * (len(values) - 1), 100)
    if not hundredths:
        return ranked[high]
    return ranked[high] * (1 - hundredths / 100) + ranked[high + 1] * (hundredths / 100)
