"""What is made of a run under load: busy time, what the lengths imply, the batch curve, rates that last, figures."""

import json
from types import SimpleNamespace

import pytest

from minipaged.bench import batch_curve, results, serve, serve_report
from minipaged.bench.workload import Asked


def moment(start, end, waiting=0, running=1, sampled=1, **slots):
    names = ("states", "reserved", "internal", "external", "rounding", "cached")
    given = dict.fromkeys(names, 0) | slots
    return SimpleNamespace(
        start=start, end=end, num_waiting=waiting, num_running=running, num_sampled=sampled, slots=given
    )


def test_busy_is_while_somebody_waits():
    moments = [moment(0, 1, waiting=2), moment(1, 2), moment(2, 5, waiting=1)]
    assert results.busy_moments(moments) == [moments[0], moments[2]]
    assert results.busy_moments(moments[1:2]) == moments[1:2]


def test_a_mean_is_weighted_by_time():
    moments = [moment(0.0, 1.0, running=7), moment(1.0, 4.0, running=3)]
    assert results.mean(moments, lambda each: each.num_running) == (7 * 1 + 3 * 3) / 4


def test_filled_is_of_what_is_held():
    moments = [
        moment(0, 1, states=6, internal=2, external=50),
        moment(1, 9, states=2, reserved=4, rounding=2, cached=9),
    ]
    assert results.filled(moments) == 8 / 16
    assert results.filled([moment(0, 1, external=5)]) is None


def test_filled_by_lengths_by_hand():
    # 3 tokens of prompt, 4 of output: 3, 4 and 5 are stored when a step ends, in 1, 1 and 2 blocks of 4.
    assert results.filled_by_lengths([Asked(0.0, 3, 4)], 4) == 12 / 16
    assert results.filled_by_lengths([Asked(0.0, 3, 4), Asked(0.0, 8, 2)], 4) == 20 / 24
    assert results.filled_by_lengths([Asked(0.0, 3, 1)], 4) is None


@pytest.mark.parametrize(
    ("waiting", "grows"), [((0, 0, 0, 0), False), ((1, 1, 2, 2), True), ((3, 3, 0, 0), False), ((2, 2, 2, 3), False)]
)
def test_a_queue_grows_by_a_request_or_more(waiting, grows):
    moments = [moment(i + 0.0, i + 0.9, waiting=count) for i, count in enumerate(waiting)]
    assert results.queue_grows([*moments, moment(90, 91, waiting=50)], last_arrival=4.0) is grows
    assert results.queue_grows(moments, last_arrival=0.0) is None


def test_the_stable_rate_is_the_highest_below_the_first_at_which_the_queue_grows():
    def rows(*grows):
        return [{"line": "paged", "rate": 2.0**i, "queue_grows": each} for i, each in enumerate(grows)]

    assert results.stable_rate(rows(False, False, True, False), "paged") == 2
    assert results.stable_rate(rows(True, False), "paged") is None
    assert results.stable_rate(rows(False, None), "paged") == 1
    assert results.stable_rate(rows(False), "max") is None


@pytest.mark.parametrize("count", [1, 199, 200, 201, 1234])
def test_over_time_keeps_a_few_moments_in_order(count):
    moments = [
        SimpleNamespace(**vars(moment(i, i + 1, waiting=i, states=i)), total_slots=2 * count) for i in range(count)
    ]
    kept = results.over_time(moments)
    assert min(count, results.POINTS / 2 - 1) <= len(kept["end_s"]) <= results.POINTS
    assert kept["end_s"] == sorted(kept["end_s"])
    assert [end - 1 for end in kept["end_s"]] == kept["waiting"]
    assert kept["kv"]["states"] == [waiting / (2 * count) for waiting in kept["waiting"]]


def test_the_curve_is_read_off_straight_lines_and_not_beyond_its_ends():
    points = [{"running": 8.0, "tokens_per_s": 300.0}, {"running": 1.0, "tokens_per_s": 100.0}]
    points.append({"running": 4.0, "tokens_per_s": 220.0})
    read = [batch_curve.tokens_per_s(points, running) for running in (1, 2.5, 4, 7, 8, 0.5, 9)]
    assert read == pytest.approx([100, 160, 220, 280, 300, None, None])
    assert batch_curve.tokens_per_s([], 3) is None


