# Right: arrays; numbers come back as numpy's, gaps as an array.
import numpy as np


def ttft(request):
    return np.float64(request.token_times[0]) - request.arrival


def itl(request):
    return np.diff(np.asarray(request.token_times, dtype=np.float64))


def normalized_latency(requests):
    ends = np.array([request.token_times[-1] for request in requests])
    arrivals = np.array([request.arrival for request in requests])
    counts = np.array([len(request.token_times) for request in requests])
    return ((ends - arrivals) / counts).mean()


def throughput(requests):
    times = np.concatenate([request.token_times for request in requests])
    return times.size / (times.max() - np.min([request.arrival for request in requests]))


def percentile(values, percent):
    return np.percentile(values, percent)
