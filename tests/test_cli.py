"""python -m minipaged: what it prints, what it refuses, how it ends. Most tests run it as a program."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from minipaged import cli

GREEDY = ["generate", "--temperature", "0"]
PROMPT = ["--prompt", "HAMLET:\n"]
SLOW = partial(pytest.param, marks=pytest.mark.slow)


def start(*args, **how):
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"} | how
    return subprocess.Popen([sys.executable, "-m", "minipaged", *args], **how)


def run(*args, **how):
    """Returns its exit status, stdout and stderr."""
    process = start(*args, **how)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def answers(capsys, settings, dense, prompts, **params):
    """What `generate --json` prints for them, in this process."""
    from minipaged.serving.sequence import SamplingParams

    cli.generate(cli.load(settings, dense), prompts, SamplingParams(**params), as_json=True)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("command", [["--help"], ["generate", "--help"], ["bench", "--help"]])
def test_help_needs_no_torch(command):
    code = f"import sys; sys.modules['torch'] = None; from minipaged.__main__ import main; main({command})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: python -m minipaged" in done.stdout


def test_help_tells_the_defaults_of_the_engine():
    import inspect

    from minipaged.serving.llm import DEFAULT_BLOCKS, LLM

    _, text, _ = run("generate", "--help", env=os.environ | {"COLUMNS": "200"})
    defaults = {name: each.default for name, each in inspect.signature(LLM).parameters.items()}
    defaults["num_blocks"] = DEFAULT_BLOCKS  # unless --kv-memory is given
    for name in ("block_size", "num_blocks", "max_num_seqs", "attention", "dtype"):
        about = text.split(f"\n  --{name.replace('_', '-')} ")[1].split("\n  --")[0]
        assert f"default {defaults[name]}" in about


@pytest.mark.parametrize(
    "args, says",
    [
        ([], "generate|bench"),
        (["fly"], "'generate'"),
        (["generate"], "give --prompt or --prompts-file"),
        (["generate", "--prompt", ""], "at least 1 character"),
        (["generate", *PROMPT, "--stop", ""], "at least 1 character"),
        (["generate", *PROMPT, "--max-tokens", "0"], "max_tokens=0"),
        (["generate", *PROMPT, "--max-tokens", "1.5"], "'1.5' must be a whole number"),
        (["generate", *PROMPT, "--temperature", "-1"], "temperature=-1.0"),
        (["generate", *PROMPT, "--temperature", "nan"], "temperature=nan"),
        (["generate", *PROMPT, "--top-p", "0"], "top_p=0.0"),
        (["generate", *PROMPT, "--top-k", "-5"], "top_k=-5"),
        (["generate", *PROMPT, "--seed", "-1"], "seed=-1"),
        (["generate", *PROMPT, "--attention", "fast"], "reference"),
        (["generate", *PROMPT, "--num-blocks", "9999999999"], "at most 1,048,576"),
        SLOW(["generate", *PROMPT, "--num-blocks", "-2000000", "--block-size", "-1"], "num_blocks=-2000000"),
        (["generate", *PROMPT, "--dense", "--attention", "batched"], "--dense with --attention batched"),
        (["generate", *PROMPT, "--dense", "--num-blocks", "9"], "--dense with --num-blocks 9"),
        (["generate", *PROMPT, "--dense", "--no-prefix-caching"], "--dense with --no-prefix-caching: it has no cache"),
        (["generate", *PROMPT, "--dense", "--memory", "max"], "--dense with --memory max: it has no cache"),
        (["generate", *PROMPT, "--memory", "min"], "argument --memory: invalid choice: 'min'"),
        (
            ["generate", *PROMPT, "--memory", "max", "--n", "2"],
            "--n 2 with --memory max: answers share a prompt in paged",
        ),
        (["generate", *PROMPT, "--memory", "pow2", "--beam-width", "2"], "--beam-width 2 with --memory pow2: answers"),
        (["generate", *PROMPT, "--memory", "max", "--mine"], "--mine with --memory max: your parts build paged memory"),
        SLOW(["generate", *PROMPT, "--memory", "max", "--num-blocks", "9"], "a run (memory='max') of 64 blocks of 16"),
        (["generate", *PROMPT, "--max-toke", "1"], "--max-toke"),
        (["bench"], "decode|bookkeeping"),
        (["bench", "speed"], "bookkeeping"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(args, says):
    status, out, err = run(*args)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("minipaged: ") and says in err


def test_what_the_engine_refuses_is_one_line_too():
    status, out, err = run("generate", *PROMPT, "--model", "gpt-5")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "model='gpt-5'" in err


def test_prompts_files(tmp_path):
    file = tmp_path / "prompts"
    file.write_bytes("\ufeffHAMLET:\\nTo be\r\n\n  \nKÖNIG:\u2028\n".encode())
    assert cli.read_prompts(file) == ["HAMLET:\nTo be", "KÖNIG:\u2028"]

    for content, says in ((b"", "no prompt"), (b"\n  \n", "no prompt"), (b"To be\xff", "UTF-8, and byte 5")):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=says):
            cli.read_prompts(file)
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ValueError, match=path.name):
            cli.read_prompts(path)
        status, out, err = run("generate", "--prompts-file", str(path))
        assert (status, out, err.count("\n")) == (2, "", 1)


def test_prompts_are_answered_in_order(tmp_path, capsys):
    from minipaged.serving.sequence import SamplingParams

    (tmp_path / "prompts").write_text("OPHELIA:\\n\n")
    args = [*PROMPT, "--prompt", "To be", "--prompts-file", str(tmp_path / "prompts"), "--max-num-seqs", "2"]
    status, out, err = run(*GREEDY, *args, "--max-tokens", "5", "--json")
    assert (status, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    prompts = [each["prompt"] for each in records]
    assert prompts == ["HAMLET:\n", "To be", "OPHELIA:\n"]
    assert [len(each["token_ids"]) for each in records] == [5, 5, 5]
    assert all(each["finish_reason"] == "length" and each["cumulative_logprob"] < 0 for each in records)

    cli.generate(cli.load({}, False), prompts, SamplingParams(temperature=0, max_tokens=5), as_json=False)
    expected = [f"prompt {i}: {each['prompt']!r}\n{each['text']}\n\n" for i, each in enumerate(records)]
    assert capsys.readouterr().out == "".join(expected)


def test_dense_gives_the_tokens_of_the_paged_engine(capsys):
    prompts = ["HAMLET:\n", "To be, or not to be", "What say you, " * 20, "KÖNIG"]  # the third takes several steps
    for params in (
        {"temperature": 0, "max_tokens": 12},
        {"temperature": 0.9, "max_tokens": 12, "top_k": 50, "top_p": 0.9, "ignore_eos": True},
        {"temperature": 1.0, "max_tokens": 12, "stop": ["e", "th"]},
    ):
        small = {"dtype": "float64", "seed": 3, "block_size": 4, "num_blocks": 250, "max_num_seqs": 3}
        large = {"dtype": "float64", "seed": 3, "max_num_batched_tokens": 32}
        paged = answers(capsys, small, False, prompts, **params)
        dense = answers(capsys, large, True, prompts, **params)
        logprobs = [[each.pop("cumulative_logprob") for each in records] for records in (paged, dense)]
        assert paged == dense
        assert logprobs[0] == pytest.approx(logprobs[1], abs=1e-9)


@pytest.mark.slow
def test_another_memory_gives_the_same_answers(capsys):
    """That all of them do is tested in test_memories.py."""
    prompts, args = ["HAMLET:\n", "O"], [*GREEDY, *PROMPT, "--prompt", "O", "--max-tokens", "9", "--json"]
    status, out, err = run(*args, "--num-blocks", "64", "--memory", "pow2", "--dtype", "float64")
    assert (status, err) == (0, "")
    expected = answers(capsys, {"dtype": "float64"}, False, prompts, temperature=0, max_tokens=9)
    assert [json.loads(line)["token_ids"] for line in out.splitlines()] == [each["token_ids"] for each in expected]


@pytest.mark.slow
def test_prompts_that_begin_alike(capsys):
    """The third finds what the first computed, and has the answers of an engine that computes everything."""
    alike, other = "What say you, " * 9, "To be, or not to be, " * 9
    prompts = [f"{alike}one", f"{other}two", f"{alike}three"]
    params, small = {"temperature": 0, "max_tokens": 5}, {"dtype": "float64", "max_num_seqs": 1}
    runs = [answers(capsys, {**small, "enable_prefix_caching": on}, False, prompts, **params) for on in (True, False)]
    runs.append(answers(capsys, {"dtype": "float64"}, True, prompts, **params))
    found = [[each.pop("num_cached_tokens") for each in records] for records in runs]
    assert [tokens > 0 for tokens in found[0]] == [False, False, True] and found[1] == found[2] == [0, 0, 0]
    assert found[0][2] % 16 == 0
    logprobs = [[each.pop("cumulative_logprob") for each in records] for records in runs]
    assert runs[0] == runs[1] == runs[2] and logprobs[0] == pytest.approx(logprobs[2], abs=1e-9)
    args = [part for prompt in prompts for part in ("--prompt", prompt)]
    for option, expected in (("--max-num-seqs=1", found[0]), ("--no-prefix-caching", [0, 0, 0])):
        status, out, _ = run(*GREEDY, *args, option, "--max-tokens", "2", "--json")
        assert status == 0 and [json.loads(line)["num_cached_tokens"] for line in out.splitlines()] == expected


def test_the_settled_part_of_a_text():
    from minipaged.serving.stopping import settled

    assert settled("caf\ufffd", []) == "caf"
    assert settled("a\ufffdb", []) == "a\ufffdb"
    assert settled("To be", ["being"]) == "To "
    assert settled("To b", ["x", "b!", " b."]) == "To"
    assert settled("To be", ["xe", "b"]) == "To be"


@pytest.mark.slow
def test_a_terminal_gets_the_same_text_as_a_pipe(capsys):
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    args = [*GREEDY, *PROMPT, "--max-tokens", "20"]
    ours, theirs = pty.openpty()
    process = start(*args, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # Linux's way to say that the other side is closed
        while piece := os.read(ours, 1000):
            shown += piece
    os.close(ours)
    assert process.wait(timeout=60) == 0
    [answer] = answers(capsys, {}, False, ["HAMLET:\n"], temperature=0, max_tokens=20)
    assert shown.decode().replace("\r\n", "\n") == answer["text"] + "\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(
    "name, status, is_loading", [("SIGINT", 130, True), ("SIGTERM", 143, True), SLOW("SIGINT", 130, False)]
)
def test_signals_end_it_quietly(name, status, is_loading):
    many = [part for i in range(2000) for part in ("--prompt", f"ROMEO {i}:\n")]
    process = start("generate", *many, "--max-num-seqs", "1", "--max-tokens", "40", "--json")
    if is_loading:
        time.sleep(0.6)
    else:
        assert json.loads(process.stdout.readline())["index"] == 0
    process.send_signal(getattr(signal, name))
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (status, "")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_broken_pipe_is_a_reader_who_has_seen_enough():
    process = start(*GREEDY, *PROMPT, "--max-tokens", "3")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 0


@pytest.mark.skipif(os.name == "nt", reason="POSIX descriptors")
def test_without_standard_output_it_says_so():
    process = start(*GREEDY, *PROMPT, stdout=None, preexec_fn=lambda: os.close(1))
    assert process.stderr.read().count("\n") == 1
    assert process.wait(timeout=60) == 2