def test_a_batch_is_full_while_somebody_waits():
    from minipaged.bench import service
    from minipaged.bench.serve_lines import VOCAB_SIZE, capped_line

    asked = [Asked(float(i), 4 + i, 6) for i in range(3)]
    line = capped_line(2, asked, service.prompts_for(asked, VOCAB_SIZE), 4)
    service.serve([line])
    assert line.num_asked == line.num_finished == 40  # the three over and over, all at once
    assert [each.num_prompt_tokens for each in line.requests()] == [*([4, 5, 6] * 13), 4]
    point = batch_curve.point_of(line)
    busy = results.busy_moments(line.moments)
    assert 1.5 < point["running"] <= 2 and point["steps"] == len(busy)
    assert point["tokens_per_s"] == sum(each.num_sampled for each in busy) / sum(each.end - each.start for each in busy)


def test_both_sides_of_the_indirection_find_the_same():
    import torch

    from minipaged.bench.indirection import sides
    from minipaged.model.weights import GPTConfig

    for batch, context, block_size in ((1, 5, 4), (3, 16, 4), (2, 33, 16)):
        paged, contiguous = sides(batch, context, block_size, GPTConfig())
        assert torch.allclose(paged(), contiguous(), atol=1e-5) and paged().shape == (batch, 6, 32)


SMALL = ["--requests", "5", "--scale", "0.05", "--lines", "paged,max", "--batches", "1,2", "--block-sizes", "4,8"]


@pytest.mark.slow
def test_the_command_measures_all_parts_and_the_figures_are_drawn(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason='the figures need matplotlib: pip install -e ".[lessons]"')
    from visualize import plots_command

    serve.main([*SMALL, "--rate", "5,500", "--goodput", "ttft:1,normalized:0.5", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [(row["line"], row["rate"]) for row in told["lines"]] == [
        ("paged", 5),
        ("max", 5),
        ("paged", 500),
        ("max", 500),
    ]
    assert len(told["curve"]) == 2 and [row["block_size"] for row in told["block_sizes"]] == [4, 8]
    assert [row["batch"] for row in told["indirection"]] == [1, 1, 8, 8, 32, 32] and told["partial"] is False
    for row in told["lines"]:
        assert 0 < row["goodput_per_s"] <= row["requests_per_s"] and row["queue_grows"] in (False, True, None)
    for row in told["block_sizes"]:
        assert row["filled"] == pytest.approx(row["filled_by_lengths"], abs=0.01)
    text = serve_report.report(told)
    assert (
        "goodput/s" in text and "The highest of the rates" in text and "The batch curve" in text and "nan" not in text
    )
    file = tmp_path / "run.json"
    file.write_text(json.dumps(told))
    plots_command.main([str(file)])
    names = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert names == ["run-curve.svg", "run-latency.svg", "run-memory-max.svg", "run-memory-paged.svg"]
    assert all(path.read_text().startswith("<svg ") for path in tmp_path.glob("*.svg"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--parts", "line"], "--parts 'line': must be some of lines, curve, blocks, indirection"),
        (["--batches", "0"], "--batches=0: must be a whole number, from 1 to 256"),
        (["--block-sizes", "4,x"], "--block-sizes='x': must be a whole number"),
        (
            ["--goodput", "ttft"],
            "--goodput 'ttft': must be one of ttft, tpot, e2e, normalized, a colon, and seconds above 0",
        ),
        (["--goodput", "ttft:-1"], "--goodput 'ttft:-1': must be one of"),
        (["--goodput", "speed:1"], "--goodput 'speed:1': must be one of"),
        (["--rate", "4,fast"], "--rate 'fast': must be all-at-once, given, or a number above 0"),
        (["--rate-scale", "0"], "scale of rate=0.0: must be a number above 0"),
    ],
)
def test_bad_input_is_one_clear_line(args, said):
    with pytest.raises(ValueError) as error:
        serve.main(args)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "must be JSON"), ("[1]", "not what `bench serve --json` prints"), ("{}", "not what `bench serve"),
        ('{"lines": [], "curve": []}', "no line was measured"),
        ('{"lines": [3], "curve": []}', "not what `bench serve"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_named(tmp_path, content, said):
    pytest.importorskip("matplotlib", reason='the figures need matplotlib: pip install -e ".[lessons]"')
    from visualize import plots_command

    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(ValueError) as error:
        plots_command.main([str(file)])
    assert str(error.value).startswith(f"{file}: ") and said in str(error.value)
