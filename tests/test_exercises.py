"""The harness of the exercises: the command, a learner's file that can't be used, what a run of the checks says.

Whether the exercises themselves are honest is asked in test_honesty.py.
"""

import io
import shutil
import subprocess
import sys
from collections import Counter

import exercise_plugin
import honesty
import pytest

from minipaged import exercises
from minipaged.exercise_command import main
from minipaged.exercises import EXERCISES

EX03 = EXERCISES["ex03"]
SOLVED = "from minipaged.memory.allocator import BlockAllocator\n"
BASE = "from minipaged.memory.allocator import BlockAllocator as Base\nclass BlockAllocator(Base):\n"


def run(capsys, *argv):
    """(exit status, stdout, stderr) of the command."""
    try:
        status = main(argv)
    except SystemExit as error:  # argparse's
        status = error.code
    return status, *capsys.readouterr()


def test_list(folder, capsys):
    (folder / EX03.file).write_text(SOLVED)
    (folder / EXERCISES["ex04"].file).write_text("def f(:")
    status, out, _ = run(capsys, "list")
    lines = out.splitlines()
    assert status == 0
    for exercise, line in zip(EXERCISES.values(), lines):
        assert line.startswith(exercise.id) and exercise.file in line
    states = [line.split(".py", 1)[1].strip() for line in lines[: len(EXERCISES)]]
    assert states[:4] == [
        "TODO",
        "TODO",
        "written",
        "can't be read: ex04_block_table.py, line 1: SyntaxError: invalid syntax",
    ]


def test_hints_grow(folder, capsys):
    hints = [run(capsys, "hint", "ex03", str(number))[1] for number in (1, 2, 3)]
    assert run(capsys, "hint", "ex03")[1] == hints[0]
    for number, hint in enumerate(hints):
        assert EX03.hints[number] in hint
    assert "hint ex03 2" in hints[0] and "hint ex03" not in hints[2]


def test_solution_names_file_and_line(folder, capsys):
    _, out, _ = run(capsys, "solution", "ex03")
    name, _, where = out.strip().partition(": ")
    file, line = where.split(", line ")
    assert name == "BlockAllocator"
    assert (exercises.ROOT / file).read_text().splitlines()[int(line) - 1].startswith("class BlockAllocator")


@pytest.mark.parametrize(
    "argv, message",
    [
        (["hint", "ex99"], "exercise 'ex99': must be one of ex01, ex02"),
        (["reset", "allocator"], "exercise 'allocator': must be one of ex01, ex02"),
        (["solution", "ex3"], "exercise 'ex3': must be one of"),
        (["hint", "ex03", "4"], "hint 4 of ex03: must be from 1 to 3"),
        (["hint", "ex03", "x"], "invalid int value: 'x'"),
        (["reset", "ex03"], "reset ex03: there is no terminal to ask on; --yes resets without asking"),
        ([], "required: list|hint|reset|solution"),
        (["solve"], "invalid choice: 'solve'"),
    ],
)
def test_wrong_commands(folder, capsys, monkeypatch, argv, message):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    status, out, err = run(capsys, *argv)
    assert status == 2 and out == ""
    assert message in err and err.count("\n") == 1 and err.startswith("minipaged.exercises: ")


def test_outside_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(exercises, "FOLDER", tmp_path / "nowhere")
    status, _, err = run(capsys, "list")
    assert status == 2 and "run this in a checkout of minipaged" in err


def test_reset_keeps_what_was_there(folder, capsys):
    path = folder / EX03.file
    for text in ("mine\n", "mine again\n"):
        path.write_text(text)
        assert run(capsys, "reset", "ex03", "--yes")[0] == 0
        assert path.read_text() == EX03.original.read_text()
    assert (folder / f"{EX03.file}.bak").read_text() == "mine\n"
    assert (folder / f"{EX03.file}.bak2").read_text() == "mine again\n"
    path.unlink()  # lost: it comes back
    for _ in range(2):
        assert run(capsys, "reset", "ex03", "--yes")[0] == 0
    assert not (folder / f"{EX03.file}.bak3").exists()  # there was nothing of theirs in it
    assert path.read_text() == EX03.original.read_text()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("typed", ["y\n", "YES\n", "\n", "n\n", "what\n", ""], ids=repr)  # the last: end of input
def test_reset_asks(folder, capsys, monkeypatch, typed):
    (folder / EX03.file).write_text("mine\n")
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert run(capsys, "reset", "ex03")[0] == 0
    assert ((folder / EX03.file).read_text() != "mine\n") == (typed.strip() in ("y", "YES"))


def check(tmp_path, text, exercise=EX03):
    """The outcomes of an exercise's checks on a file with this text."""
    path = tmp_path / exercise.file
    path.write_text(text)
    return honesty.outcomes_of(exercise, path)


UNUSABLE = {
    "def f(:": "ex03_allocator.py, line 1: SyntaxError: invalid syntax",
    "\0": "ex03_allocator.py",
    "x = 1\n1 / 0\n": "ex03_allocator.py, line 2: ZeroDivisionError: division by zero",
    "import no_such_thing\n": "ex03_allocator.py, line 1: ModuleNotFoundError: No module named 'no_such_thing'",
    "exit()\n": "ex03_allocator.py, line 1: SystemExit",
    "class Allocator: pass\n": "ex03_allocator.py defines no BlockAllocator: the checks call BlockAllocator(",
    "def BlockAllocator(num_blocks, free_order=None): pass\n": "ex03_allocator.py: BlockAllocator must be a class",
    "class BlockAllocator: pass\n": "ex03_allocator.py: BlockAllocator has no method allocate(n=1)",
    BASE + "    def allocate(self, count): 0\n": (
        "ex03_allocator.py: BlockAllocator.allocate(count) must be BlockAllocator.allocate(n=1)"
    ),
    BASE + "    def release(self, ids): 0\n": (
        "ex03_allocator.py: BlockAllocator.release(ids) must be BlockAllocator.release(ids, keep=())"
    ),
}


