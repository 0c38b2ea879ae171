"""The visualizer as a program: its keys on a pseudo-terminal, its ways to end, its output where there is no terminal.

Most tests run it with an engine without a model, so that they start at once; one runs `python -m visualize` as it is.
"""

import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from harness import some_slow

from visualize.__main__ import main
from visualize.keys import Keys
from visualize.scenarios import ALL
from visualize.snapshot import SCHEMA

fcntl = pytest.importorskip("fcntl", reason="Windows has no pseudo-terminals")
termios = pytest.importorskip("termios")

TESTS = Path(__file__).parent
STUB = f"""
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal, as in any terminal
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent)!r}]
from test_visualize import MIXED, POOL, ModelFreeEngine, Run
from visualize import app, player
from visualize.ink import ink_for
from visualize.signals import Signals
player.STEP_SECONDS = player.LANDMARK_SECONDS = 0.15
def load():
    with signals.held():
        {{action}}
    return Run(MIXED, ModelFreeEngine(**MIXED.settings | POOL))
with Signals() as signals:
    app.watch(load, ink_for(sys.stdout.encoding), signals)
"""
REAL = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("visualize", run_name="__main__", alter_sys=False)
"""


class Terminal:
    """A program on a pseudo-terminal: what it has drawn last, and whether it leaves the terminal as it found it."""

    def __init__(self, code, *args, size=(100, 30), **env):
        self.master, self.slave = os.openpty()
        self.resize(*size)
        self.settings = termios.tcgetattr(self.slave)
        self.output = ""
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        environ |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **env}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), self.slave)
        command = [sys.executable, "-c", code, *args]
        self.program = subprocess.Popen(command, start_new_session=True, env=environ, cwd=TESTS.parent, **streams)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.program.kill()
        self.program.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self, seconds):
        """Read what comes within some time. False once nothing more can come."""
        if not select.select([self.master], [], [], seconds)[0]:
            return self.program.poll() is None
        self.output += os.read(self.master, 65536).decode(errors="replace")
        return True

    def wait_for(self, pattern, seconds=30):
        """Wait until the newest frame matches."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if re.search(pattern, self.frame()):
                return
            self.read(0.05)
        raise AssertionError(f"no {pattern!r} in:\n{self.frame()}")

    def frame(self):
        """The text of the newest frame, without its escape sequences."""
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self.output)
        return text[max(text.rfind("minipaged "), 0) :]

    def step(self):
        return int(re.search(r"step (\d+)", self.frame())[1])

    def ends(self, status):
        """The program has ended with this status, the screen and the terminal's settings are as they were."""
        deadline = time.monotonic() + 20
        while self.read(0.05) and time.monotonic() < deadline:
            pass
        assert self.program.wait(1) == status, self.output[-2000:]
        assert termios.tcgetattr(self.slave) == self.settings
        assert self.output.count("\x1b[?1049h") == self.output.count("\x1b[?1049l") == 1
        assert self.output.rfind("\x1b[?25h") > self.output.rfind("\x1b[?25l") >= 0
        return True


def stub(action="pass", **env):
    return Terminal(STUB.format(action=action), **env)


@pytest.mark.slow
def test_keys_and_a_resize():
    with stub() as terminal:
        terminal.wait_for(r"step 0[\s\S]* playing ")
        terminal.press(" ")  # stops the playing, and goes one step
        terminal.wait_for(r"step \d+[\s\S]* paused ")
        step = terminal.step()
        terminal.press(" ")
        terminal.wait_for(rf"step {step + 1} ")
        terminal.press("\x1b[C")  # the right arrow
        terminal.wait_for(rf"step {step + 2} ")
        terminal.press("\x1bOC  ")  # as some terminals send it; several keys at once
        terminal.wait_for(rf"step {step + 5} ")
        terminal.press("xyz\x1b[A\x1b[15~")  # keys without a meaning
        time.sleep(0.5)
        terminal.read(0)
        assert terminal.step() == step + 5 and termios.tcgetattr(terminal.slave) != terminal.settings
        terminal.resize(140, 40)
        terminal.wait_for(r"── Requests.*── Physical KV cache: 45 blocks")
        terminal.resize(40, 10)
        terminal.wait_for("This terminal is 40x10;")
        terminal.resize(80, 24)
        terminal.wait_for(rf"step {step + 5} [\s\S]* paused ")
        terminal.press("p")
        terminal.wait_for(r"finished   no request is left[\s\S]*quit")
        last = terminal.step()
        terminal.press(" p")
        time.sleep(0.4)
        terminal.read(0)
        assert terminal.step() == last and terminal.program.poll() is None
        terminal.press("bb\x1b[D")
        terminal.wait_for(rf"step {last - 3} [\s\S]* paused ")
        terminal.press("g")
        terminal.wait_for(r"step 0[\s\S]* paused ")
        terminal.press("]")
        terminal.wait_for(r"step 1 ")
        terminal.press("G[")
        terminal.wait_for(rf"step (?!{last} )\d+ [\s\S]* paused ")
        terminal.press("?")
        terminal.wait_for(r"Keys[\s\S]*one step back")
        terminal.press("qw")  # q leaves the help
        terminal.wait_for(r"focus +D[^\n]*\n?[\s\S]{0,100}── Why")
        terminal.press("w\t")
        terminal.wait_for(r"focus +D[\s\S]* Physical KV cache")
        terminal.press("+---r")
        terminal.wait_for(r"step 0[\s\S]* playing  x0.25")
        terminal.press("q")
        assert terminal.ends(0)


