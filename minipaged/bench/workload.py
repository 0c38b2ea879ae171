"""Workloads: which requests come when, and how long they are. Lengths and times only: no text, no model.

Three sources of lengths: quantiles of three public traces, which are shipped; log-normals with the means of the
paper's datasets; or a file of one's own (trace_file.py). And three of times: a Poisson process, the file's own, or all
at once. The same seed gives the same stream.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from statistics import NormalDist

from minipaged.arguments import real, whole

LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Asked:
    """One request: seconds after the first, tokens of its prompt, tokens that it will generate."""

    arrival: float
    num_prompt_tokens: int
    num_output_tokens: int

    @property
    def num_tokens(self):
        return self.num_prompt_tokens + self.num_output_tokens


@dataclass(frozen=True)
class Quantiles:
    """Lengths whose quantiles at LEVELS are known.

    Between two of them lengths are drawn as if their logarithm were uniform, which keeps the traces' means to 3%
    (uniform lengths would be up to 7% too long); below the first it is the shortest.
    """

    values: tuple

    def draw(self, random):
        level = random.random()
        i = bisect_right(LEVELS, level)
        if i == 0:
            return self.values[0]
        share = (level - LEVELS[i - 1]) / (LEVELS[i] - LEVELS[i - 1])
        low, high = (math.log(each) for each in self.values[i - 1 : i + 1])
        return round(math.exp(low + (high - low) * share))


@dataclass(frozen=True)
class LogNormal:
    """Lengths whose logarithm is normal with this standard deviation, cut off at `most`, so that their mean is `mean`
    after that."""

    mean: float
    sigma: float
    most: int = 2048

    def draw(self, random):
        while (length := random.lognormvariate(self.middle, self.sigma)) > self.most:
            pass
        return max(1, round(length))

    @cached_property
    def middle(self):
        """The mean of the logarithm: where the mean of what is not cut off is right, found by halving."""
        low, high = -10.0, math.log(self.most)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.mean_at(middle) < self.mean else (low, middle)
        return (low + high) / 2

    def mean_at(self, middle):
        cut, normal = (math.log(self.most) - middle) / self.sigma, NormalDist()
        return math.exp(middle + self.sigma**2 / 2) * normal.cdf(cut - self.sigma) / normal.cdf(cut)


# (prompts, outputs). The traces: Azure/AzurePublicDataset, CC-BY 4.0 (Patel et al., Splitwise, ISCA 2024); ShareGPT up
# to 8k tokens as microsoft/sarathi-serve has it, Apache-2.0; kvcache-ai/Mooncake, FAST 2025. The paper's: its means
# (section 6.1); the sigmas are inferred from its figures 2 and 13, not published.
SOURCES = {
    "azure": (
        Quantiles((29, 181, 207, 396, 1020, 1189, 2734, 4083, 4142, 14050)),
        Quantiles((16, 41, 54, 85, 129, 395, 424, 451, 601, 1000)),
    ),
    "sharegpt": (
        Quantiles((12, 29, 74, 580, 1730, 3734, 5696, 6563, 7434, 8141)),
        Quantiles((6, 44, 84, 228, 415, 628, 834, 920, 998, 1024)),
    ),
    "mooncake": (
        Quantiles((894, 901, 964, 2306, 6909, 15367, 27367, 39550, 85400, 126195)),
        Quantiles((3, 10, 24, 156, 350, 472, 597, 698, 1119, 2000)),
    ),
    "paper-sharegpt": (LogNormal(161.31, 1.2), LogNormal(337.99, 0.85)),
    "paper-alpaca": (LogNormal(19.31, 0.6), LogNormal(58.45, 0.85)),
}


def draw(source, num_requests, rate=None, seed=0):
    """So many requests with lengths of a source, a list of Asked.

    rate: requests per second of a Poisson process, the first of which comes at 0; None: all come at once. Raises
    ValueError for a source that isn't known and for numbers that aren't allowed.
    """
    if source not in SOURCES:
        raise ValueError(f"workload {source!r}: must be one of {', '.join(SOURCES)}, or a file")
    whole("num_requests", num_requests, least=1)
    random = Random(seed)
    prompts, outputs = SOURCES[source]
    lengths = [(prompts.draw(random), outputs.draw(random)) for _ in range(num_requests)]
    return [Asked(time, *each) for time, each in zip(arrivals(num_requests, rate, seed), lengths)]


def arrivals(num_requests, rate, seed=0):
    """Seconds of so many arrivals, ascending from 0. rate: as of draw."""
    if rate is None:
        return [0.0] * num_requests
    real("rate", rate, lambda number: number > 0, "a number above 0, requests per second")
    random, times = Random(f"arrivals {seed}"), [0.0]
    for _ in range(num_requests - 1):
        times.append(times[-1] + random.expovariate(rate))
    return times


def scaled(requests, length=1.0, rate=1.0):
    """The same stream with lengths times `length`, rounded up to at least 1 token, and `rate` times as many requests a
    second. Raises ValueError for factors that aren't above 0."""
    for name, factor in (("length", length), ("rate", rate)):
        real(f"scale of {name}", factor, lambda number: number > 0, "a number above 0")

    def tokens(number):
        return max(1, math.ceil(number * length - 1e-9))  # 10 * 0.7 is 7.000000000000001

    return [
        Asked(each.arrival / rate, tokens(each.num_prompt_tokens), tokens(each.num_output_tokens)) for each in requests
    ]


def retimed(requests, rate, seed=0):
    """The same requests in the same order, at the arrivals of a Poisson process, or all at once. rate: as of draw."""
    return [replace(each, arrival=time) for each, time in zip(requests, arrivals(len(requests), rate, seed))]


def split_by_length(requests, max_model_len):
    """(those that fit the model's context, those that are longer: nobody can serve them)."""
    fit = [each for each in requests if each.num_tokens <= max_model_len]
    return fit, [each for each in requests if each.num_tokens > max_model_len]
