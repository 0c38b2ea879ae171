"""Gantt charts: every moment of a request is in one span, each kind of span is told twice, and pictures stay small."""

import importlib
from itertools import pairwise

import pytest

from minipaged.bench.cost_model import OPT_13B, Clock
from minipaged.bench.earlier_policies import static_batching, whole_prompts
from minipaged.bench.timed_run import Run, request, run
from minipaged.memory.paged import PagedMemory
from minipaged.serving.scheduler import Scheduler

SIZES = [("A", 0, 60, 12), ("B", 0, 100, 30), ("C", 0.05, 40, 8), ("D", 0.25, 1500, 10), ("E", 0.3, 50, 12)]


@pytest.fixture(scope="module")
def gantt():
    pytest.importorskip("matplotlib", reason='the figures need matplotlib: pip install -e ".[lessons]"')
    return importlib.import_module("visualize.gantt")


def arrivals():
    return [(second, request(name, *size)) for name, second, *size in SIZES]


def scheduled(num_blocks, block_size, budget, asked, preemption="recompute"):
    clock = Clock()
    host = {"num_host_blocks": num_blocks} if preemption == "swap" else {}
    memory = PagedMemory(num_blocks, block_size, prefix_caching=False, **host)
    return run(Scheduler(memory, 8, budget, preemption=preemption, clock=clock), asked, OPT_13B, clock, preemption)


def under_pressure(preemption):
    asked = [(0, request("A", 11, 30)), (0, request("B", 27, 26)), (0.1, request("C", 9, 20))]
    return scheduled(22, 4, 64, asked, preemption)


def runs():
    return {
        "static": static_batching(arrivals(), OPT_13B, 3),
        "whole": whole_prompts(arrivals(), OPT_13B, 8),
        "chunked": scheduled(983, 16, 128, arrivals()),
        "recompute": under_pressure("recompute"),
        "swap": under_pressure("swap"),
    }


KINDS = {
    "static": {"waiting", "prompt", "decode", "held"},
    "whole": {"waiting", "prompt", "decode", "stall"},
    "chunked": {"waiting", "prompt", "decode"},
    "recompute": {"waiting", "prompt", "decode", "preempted", "recompute"},
    "swap": {"waiting", "prompt", "decode", "preempted"},
}


@pytest.mark.parametrize("name", list(KINDS))
def test_the_spans_of_a_request_follow_each_other_without_gaps(gantt, name):
    result = runs()[name]
    spans, served = gantt.spans_of(result), result.served()
    assert {kind for row in spans.values() for kind, *_ in row} - {"stall"} == KINDS[name] - {"stall"}
    for request_id, row in spans.items():
        assert row[0][1] == served[request_id].arrival_s
        assert row[-1][2] == served[request_id].finish_s
        for (_, _, end, _, _), (_, start, _, _, _) in pairwise(row):
            assert end == start
        for _, start, end, inner, _ in row:
            assert start < end and all(start < at < end for at in inner)
        computed = sum(work.num_tokens for step in result.steps for work in step.work if work.request == request_id)
        assert sum(tokens for *_, tokens in row) == computed


def test_a_stall_is_where_a_running_request_gets_nothing(gantt):
    whole, chunked = (gantt.spans_of(runs()[name]) for name in ("whole", "chunked"))
    longest = max(end - start for kind, start, end, *_ in whole["A"] if kind == "stall")
    assert 1e3 * longest > 0.13 * 1500  # D's prompt
    assert not any(kind == "stall" for row in chunked.values() for kind, *_ in row)


@pytest.mark.parametrize("name", list(KINDS))
def test_the_picture(gantt, name):
    result = runs()[name]
    picture = gantt.draw_gantt(result, name)
    assert picture.svg == gantt.draw_gantt(runs()[name], name).svg
    assert len(picture.svg) < 60_000
    for request_id, served in result.served().items():
        assert f"{request_id} arrives at {1e3 * served.arrival_s:.0f}" in picture.alt
    assert len(gantt.draw_gantt(result, name, until_s=0.1).svg) < len(picture.svg)


def test_no_two_kinds_look_alike_without_colour(gantt):
    looks = [(hatch, ink) for _, _, ink, hatch in gantt.USES.values() if hatch]
    assert len(set(looks)) == len(looks)
    plain = [colour for _, colour, _, hatch in gantt.USES.values() if not hatch]
    assert len(set(plain)) == 3  # white and dashed, dark, light with lines


def test_wrong_input(gantt):
    with pytest.raises(ValueError, match="no step was made"):
        gantt.draw_gantt(Run("empty"))
    with pytest.raises(ValueError, match="until_s=0"):
        gantt.draw_gantt(runs()["swap"], until_s=0)
    from visualize.plots import draw_lines

    with pytest.raises(ValueError, match="positive x only"):
        draw_lines({"a": [(0, 1), (1, 2)]}, "x", "y", log_x=True)
    assert "3 at 256" in draw_lines({"a": [(1, 2), (256, 3)]}, "x", "y", log_x=True).alt