@pytest.mark.parametrize("key", ["q", "\x1b"], ids=["q", "Esc"])
def test_quitting_at_once(key):
    with stub() as terminal:
        terminal.wait_for(" playing ")
        started = time.monotonic()
        terminal.press(key)
        assert terminal.ends(0) and time.monotonic() - started < 5


def test_an_arrow_in_two_parts_and_an_escape_alone(monkeypatch):
    master, slave = os.openpty()
    with os.fdopen(slave) as stream, Keys(stream) as keys:
        os.write(master, b"\x1b")
        started = time.monotonic()
        assert keys.read(10) == "escape" and time.monotonic() - started < 5
        monkeypatch.setattr("visualize.keys.ESCAPE_PAUSE", 10)
        threading.Timer(0.1, os.write, (master, b"[C")).start()
        os.write(master, b"\x1b")
        assert keys.read(10) == "right"
        assert keys.read(0) is None
    os.close(master)


def test_without_a_terminal_there_are_no_keys():
    with open(os.devnull) as stream, Keys(stream) as keys:
        assert not keys.available and keys.read(0) is None


def test_ctrl_c():
    with stub() as terminal:
        terminal.wait_for(" playing ")
        terminal.press("\x03")
        assert terminal.ends(130) and "Traceback" not in terminal.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("when", some_slow(["playing", "loading"], ["playing"]))
def test_signals(when, number):
    """While the model is loaded a signal waits, since an import must not be broken off; then the program ends."""
    with stub("__import__('time').sleep(1)" if when == "loading" else "pass") as terminal:
        terminal.wait_for(when)
        terminal.program.send_signal(number)
        assert terminal.ends(128 + number) and "Traceback" not in terminal.output


def test_ctrl_z_is_no_key():
    """A shell must not find itself on the alternate screen; the settings come back at the end (`ends` looks)."""
    with stub() as terminal:
        terminal.wait_for(" playing ")
        terminal.press("\x1a")
        terminal.press("p")
        terminal.wait_for(" paused ")
        terminal.press("q")
        assert terminal.ends(0)


@pytest.mark.parametrize(
    "odd", [{"COLUMNS": "0"}, {"COLUMNS": "²", "LINES": "7"}, {"FORCE_COLOR": ""}, {"TERM": "odd"}]
)
def test_an_odd_environment(odd):
    with stub(**odd) as terminal:
        terminal.wait_for(" playing ")
        terminal.press("q")
        assert terminal.ends(0)


def test_what_begins_with_escape_is_one_key_to_its_end():
    master, slave = os.openpty()
    with os.fdopen(slave) as stream, Keys(stream) as keys:
        os.write(master, b"\x1b[A \x1b[1;5C \x1bx\x1bOQq\x1b\x1b[C")
        pressed = [keys.read(1) for _ in range(9)]
        assert pressed == [None, " ", None, " ", None, None, "q", "escape", "right"]
        os.write(master, b"  " + b"\x1bOQ" * 25)  # more than one read takes
        assert {keys.read(0.1) for _ in range(27)} == {" ", None}
        os.write(master, b"\x1b")
        for i, part in enumerate((b"[", b"C"), start=1):
            threading.Timer(0.01 * i, os.write, (master, part)).start()
        assert keys.read(1) == "right"
    os.close(master)


