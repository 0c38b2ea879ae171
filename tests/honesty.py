"""Runs an exercise's checks on a file inside this process, and writes down what they say.

python tests/honesty.py   writes tests/wrong/MESSAGES.md again: what a learner is told for every wrong solution
"""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from minipaged.exercises import EXERCISES
from minipaged.learner import raised_in

TESTS = Path(__file__).resolve().parent
CHECKS = TESTS / "exercises"
TABLE = TESTS / "wrong" / "MESSAGES.md"
HEAD = """# What the checks say to wrong solutions

One row for every file in this folder: what is wrong with it, how many of the checks refuse it, and the first thing that
a learner reads. Written by `python tests/honesty.py`.
"""


class Outcome(NamedTuple):
    """What became of one check."""

    check: str
    outcome: str  # "passed", "failed", "TODO" or "skipped"
    is_refusal: bool  # it failed by an assertion of the check, not by an accident
    words: str


class Listener:
    """A plugin for the inner pytest."""

    def __init__(self):
        self.outcomes = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "call" or (report.when == "setup" and not report.passed):
            outcome = "TODO" if getattr(report, "is_todo", False) else report.outcome
            words = report.longrepr if isinstance(report.longrepr, str) else ""  # behind "ex03, name:" and a blank line
            error = call.excinfo.value if call.excinfo else None
            is_refusal = isinstance(error, AssertionError) and Path(raised_in(error)).parent == CHECKS
            self.outcomes.append(Outcome(item.name, outcome, is_refusal, " ".join(words.split("\n")[2:]).strip()))
        return report


def outcomes_of(exercise, path):
    """Run the checks of an exercise on a file -> a list of Outcome."""
    listener = Listener()
    checks = CHECKS / f"test_{exercise.file}"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--impl", str(path), "-m", "", str(checks)]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(options, plugins=[listener])
    return listener.outcomes


def solutions(kind, exercise):
    """The files in tests/right or tests/wrong for an exercise."""
    return sorted((TESTS / kind / f"{exercise.id}_{exercise.topic}").glob("*.py"))


def what_is_wrong(path):
    """The first line of a wrong solution says it."""
    return path.read_text().partition("\n")[0].removeprefix("# Wrong: ")


def table():
    """The text of MESSAGES.md."""
    lines = [HEAD]
    for exercise in EXERCISES.values():
        lines += [
            f"\n## {exercise.id}: {exercise.title}\n",
            "| file | wrong | refused by | says |",
            "|---|---|---|---|",
        ]
        for path in solutions("wrong", exercise):
            outcomes = outcomes_of(exercise, path)
            failed = [each for each in outcomes if each.outcome == "failed"]
            says = failed[0].words.replace("|", "\\|") if failed else "nothing"
            lines.append(f"| {path.name} | {what_is_wrong(path)} | {len(failed)} of {len(outcomes)} | {says} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    os.chdir(TESTS.parent)
    sys.path.insert(0, str(TESTS))
    TABLE.write_text(table())