@pytest.mark.parametrize("text, words", UNUSABLE.items(), ids=[words[-40:] for words in UNUSABLE.values()])
def test_a_file_that_cannot_be_used_is_told_once(tmp_path, text, words):
    first, *others = check(tmp_path, text)
    assert first.outcome == "failed" and words in first.words
    assert others and {each.outcome for each in others} == {"skipped"}


def test_more_parameters_are_fine_if_they_are_optional(tmp_path):
    outcomes = check(tmp_path, BASE + "    def allocate(self, n=1, *, zone=None): return super().allocate(n)\n")
    assert {each.outcome for each in outcomes} == {"passed"}


@pytest.mark.parametrize("swallows", ["", "            try: time.sleep(0.01)\n            except: pass\n"])
def test_an_endless_loop_is_stopped_and_told_once(tmp_path, monkeypatch, swallows):
    monkeypatch.setattr(exercise_plugin, "LIMIT_SECONDS", 0.3)
    loop = f"    def allocate(self, n=1):\n        while True:\n            n += 1\n{swallows}"
    outcomes = check(tmp_path, "import time\n" + BASE + loop)
    counts = Counter(each.outcome for each in outcomes)
    [failed] = [each for each in outcomes if each.outcome == "failed"]
    assert "it didn't end within 0.3 s: an endless loop? It was at ex03_allocator.py, line " in failed.words
    assert counts["skipped"] >= 1 and counts["failed"] == 1


def test_an_endless_loop_while_the_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(exercise_plugin, "LIMIT_SECONDS", 0.3)
    first, *others = check(tmp_path, "while True:\n    pass\n")
    assert "an endless loop? It was at ex03_allocator.py, line" in first.words
    assert {each.outcome for each in others} == {"skipped"}


def test_a_crash_names_their_line(tmp_path):
    outcomes = check(tmp_path, BASE + "    def allocate(self, n=1):\n        return [][n]\n")
    told = {each.words for each in outcomes if each.outcome == "failed"}
    line = "ex03_allocator.py, line 4, in allocate: IndexError: list index out of range, in the call allocate(n="
    assert any(each.startswith(line) for each in told)


def test_an_assertion_of_their_own_names_its_line(tmp_path):
    outcomes = check(tmp_path, BASE + "    def allocate(self, n=1):\n        assert n > 100\n")
    told = [each for each in outcomes if each.outcome == "failed"]
    assert any(each.words.startswith("ex03_allocator.py, line 4, in allocate: AssertionError") for each in told)
    assert not any(each.is_refusal for each in told if "line 4, in allocate" in each.words)


def test_yours_is_what_ran(folder):
    """A right solution that also leaves a note: the checks called it, by way of --impl yours."""
    note = folder / "note"
    text = f"from pathlib import Path\nPath({str(note)!r}).write_text('ran')\n{SOLVED}"
    (folder / EX03.file).write_text(text)
    outcomes = honesty.outcomes_of(EX03, "yours")
    assert outcomes and {each.outcome for each in outcomes} == {"passed"}
    assert note.read_text() == "ran"


def test_one_broken_file_breaks_that_one_only(folder):
    (folder / EX03.file).write_text("def f(:")
    (folder / EXERCISES["ex04"].file).write_text("from minipaged.memory.block_table import BlockTable\n")
    assert honesty.outcomes_of(EX03, "yours")[0].outcome == "failed"
    assert {each.outcome for each in honesty.outcomes_of(EXERCISES["ex04"], "yours")} == {"passed"}


def pytest_says(*argv):
    """(exit status, output) of pytest in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *argv]
    result = subprocess.run(command, cwd=exercises.ROOT, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout + result.stderr


@pytest.mark.slow
def test_the_table_at_the_end(tmp_path):
    (tmp_path / EX03.file).write_text(SOLVED)
    shutil.copy(EXERCISES["ex04"].original, tmp_path)
    status, out = pytest_says("tests/exercises", "-k", "ex03 or ex04", "--impl", str(tmp_path))
    assert status == 0
    assert "checks pass; next: lessons/04_block_table.ipynb" in out
    for part in (["-k", "ex03 and fresh"], ["tests/exercises/test_ex03_allocator.py::test_a_fresh_pool_is_free"]):
        _, partly = pytest_says("tests/exercises" if "-k" in part else "-q", *part, "--impl", str(tmp_path))
        assert "not all of its checks were run" in partly and "next:" not in partly
    assert "not written yet: ex04_block_table.py" in out
    status, out = pytest_says("-k", "ex04", "--impl", str(tmp_path), "--strict-todo")
    assert status == 1
    assert "not written yet: ex04_block_table.py" in out


def test_an_impl_that_is_not_there():
    status, out = pytest_says("-k", "ex03", "--impl", "/no/such/file.py")
    assert status == 4
    status, empty = pytest_says("-k", "ex03", "--impl", "tests/right")
    assert status == 4 and "ERROR: --impl tests/right: there is no file for these exercises" in empty
    assert "ERROR: --impl /no/such/file.py: must be reference, yours or the path of a file or a folder" in out
