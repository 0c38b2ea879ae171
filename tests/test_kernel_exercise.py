"""The one exercise with a kernel in it: what a learner is told whose kernel crashes, and who can't have triton."""

from collections import Counter

import exercise_plugin
import honesty
import pytest

from minipaged import exercises
from minipaged.exercise_command import main
from minipaged.exercises import EXERCISES

EX06 = EXERCISES["ex06"]


def test_a_crash_in_a_kernel_names_the_line_in_the_kernel(tmp_path):
    if EX06.why_not_here:
        pytest.skip(EX06.why_not_here)
    text = EX06.original.read_text().replace('    raise NotImplementedError("ex06: decode', '    # ("ex06: decode')
    text = text.replace("    # Yours: what is carried", "    never = written\n    #")
    path = tmp_path / EX06.file
    path.write_text(text)
    outcomes = honesty.outcomes_of(EX06, path)
    line = text.splitlines().index("    never = written") + 1
    told = [each.words for each in outcomes if each.outcome == "failed"]
    start = (
        f"{EX06.file}, line {line}, in decode_kernel: NameError: name 'written' is not defined, in the call decode(q=["
    )
    assert told and all(words.startswith(start) for words in told)


def test_an_exercise_that_cannot_be_done_here(folder, capsys, monkeypatch):
    monkeypatch.setattr(exercises, "find_spec", lambda name: None)
    why = "needs triton, which isn't installed"
    assert {each.outcome for each in honesty.outcomes_of(EX06, "yours")} == {"skipped"}
    assert exercise_plugin.told(EX06, EX06.path, Counter({"not run": 3}), True) == f"can't be done here: {why}"
    assert main(["list"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ex06")]
    assert line.endswith(f"TODO; {why}")
