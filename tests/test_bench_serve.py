"""The real engine under load: lines beside one another, what is noted of them, and the command."""

import json
import signal
import subprocess
import sys
from itertools import pairwise

import pytest

from minipaged.bench import serve, serve_lines, workload
from minipaged.bench.results import result_of
from minipaged.bench.workload import Asked

ARGS = ["--parts", "lines", "--requests", "6", "--scale", "0.1", "--kv-memory", "256KiB"]


def served(names, asked, kv_memory=2**18, block_size=4, shared=0.5, dtype="float64"):
    from minipaged.bench import service

    prompts = service.prompts_for(asked, serve_lines.VOCAB_SIZE, shared)
    lines = [serve_lines.line_of(name, asked, prompts, kv_memory, block_size, dtype) for name in names]
    service.serve(lines)
    return lines


def stream(count, rate=None, scale=0.08, seed=0):
    return workload.scaled(workload.draw("paper-sharegpt", count, rate, seed), length=scale)


@pytest.mark.parametrize("rate", [None, 20.0])
def test_every_line_without_int8_gives_the_same_tokens(rate):
    names = [name for name in serve.LINES if "int8" not in name and name not in ("max", "all")]
    asked = stream(8, rate)
    expected, *others = (line.tokens() for line in served(names, asked, kv_memory=2**20))
    assert [len(tokens) for tokens in expected.values()] == [each.num_output_tokens for each in asked]
    assert others == [expected] * len(others)


def test_max_too_where_it_fits():
    asked = stream(4)
    paged, reserved = served(["paged", "max"], asked, kv_memory=2**22)
    assert paged.tokens() == reserved.tokens() and len(paged.tokens()) == 4


@pytest.mark.parametrize("name", serve.LINES)
def test_what_is_noted_is_what_happened(name):
    asked = stream(10, rate=30.0)
    [line] = served([name], asked, kv_memory=2**22, dtype="float32")
    assert line.is_over and line.num_finished == 10 and not line.refused
    for before, after in pairwise(line.moments):
        assert before.start < before.end <= after.start < after.end
    for moment in line.moments:
        assert sum(moment.slots.values()) <= moment.total_slots and min(moment.slots.values()) >= 0
        assert moment.num_running >= 1 and moment.num_tokens >= moment.num_running
    requests = line.requests()
    assert [each.arrival for each in requests] == [each.arrival for each in asked]
    assert [each.num_prompt_tokens for each in requests] == [each.num_prompt_tokens for each in asked]
    for request in requests:
        assert request.arrival <= request.first_scheduled < request.token_times[0]
        assert any(moment.start <= request.token_times[-1] <= moment.end for moment in line.moments)
    # Every token but each request's last is computed once, or more often, or was found in the cache.
    needed = sum(each.num_tokens - 1 for each in asked)
    again = sum(each.num_recomputed_tokens for each in requests)
    cached = sum(each.num_cached_tokens for each in requests)
    assert sum(moment.num_tokens for moment in line.moments) == needed + again - cached
    assert bool(cached) == (name in ("paged+prefix", "all"))
    result = result_of(line)
    assert result["completed"] == 10 and json.loads(json.dumps(result)) == result


def test_a_clock_stands_still_while_others_work():
    from minipaged.bench.service import OwnTime

    clock = OwnTime()
    assert clock() == clock() == 0.0
    with clock.running():
        assert 0 <= clock() <= clock()
    stopped = clock()
    assert stopped == clock() > 0
    clock.skip_to(9.0)
    assert clock() == 9.0
    clock.skip_to(3.0)
    assert clock() == 9.0


def test_nobody_arrives_before_its_time():
    [line] = served(["paged"], [Asked(0.0, 5, 2), Asked(1000.0, 5, 2)])
    first, second = line.requests()
    assert first.token_times[-1] < 1000 <= second.first_scheduled < 1001
    assert len(line.moments) == 4


def test_max_holds_as_many_contexts_as_fit_and_paged_far_more():
    asked = stream(24, scale=0.15)
    reserved, paged = map(
        result_of, served(["max", "paged"], asked, kv_memory=5 * 2**20, block_size=16, dtype="float32")
    )
    assert reserved["running"] == pytest.approx(2, abs=1e-9)  # two whole contexts, and half of one is left
    assert paged["running"] > 4 * reserved["running"]
    assert reserved["kv"]["states"] < 0.2 < 0.5 < reserved["kv"]["internal"]


def test_prompts_share_their_beginning_and_nothing_else():
    from minipaged.bench.service import prompts_for

    asked = stream(6, scale=1.0)
    prompts = prompts_for(asked, 1024, shared=0.5)
    assert [len(each) for each in prompts] == [each.num_prompt_tokens for each in asked]
    longest = max(prompts, key=len)
    for prompt in prompts:
        num_shared = len(prompt) // 2
        assert prompt[:num_shared] == longest[:num_shared] and max(prompt) < 1024
    assert prompts == prompts_for(asked, 1024, shared=0.5) != prompts_for(asked, 1024, shared=0.5, seed=1)