def test_an_exception_is_shown_on_the_restored_screen():
    with stub("raise RuntimeError('something broke')") as terminal:
        assert terminal.ends(1)
        assert terminal.output.rfind("something broke") > terminal.output.rfind("\x1b[?1049l")


def test_no_color_and_ascii():
    with stub(NO_COLOR="1", PYTHONIOENCODING="ascii") as terminal:
        terminal.wait_for(r"step 3 ")
        terminal.press("q")
        assert terminal.ends(0) and terminal.output.isascii()
        assert not re.search(r"\x1b\[[\d;]*[34]8;", terminal.output)  # no colour of text or ground


def test_the_program_itself():
    with Terminal(REAL, size=(140, 40)) as terminal:
        terminal.wait_for("loading")
        terminal.wait_for(r"HAMLET:↵To be, or not to be:[\s\S]* playing ")
        terminal.press(" " * 12)
        terminal.wait_for(r"step 1[2-4] [\s\S]* paused ")
        terminal.press("q")
        assert terminal.ends(0)


def test_a_pipe_gets_plain_frames(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["--frames", "3", "--seed", "5"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"step (\d+)\n", out) == ["0", "1", "2"] and "\x1b" not in out
    assert max(map(len, out.split("\n"))) <= 100


@pytest.mark.slow
def test_a_pipe_that_carries_only_ascii():
    command = [sys.executable, "-m", "visualize"]
    environ = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=TESTS.parent)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.isascii()
    steps = re.findall(r"step (\d+)\n", done.stdout)
    assert steps == [str(i) for i in range(len(steps))] and len(steps) > 40


@pytest.mark.slow
def test_a_pipe_closed_early_is_no_error():
    command = ["bash", "-c", f"set -o pipefail; {sys.executable} -m visualize --json | head -c 100"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TESTS.parent)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(f'{{"schema": {SCHEMA}, "step": 0')


def test_json_is_one_snapshot_a_line_and_repeatable(capsys):
    def lines(*args):
        assert main(["--json", "--frames", "8", "--block-size", "8", "--num-blocks", "9", *args]) == 0
        return capsys.readouterr().out.splitlines()

    first = lines()
    read = [json.loads(each) for each in first]
    assert [each["step"] for each in read] == list(range(8))
    assert all((each["block_size"], each["num_blocks"]) == (8, 9) for each in read)
    assert lines("--seed", "0") == first != lines("--seed", "1")


def test_another_attention_tells_the_same_story(capsys):
    told = []
    for attention in ("batched", "reference", "triton") if find_spec("triton") else ("batched", "reference"):
        assert main(["--scenario", "growth", "--frames", "4", "--plain", "--attention", attention]) == 0
        told.append(capsys.readouterr().out)
    assert len(set(told)) == 1 and "A" in told[0]


def test_a_picture(tmp_path):
    path = tmp_path / "frame.svg"
    assert main(["--save-svg", str(path), "--frames", "4"]) == 0
    svg = path.read_text(encoding="utf-8")
    assert svg.startswith("<svg") and "HAM" in svg and "@font-face" not in svg and "url(http" not in svg


