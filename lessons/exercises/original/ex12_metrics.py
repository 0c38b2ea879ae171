"""Exercise 12: metrics from timestamps.

Goal: what the users of a service notice and what its owner pays for, from the moments at which tokens came.

    request       one request as it was served; of it you need two things, both in seconds on one clock:
                  request.arrival      when it was sent, whether or not it could enter then
                  request.token_times  a tuple: when each of its output tokens came, ascending; at least one, and two
                                       may have come at the same moment. The prompt's tokens are not in it
    requests      a list of them, at least one, in any order: neither sorted by arrival nor by end
    values        a list of numbers, at least one, in any order
    percent       a whole number from 0 to 100

The clock's 0 may lie long before the first arrival. Nothing that is given may be changed.

Edit below the line, not the tests. About 15 lines, 20 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex12 --impl yours -x

Hints: python -m minipaged.exercises hint ex12
"""

# ------------------------------------------------------------------------------------------------ edit below this line


def ttft(request):
    """Time to first token: seconds from the request's arrival to its first output token, waiting included."""
    raise NotImplementedError("ex12: ttft is yours to write")


def itl(request):
    """Inter-token latencies: the seconds between each output token and the one before it. A list, in their order.

    The first token has none before it, so there is one number less than tokens.
    """
    raise NotImplementedError("ex12: itl is yours to write")


def normalized_latency(requests):
    """Seconds per output token, as the paper measures them: for each request the time from its arrival to its last
    token, divided by the number of its tokens; the mean of these numbers."""
    raise NotImplementedError("ex12: normalized_latency is yours to write")


def throughput(requests):
    """Output tokens per second: those of all requests, over the seconds from the first arrival of all to the last
    token of all."""
    raise NotImplementedError("ex12: throughput is yours to write")


def percentile(values, percent):
    """The value below which so many percent of the others lie; 0: the smallest, 100: the largest.

    Sorted and counted from 0, that value has the place percent / 100 * (len(values) - 1). Where this is no whole
    number, it lies between its two neighbours, by the distance from each: at place 2.25 it is three quarters of the
    value at 2 and one quarter of the one at 3. (numpy calls this method "linear".)
    """
    raise NotImplementedError("ex12: percentile is yours to write")
