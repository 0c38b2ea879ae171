"""Streams of requests: drawn from quantiles and log-normals, and read from files."""

import gzip
import math
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean, quantiles

import pytest

from minipaged.bench import trace_file, workload
from minipaged.bench.workload import LEVELS, SOURCES, Asked, LogNormal, Quantiles

TRACES = Path(__file__).resolve().parent.parent.parent / "shared" / "traces"
MEANS = {  # of the traces themselves, to a tenth of a token, and of the paper's datasets
    "azure": (1154.7, 211.1),
    "sharegpt": (2340.0, 438.7),
    "mooncake": (12035.1, 342.6),
    "paper-sharegpt": (161.31, 337.99),
    "paper-alpaca": (19.31, 58.45),
}


def shares_below(values, numbers):
    return [sum(value <= number for value in values) / len(values) for number in numbers]


@pytest.mark.parametrize("source", SOURCES)
def test_drawn_lengths_are_those_of_their_source(source):
    requests = workload.draw(source, 20_000, seed=7)
    drawn = [each.num_prompt_tokens for each in requests], [each.num_output_tokens for each in requests]
    for lengths, kind, mean in zip(drawn, SOURCES[source], MEANS[source]):
        assert min(lengths) >= 1 and all(isinstance(length, int) for length in lengths)
        # 3% for what lies between the quantiles, and three standard errors of 20,000 draws.
        spread = math.sqrt(fmean((length - mean) ** 2 for length in lengths) / len(lengths))
        assert abs(fmean(lengths) - mean) <= 3 * spread + (0.04 * mean if isinstance(kind, Quantiles) else 0.5)
        if isinstance(kind, Quantiles):
            assert (min(lengths), max(lengths) <= kind.values[-1]) == (kind.values[0], True)
            for share, level in zip(shares_below(lengths, kind.values), LEVELS):
                assert abs(share - level) < 0.015
        else:
            assert max(lengths) <= 2048


def test_a_log_normal_that_is_cut_off_keeps_its_mean():
    for kind in (LogNormal(338, 0.85), LogNormal(900, 1.0, most=2048), LogNormal(20, 0.3, most=25)):
        random = Random(3)
        drawn = [kind.draw(random) for _ in range(40_000)]
        assert abs(fmean(drawn) - kind.mean) < 0.02 * kind.mean and max(drawn) <= kind.most


def test_poisson_arrivals():
    times = workload.arrivals(20_000, rate=4.0, seed=5)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert times[0] == 0 and min(gaps) >= 0 and abs(fmean(gaps) - 0.25) < 0.01
    # The gaps of a Poisson process are exponential: their standard deviation is their mean, their median ln 2 of it.
    assert abs(math.sqrt(fmean((gap - 0.25) ** 2 for gap in gaps)) - 0.25) < 0.01
    assert abs(quantiles(gaps)[1] - 0.25 * math.log(2)) < 0.01
    assert workload.arrivals(3, rate=None) == [0, 0, 0]


def test_a_seed_gives_the_same_stream_and_another_another():
    one, again, other = (workload.draw("azure", 50, rate=1.0, seed=seed) for seed in (1, 1, 2))
    assert one == again != other
    # The rate changes the times only, all alike.
    for slow, quick in zip(one, workload.draw("azure", 50, rate=2.0, seed=1)):
        assert slow.arrival == pytest.approx(2 * quick.arrival) and slow.num_tokens == quick.num_tokens


def test_scales():
    stream = [Asked(0.0, 10, 1), Asked(6.0, 101, 33)]
    assert workload.scaled(stream, length=0.1) == [Asked(0.0, 1, 1), Asked(6.0, 11, 4)]
    assert workload.scaled(stream, rate=3) == [Asked(0.0, 10, 1), Asked(2.0, 101, 33)]
    assert workload.scaled(stream, length=0.7)[0].num_prompt_tokens == 7
    for wrong in (0, -1, math.inf, math.nan, "2"):
        with pytest.raises(ValueError, match="scale of length"):
            workload.scaled(stream, length=wrong)
    assert [each.arrival for each in workload.retimed(stream, None)] == [0, 0]


