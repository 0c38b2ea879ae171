"""Are the exercises honest? Stubs pass nothing, right solutions pass everything, wrong ones are refused in words.

Judged on the originals of the stubs, so that a learner who has solved some breaks nothing here.
"""

import re

import honesty
import pytest

from minipaged import learner
from minipaged.exercises import EXERCISES

pytestmark = pytest.mark.slow

every_exercise = pytest.mark.parametrize("exercise", EXERCISES.values(), ids=list(EXERCISES))


@pytest.fixture(autouse=True)
def can_be_done_here(request):
    exercise = getattr(request.node, "callspec", None) and request.node.callspec.params["exercise"]
    if why := " ".join(each.why_not_here for each in ([exercise] if exercise else EXERCISES.values())).strip():
        pytest.skip(why)


def files(kind):
    pairs = [(exercise, path) for exercise in EXERCISES.values() for path in honesty.solutions(kind, exercise)]
    ids = [f"{exercise.id}-{path.stem}" for exercise, path in pairs]
    return pytest.mark.parametrize("exercise, path", pairs, ids=ids)


@every_exercise
def test_the_untouched_stub_passes_nothing(exercise):
    outcomes = honesty.outcomes_of(exercise, exercise.original)
    assert outcomes
    assert {each.outcome for each in outcomes} == {"TODO"}, [each for each in outcomes if each.outcome != "TODO"]


@every_exercise
def test_stub_and_reference_have_the_same_signatures(exercise):
    stub = exercise.load(exercise.original)
    for name, reference in vars(exercise.reference).items():
        learner.must_agree(exercise.original, name, reference, getattr(stub, name))  # and the other way round


@every_exercise
def test_the_reference_passes(exercise):
    outcomes = honesty.outcomes_of(exercise, "reference")
    assert {each.outcome for each in outcomes} == {"passed"}


@files("right")
def test_right_solutions_pass(exercise, path):
    outcomes = honesty.outcomes_of(exercise, path)
    assert outcomes
    assert [each for each in outcomes if each.outcome != "passed"] == []


@files("wrong")
def test_wrong_solutions_are_refused_in_words(exercise, path):
    outcomes = honesty.outcomes_of(exercise, path)
    refused = [each for each in outcomes if each.outcome == "failed" and each.is_refusal]
    assert refused, f"{path.name} passes {len(outcomes)} checks"
    for each in refused:
        assert each.words and not each.words.startswith("assert "), f"{each.check} says no words: {each.words!r}"


@every_exercise
def test_there_are_enough_solutions(exercise):
    wrong, right = honesty.solutions("wrong", exercise), honesty.solutions("right", exercise)
    assert len(wrong) >= 5 and len(right) >= 2
    for path in wrong:
        assert path.read_text().startswith("# Wrong: ")
    for path in right:
        assert path.read_text().startswith("# Right: ")


@every_exercise
def test_hints_and_mentions(exercise):
    assert len(exercise.hints) == 3 and all(exercise.hints)
    assert len(set(exercise.hints)) == 3
    lesson = (exercise.path.parent.parent / f"{exercise.lesson}.ipynb").read_text()
    assert f"{exercise.minutes} " in lesson.partition("## The problem")[0]
    assert f"lessons/exercises/{exercise.file}" in lesson
    assert f'EXERCISES[\\"{exercise.id}\\"]' in lesson


@every_exercise
def test_the_stub_says_what_it_must(exercise):
    text = exercise.original.read_text()
    for each in (
        "not the tests",
        "lines",
        f"{exercise.minutes} minutes",
        f"pytest -k {exercise.id}",
        "fails now on purpose",
    ):
        assert each in text, f"{exercise.file} doesn't say {each!r}"
    for name in exercise.names:
        assert re.search(rf'NotImplementedError\("{exercise.id}: {name}\b', text)


def test_the_table_of_messages_is_up_to_date():
    assert honesty.TABLE.read_text() == honesty.table(), "run: python tests/honesty.py"
