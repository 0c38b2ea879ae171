"""pytest for the exercises: every check that takes `impl` runs on the reference and on the learner's file.

What the learner has not written yet is TODO, which is no failure. The run ends with a table, one line an exercise. A
failed check says what is wrong in a few words, in the place of a traceback. Nothing here imports torch.
"""

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from time_limit import LIMIT_SECONDS, TooSlow, within

from minipaged.exercises import EXERCISES
from minipaged.learner import WrongFile, call, place, raised_in

NOT_RUN = "not run: see the check before"


def pytest_configure(config):
    config.exercises = Records()
    impl = config.getoption("--impl")
    if impl not in (None, "reference", "yours") and not Path(impl).exists():
        raise pytest.UsageError(f"--impl {impl}: must be reference, yours or the path of a file or a folder")


def pytest_ignore_collect(collection_path, config):
    """With -k ex03 the checks of ex03 are meant: what can't match isn't even read, so that they start at once."""
    keyword = config.getoption("keyword")
    if re.fullmatch(r"ex\d\d( or ex\d\d)*", keyword) and collection_path.suffix == ".py":
        return not any(exercise_id in collection_path.name for exercise_id in keyword.split(" or ")) or None
    return None


def pytest_generate_tests(metafunc):
    if "impl" not in metafunc.fixturenames:
        return
    exercise, impl = exercise_of(metafunc.module.__file__), metafunc.config.getoption("--impl")
    sources = {None: ["reference", "yours"], "reference": ["reference"], "yours": ["yours"]}.get(impl)
    if sources is None:
        path = Path(impl)
        path = path / exercise.file if path.is_dir() else path
        named = re.match(r"ex\d\d", path.name)
        is_for_another = named and named.group() != exercise.id
        sources = [path.resolve()] if path.exists() and not is_for_another else []
    ids = [source if isinstance(source, str) else source.stem for source in sources]
    metafunc.parametrize("impl", sources, ids=ids, indirect=True)
    records = metafunc.config.exercises
    records.checks[exercise].add(metafunc.function.__name__)
    records.found_none = records.found_none is not False and not sources


def pytest_collection_modifyitems(config):
    if config.exercises.found_none:
        raise pytest.UsageError(f"--impl {config.getoption('--impl')}: there is no file for these exercises")


def pytest_deselected(items):
    for item in items:
        if whose := theirs(item):
            item.config.exercises.left_out.add(whose)


def exercise_of(file):
    """The exercise that a file of checks is about: test_ex03_allocator.py -> ex03."""
    return EXERCISES[Path(file).name.split("_")[1]]


@pytest.fixture
def impl(request):
    """The names that the learner writes: those of the reference, or those that a file defines."""
    exercise = exercise_of(request.node.path)
    if exercise.why_not_here:
        pytest.skip(exercise.why_not_here)
    if request.param == "reference":
        return exercise.reference
    path = exercise.path if request.param == "yours" else request.param
    records = request.config.exercises
    if path in records.stopped:
        pytest.skip(NOT_RUN)
    if path not in records.loaded:
        try:
            with within(LIMIT_SECONDS):
                records.loaded[path] = exercise.load(path)
        except (WrongFile, TooSlow) as error:
            records.stopped.add(path)
            raise WrongFile(str(error)) from error
    return records.loaded[path]


class Records:
    """What this run has seen of the learner's files."""

    def __init__(self):
        self.loaded = {}  # path -> its names
        self.stopped = set()  # paths that can't be used, or in which a check didn't end: no more checks for them
        self.outcomes = defaultdict(Counter)  # (exercise, path) -> how many checks ended how
        self.checks = defaultdict(set)  # exercise -> the names of all its checks
        self.run = defaultdict(set)  # (exercise, path) -> the names of those that were run
        self.left_out = set()  # (exercise, path) of which some were deselected
        self.found_none = None  # True: --impl names a place where no exercise's file is

    def is_complete(self, exercise, path):
        """Was every check of an exercise run on this file?"""
        return self.run[exercise, path] == self.checks[exercise] and (exercise, path) not in self.left_out