def test_what_is_longer_than_the_context_is_set_apart():
    stream = [Asked(0.0, 10, 5), Asked(1.0, 11, 5), Asked(2.0, 1, 1)]
    assert workload.split_by_length(stream, 15) == ([stream[0], stream[2]], [stream[1]])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("azur", 5), "workload 'azur': must be one of azure, sharegpt, mooncake, paper-sharegpt, paper-alpaca, or a"),
        (("azure", 0), "num_requests=0: must be"),
        (("azure", 5, 0), "rate=0: must be a number above 0"),
        (("azure", 5, -2.0), "rate=-2.0"),
    ],
)
def test_what_cannot_be_drawn(arguments, said):
    with pytest.raises(ValueError, match=said):
        workload.draw(*arguments)


AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
LENGTHS = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n290,905.0,1195,0.32\n"
MOONCAKE = (
    '{"timestamp": 2000, "input_length": 6758, "output_length": 500, "hash_ids": [0]}\n\n'
    '{"timestamp": 500, "input_length": 7, "output_length": 4}\n'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AZURE, [(0.0, 374, 44), (4.314579, 396, 109)]),
        (LENGTHS, [(0.0, 74, 918), (0.0, 290, 905)]),
        ("\ufeffoutput_tokens, prompt_tokens\r\n3,4\r\n", [(0.0, 4, 3)]),
        (MOONCAKE, [(0.0, 7, 4), (1.5, 6758, 500)]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_are_read(tmp_path, text, expected, packed):
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    requests = trace_file.read(path)
    assert [(round(each.arrival, 6), each.num_prompt_tokens, each.num_output_tokens) for each in requests] == expected
    assert len(trace_file.read(path, most=1)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no request"),
        (AZURE.split("\n")[0], "holds no request"),
        (
            "TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,3\n",
            "line 1: has no column GeneratedTokens, beside",
        ),
        ("a,b\n1,2\n", "line 1: 'a,b': must be JSON, or name the columns ContextTokens,GeneratedTokens or"),
        (AZURE + "2023-11-16 18:15:51,-4,2\n", "line 4: prompt '-4': must be a whole number of tokens from 1 to"),
        (AZURE + "2023-11-16 18:15:51,4,nan\n", "line 4: output 'nan': must be"),
        (AZURE + "2023-11-16 18:15:51,4,inf\n", "line 4: output 'inf': must be"),
        (AZURE + "2023-11-16 18:15:51,4,2.5\n", "line 4: output '2.5': must be"),
        (AZURE + "2023-11-16 18:15:51,4,1e30\n", "line 4: output '1e30': must be"),
        (AZURE + "yesterday,4,2\n", "line 4: TIMESTAMP 'yesterday': must be a date and a time"),
        (AZURE + "2023-11-16 18:15:51,4\n", "line 4: has 2 columns, fewer than the first line names"),
        (MOONCAKE + '{"timestamp": 1, "input_length": 3}\n', "line 4: has no output_length"),
        (MOONCAKE + '{"timestamp": -1, "input_length": 3, "output_length": 3}\n', "line 4: timestamp=-1: must be"),
        (MOONCAKE + '{"timestamp": 1, "input_length": true, "output_length": 3}\n', "line 4: input_length 'True'"),
        (MOONCAKE + "{\n", "line 4: must be JSON"),
        (MOONCAKE + "{" + "[" * 99_999, "line 4: must be JSON"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path, text, said):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        trace_file.read(path)
    assert said in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="No such file"):
        trace_file.read(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="line 1: must be UTF-8"):
        trace_file.read(tmp_path / "bytes")


@pytest.mark.skipif(not TRACES.is_dir(), reason="the public traces are not here")
@pytest.mark.parametrize(
    ("name", "source", "count"),
    [
        ("azure_conv.csv.gz", "azure", 19_366),
        ("sharegpt_lengths.csv.gz", "sharegpt", 30_731),
        ("mooncake_conversation.jsonl.gz", "mooncake", 12_031),
    ],
)
def test_the_shipped_quantiles_are_those_of_the_traces(name, source, count):
    requests = trace_file.read(TRACES / name)
    assert len(requests) == count and requests == sorted(requests, key=lambda each: each.arrival)
    sides = [each.num_prompt_tokens for each in requests], [each.num_output_tokens for each in requests]
    for lengths, kind, mean in zip(sides, SOURCES[source], MEANS[source]):
        assert fmean(lengths) == pytest.approx(mean, abs=0.05) and max(lengths) == kind.values[-1]
        ranked = sorted(lengths)
        for level, value in zip(LEVELS[:-1], kind.values):
            around = ranked[math.floor(level * (count - 1)) - 1 : math.ceil(level * (count - 1)) + 2]
            assert around[0] - 1 <= value <= around[-1] + 1