def test_what_cannot_run_is_refused_and_counted():
    [line] = served(["paged"], [Asked(0.0, 8, 8), Asked(0.0, 100, 60), Asked(0.0, 4, 4)], kv_memory=32 * 4096)
    assert [number for number, _ in line.refused] == [1] and sorted(line.tokens()) == [0, 2]
    assert result_of(line)["refused"] == 1


def test_the_command_prints_a_table_and_json(capsys):
    serve.main(["--lines", "paged,oracle", *ARGS])
    text = capsys.readouterr().out
    assert [row.split()[0] for row in text.split("\n")[1:3]] == ["paged", "oracle"]
    assert "6 requests of paper-sharegpt, lengths times 0.1, 262,144 bytes" in text and "PARTIAL" not in text
    serve.main(["--lines", "paged+int8", "--json", *ARGS])
    told = json.loads(capsys.readouterr().out)
    assert told["partial"] is False and [row["line"] for row in told["lines"]] == ["paged+int8"]
    assert told["lines"][0]["completed"] == 6


def test_what_is_too_long_is_counted(tmp_path, capsys):
    file = tmp_path / "lengths.csv"
    file.write_text("prompt_tokens,output_tokens\n4,3\n2000,9\n5,2\n")
    serve.main(["--workload", str(file), "--lines", "paged", "--scale", "1", "--kv-memory", "1MiB", "--parts", "lines"])
    text = capsys.readouterr().out
    assert "2 requests of" in text and "1 more are longer than the context of 1,024, and were left out" in text


def test_a_file_has_times_of_its_own(tmp_path, capsys):
    file = tmp_path / "trace.jsonl"
    rows = ({"timestamp": 1000 * i, "input_length": 5, "output_length": 2} for i in (0, 7, 20))
    file.write_text("\n".join(map(json.dumps, rows)))
    args = ["--workload", str(file), "--lines", "paged", "--scale", "1", "--json", "--parts", "lines"]
    durations = []
    for rate in ("given", "all-at-once"):
        serve.main([*args, "--rate", rate])
        durations.append(json.loads(capsys.readouterr().out)["lines"][0]["duration_s"])
    assert 20 < durations[0] < 21 and durations[1] < 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--workload", "azur"], "--workload azur: No such file: must be one of azure, sharegpt, mooncake, paper-"),
        (["--requests", "0"], "--requests=0: must be a whole number, 1 or more"),
        (["--scale", "0"], "scale of length=0.0: must be a number above 0"),
        (["--rate", "-1"], "--rate '-1': must be all-at-once, given, or a number above 0"),
        (["--rate", "soon"], "--rate 'soon': must be all-at-once, given, or a number above 0"),
        (["--rate", "given"], "--rate given with --workload paper-sharegpt: only a file has times"),
        (["--shared", "2"], "--shared=2.0: must be a part, from 0 to 1"),
        (["--kv-memory", "4096"], "--kv-memory='4096': must be a number and a unit"),
        (["--kv-memory", "1KiB"], "kv_memory of 1,024 bytes: must be from 32,768 bytes"),
        (["--lines", "paged,best"], "--lines 'best': must be some of max, pow2,"),
        (["--requests", "100000"], "tokens, at most 2,000,000 are allowed"),
        (["--scale", "1000"], "all have more than 1,024 tokens, at least"),
    ],
)
def test_bad_input_is_one_clear_line(args, said):
    with pytest.raises(ValueError) as error:
        serve.main(args)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_an_interrupted_run_tells_what_is_done():
    command = [sys.executable, "-m", "minipaged", "bench", "serve", "--requests", "500", "--lines", "paged", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(12)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and not errors
    told = json.loads(out)
    assert told["partial"] is True and told["lines"][0]["steps"] > 0 and told["lines"][0]["requests"] < 500


@pytest.mark.slow
def test_as_many_run_as_the_lengths_imply():
    """Beside a simulation that knows lengths only. Max keeps 7, as in the paper."""
    from residency import running_of

    names, block_size = ("max", "pow2", "oracle", "paged"), 4
    asked = stream(60, scale=0.5, seed=4)
    for line in served(names, asked, serve_lines.SLOTS * 2048, block_size, shared=0.0, dtype="float32"):
        counts = running_of(line.name, asked, line.engine.memory.num_blocks, block_size)
        result = result_of(line)
        found, expected = result["running"], sum(counts) / len(counts)
        assert abs(found - expected) < 0.1 * expected, (line.name, found, expected)
        if line.name == "max":
            assert round(found, 2) == expected == 7
        if line.name == "paged":
            states, internal = (result["kv"][name] for name in ("states", "internal"))
            assert (
                states / (states + internal) > 0.98
            )  # of what is allocated; 1.5 slots of a sequence's last block are not