def theirs(item):
    """(exercise, path) of a check on a file; None for every other test, and for a check on the reference."""
    source = item.callspec.params.get("impl", "reference") if hasattr(item, "callspec") else "reference"
    if source == "reference":
        return None
    exercise = exercise_of(item.path)
    return exercise, exercise.path if source == "yours" else source


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    whose = theirs(item)
    if not whose:
        return (yield)
    _, path = whose
    try:
        with within(LIMIT_SECONDS):
            return (yield)
    except TooSlow:
        item.config.exercises.stopped.add(path)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    whose = theirs(item)
    if not whose or (report.when != "call" and report.passed):
        return report
    exercise, path = whose
    error = call.excinfo.value if call.excinfo else None
    is_todo = isinstance(error, NotImplementedError) and str(error).startswith(f"{exercise.id}:")
    if is_todo and item.config.getoption("--strict-todo"):
        report.longrepr = str(error)
    elif is_todo:
        report.outcome, report.is_todo = "skipped", True
        report.longrepr = (str(item.path), item.location[1], str(error))
    elif report.failed:
        report.longrepr = f"{exercise.id}, {item.name}:\n\n    {words(error, path)}\n"
    outcome = "TODO" if is_todo else "not run" if report.skipped else report.outcome
    item.config.exercises.outcomes[exercise, path][outcome] += 1
    item.config.exercises.run[exercise, path].add(item.originalname)
    return report


def words(error, path):
    """What went wrong, for a learner."""
    if isinstance(error, AssertionError) and raised_in(error) != str(path):
        return str(error).split("\nassert ")[0]  # without what pytest adds
    if isinstance(error, (WrongFile, TooSlow)):
        return str(error)
    called = call(error, path)
    while type(error).__name__ == "InterpreterError" and error.__cause__:  # Triton's, around what a kernel raised
        error = error.__cause__
    where, what = place(error, [path]), f"{type(error).__name__}: {error}"
    if isinstance(error, NotImplementedError):
        what += " (this counts as TODO only with the message that came with the file)"
    return ": ".join(part for part in (where, what) if part) + (f", in the call {called}" if called else "")


def pytest_report_teststatus(report):
    return ("todo", "T", "TODO") if getattr(report, "is_todo", False) else None


def pytest_terminal_summary(terminalreporter, config):
    if not config.exercises.outcomes:
        return
    terminalreporter.section("exercises")
    for (exercise, path), outcomes in sorted(config.exercises.outcomes.items(), key=lambda each: each[0][0].id):
        is_complete = config.exercises.is_complete(exercise, path)
        terminalreporter.line(f"{exercise.id} {exercise.title:<44} {told(exercise, path, outcomes, is_complete)}")


def told(exercise, path, outcomes, is_complete):
    """How an exercise stands, and what to do next."""
    total = sum(outcomes.values())
    if exercise.why_not_here:
        return f"can't be done here: {exercise.why_not_here}"
    if outcomes["passed"] == total and not is_complete:
        return f"passed: {total}; not all of its checks were run"
    if outcomes["passed"] == total:
        watch = f"python -m visualize --mine {exercise.watch}".rstrip()
        steps = [watch] if exercise.parts and path == exercise.path else []
        return f"all {total} checks pass; next: {', then '.join([*steps, next_to_read(exercise)])}"
    if outcomes["TODO"] == total:
        return f"not written yet: {path.name}"
    counts = ", ".join(f"{outcomes[each]} {each}" for each in ("failed", "passed", "TODO", "not run") if outcomes[each])
    return f"{counts}; a hint: python -m minipaged.exercises hint {exercise.id}"


def next_to_read(exercise):
    """The lesson of the exercise that follows; after the last one, the README's map."""
    ids = list(EXERCISES)
    after = ids[ids.index(exercise.id) + 1 :]
    return f"lessons/{EXERCISES[after[0]].lesson}.ipynb" if after else "the map in README.md"