def test_a_picture_that_cannot_be_written(tmp_path, capsys):
    assert main(["--save-svg", str(tmp_path / "no" / "frame.svg"), "--frames", "1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "frame.svg: No such file" in error


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("--num-blocks 0", "--num-blocks: '0' must be a whole number from 1 to 4,096"),
        ("--block-size many", "--block-size: 'many' must be a whole number from 1 to 256"),
        ("--frames -1", "--frames: '-1' must be a whole number from 1"),
        ("--seed 1.5", "--seed: '1.5' must be a whole number from 0"),
        ("--fps 0", "--fps: '0' must be a number above 0 and at most 10"),
        ("--fps nan", "--fps: 'nan' must be a number above 0"),
        ("--once 1 --save-animation x", "--save-animation with --once"),
        ("--max-tokens 5 --replay x", "--replay with --max-tokens"),
        ("--once 1 --plain", "--once prints one frame: leave out"),
        ("--scenario mixed hello", "--scenario and prompts: only one of them"),
        ("--replay x --no-prefix-caching", "--replay with --no-prefix-caching"),
        ("--replay x --seed 3", "--replay with --seed: "),
        ("--replay x --attention triton", "--replay with --attention"),
        ("--attention foo", "invalid choice: 'foo' (choose from 'auto', 'batched', 'reference', 'triton')"),
        ("--max-tokens 3", "--max-tokens is for your own prompts"),
        ("--n 0 hello", "--n: '0' must be a whole number from 1 to 8"),
        ("--beam-width 9 hello", "--beam-width: '9' must be a whole number from 1 to 8"),
        ("--n 2 --beam-width 2 hello", "--n with --beam-width: answers are drawn or searched for"),
        ("--beam-width 2", "--beam-width is for your own prompts"),
        ("--n 2 --replay x", "--replay with --n"),
        ("hello --memory foo", "argument --memory: invalid choice: 'foo'"),
        ("hello --memory max --n 2", "--n 2 with --memory max: answers share a prompt in paged memory only"),
        ("hello --memory pow2 --beam-width 3", "--beam-width 3 with --memory pow2: answers share"),
        ("--replay run --memory max", "--replay with --memory: a recording is what it is"),
        ("--record= hello", "--record: the file's name is empty"),
        ("--json --save-svg x", "--save-svg: not allowed with argument --json"),
        ("--sped 3", "--sped (--help lists what is allowed)"),
    ],
)
def test_a_bad_value_is_one_clear_line(args, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(args.split())
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("--num-blocks 4000 --block-size 200", "makes 800,000 slots: at most 65,536 are allowed"),
        (
            "--scenario presure",
            "--scenario 'presure': must be one of growth, mixed, pressure, reservations, preemption-recompute, "
            "preemption-swap, chunked-prefill, parallel-sampling, "
            "beam-search, shared-prefix, chat, quantised, kernel. "
            "Did you mean 'pressure'?",
        ),
        ("--memory max --mine", "--mine with --memory max: your parts build paged memory only"),
        ("--scenario reservations --mine", "--mine with --memory max: your parts build paged memory only"),
        ("--once 999", "--once 999: must be a step of this run, which has steps 0 to "),
        ("--replay no/such/file", "no/such/file: No such file"),
        ("--record no/such/file --frames 1", "no/such/file: No such file"),
    ],
)
def test_what_cannot_be_had_is_one_clear_line(args, said, capsys):
    assert main(args.split()) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_scenarios_are_listed_and_can_be_watched(capsys):
    assert main(["--list"]) == 0
    names = re.findall(r"^([\w-]+) ", capsys.readouterr().out, flags=re.MULTILINE)
    assert names == [*ALL]
    for name in names:
        assert main(["--scenario", name, "--frames", "1", "--ascii"]) == 0
        out = capsys.readouterr().out
        assert out.isascii() and "step 0" in out


def test_what_goes_wrong_leaves_files_as_they_were(tmp_path, capsys):
    file = tmp_path / "keep"
    file.write_text("precious")
    assert main(["--record", str(file), "--scenario", "typo"]) == 2
    assert main(["--save-svg", str(file), "--once", "999"]) == 2
    with pytest.raises(SystemExit):
        main(["--record", str(file), "--save-svg", str(file)])
    assert file.read_text() == "precious" and "two options name the same file" in capsys.readouterr().err


def test_own_prompts(capsys):
    assert main(["ROMEO:", "KING:\nWho", "--max-tokens", "3", "--plain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "your 2 prompts" and all(re.match(r"step \d+: .*\.$", each) for each in lines[1:])
    assert sum("is finished: it has generated 3 tokens" in each for each in lines) == 2


def test_one_step_alone_is_the_frame_of_that_step(capsys):
    assert main(["--frames", "8"]) == 0
    frames = capsys.readouterr().out.rstrip().split("\n\nminipaged ")
    assert main(["--once", "7"]) == 0
    [once] = capsys.readouterr().out.rstrip().split("\n\nminipaged ")
    assert once.splitlines()[1:-2] == frames[7].splitlines()[1:-2]  # but for the first: it was taken apart at its name


@pytest.mark.slow
def test_auto_plays_to_the_end_and_leaves():
    with Terminal(REAL.replace("run_name", "run_name"), "--auto", "--fps", "10", "--scenario", "growth") as terminal:
        terminal.wait_for(r"At no moment did either", seconds=60)
        assert terminal.ends(0)
