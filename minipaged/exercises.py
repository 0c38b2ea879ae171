"""The exercises: which there are, where the learner's file is, which part of minipaged is the solution.

python -m minipaged.exercises list | hint ex03 [2] | reset ex03 | solution ex03

Their checks are in tests/exercises; learner.py loads a file; mine.py runs an engine on what is solved. No torch here.
"""

import sys
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

from minipaged import learner
from minipaged.hints import HINTS

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "lessons" / "exercises"


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    module: where minipaged has the solution; a tuple of such, one for each name, if they are apart. names: what the
    learner writes. lesson: the notebook that it is for. minutes, difficulty: what to expect. parts: for each of the
    names the field of serving.parts.Parts that it can fill, in the same order; empty if an engine has no use for them.
    needs: a package that can't be had everywhere; where it isn't, the checks are skipped. watch: the options with which
    `visualize --mine` uses them, if the story that it plays by itself doesn't.
    """

    id: str
    topic: str
    title: str
    module: str | tuple
    names: tuple
    lesson: str
    minutes: int
    difficulty: str
    parts: tuple = ()
    needs: str = ""
    watch: str = field(default="", repr=False)

    @property
    def file(self):
        return f"{self.id}_{self.topic}.py"

    @property
    def path(self):
        """The learner's file."""
        return FOLDER / self.file

    @property
    def original(self):
        """The same file as it came: nobody edits it, `reset` copies it."""
        return FOLDER / "original" / self.file

    @property
    def hints(self):
        """Three, each says more than the one before."""
        return HINTS[self.id]

    @cached_property
    def reference(self):
        """What the learner writes, as minipaged itself has it."""
        modules = [self.module] * len(self.names) if isinstance(self.module, str) else self.module
        return SimpleNamespace(**{name: getattr(import_module(each), name) for name, each in zip(self.names, modules)})

    def load(self, path=None):
        """What the learner wrote. path: another file in its place. Raises learner.WrongFile if it can't be used."""
        return learner.load(Path(path or self.path), self.reference)

    @property
    def why_not_here(self):
        """Why this exercise can't be done on this machine, in a few words; empty if it can."""
        return f"needs {self.needs}, which isn't installed" if self.needs and not find_spec(self.needs) else ""

    @property
    def is_solved(self):
        """Is nothing left that says it is still to be written? Whether it is right, only the checks can tell.

        Raises learner.WrongFile for a file that isn't Python.
        """
        return learner.todo_line(self.path, self.id) is None

    def _repr_markdown_(self):
        """What a notebook shows: the file, the command, and the hints in folds."""
        writes = " and ".join(f"`{name}`" for name in self.names)
        lines = [
            f"**Exercise {self.id}: {self.title}.** You write {writes}. {self.minutes} minutes, {self.difficulty}.",
            f"Edit `lessons/exercises/{self.file}`; then, in the project's folder:",
            f"```\npython -m pytest -k {self.id} --impl yours -x\n```",
        ]
        fold = "<details><summary>Hint {}</summary>\n\n{}\n\n</details>"
        return "\n\n".join(lines + [fold.format(number, hint) for number, hint in enumerate(self.hints, start=1)])


EXERCISES = {
    exercise.id: exercise
    for exercise in (
        Exercise(
            id="ex01",
            topic="kv_cache",
            title="attend with a KV cache",
            module="minipaged.attention.growing",
            names=("bytes_per_token", "attend_with_cache"),
            lesson="01_kv_cache",
            minutes=20,
            difficulty="easy",
        ),
        Exercise(
            id="ex02",
            topic="reservations",
            title="reserve runs of slots, and count the waste",
            module="minipaged.memory.reservations",
            names=("first_fit", "waste"),
            lesson="02_reservations",
            minutes=20,
            difficulty="easy",
        ),
        Exercise(
            id="ex03",
            topic="allocator",
            title="hand out blocks and count their owners",
            module="minipaged.memory.allocator",
            names=("BlockAllocator",),
            lesson="03_blocks",
            minutes=25,
            difficulty="medium",
            parts=("allocator",),
        ),
        Exercise(
            id="ex04",
            topic="block_table",
            title="from a position to a slot",
            module="minipaged.memory.block_table",
            names=("BlockTable",),
            lesson="04_block_table",
            minutes=20,
            difficulty="easy",
            parts=("block_table",),
        ),
        Exercise(
            id="ex05",
            topic="paged_attention",
            title="attend through a block table",
            module="minipaged.attention.reference",
            names=("attend_one",),
            lesson="05_paged_attention",
            minutes=40,
            difficulty="hard",
            parts=("attend_one",),
        ),
        Exercise(
            id="ex06",
            topic="triton_decode",
            title="the decode kernel's loop; merge two parts",
            module=("minipaged.attention.triton.decode", "minipaged.attention.states"),
            names=("decode", "merge_states"),
            lesson="06_triton",
            minutes=40,
            difficulty="hard",
            needs="triton",
        ),
        Exercise(
            id="ex07",
            topic="copy_on_write",
            title="fork a table; copy before writing",
            module="minipaged.memory.copy_on_write",
            names=("fork", "make_writable"),
            lesson="07_copy_on_write",
            minutes=25,
            difficulty="medium",
            parts=("fork", "make_writable"),
        ),
        Exercise(
            id="ex08",
            topic="scheduler",
            title="who continues, who enters",
            module="minipaged.serving.ample",
            names=("schedule",),
            lesson="08_scheduler",
            minutes=25,
            difficulty="medium",
            parts=("schedule",),
        ),
        Exercise(
            id="ex09",
            topic="preemption",
            title="who yields, and how it comes back",
            module="minipaged.serving.preemption",
            names=("choose_victim", "preempt", "resume"),
            lesson="09_preemption",
            minutes=25,
            difficulty="medium",
            parts=("choose_victim", "preempt", "resume"),
        ),
        Exercise(
            id="ex10",
            topic="prefix_cache",
            title="find a prompt's beginning in the cache",
            module="minipaged.memory.prefix_cache",
            names=("block_hashes", "PrefixCache"),
            lesson="10_prefix_caching",
            minutes=30,
            difficulty="medium",
            parts=("block_hashes", "prefix_cache"),
        ),
        Exercise(
            id="ex11",
            topic="quantized_kv",
            title="numbers as codes of one byte, and back",
            module="minipaged.attention.kv_codec",
            names=("encode", "decode"),
            lesson="11_quantized_kv",
            minutes=20,
            difficulty="easy",
            parts=("encode", "decode"),
            watch="--scenario quantised",
        ),
        Exercise(
            id="ex12",
            topic="metrics",
            title="metrics from timestamps",
            module="minipaged.bench.metrics",
            names=("ttft", "itl", "normalized_latency", "throughput", "percentile"),
            lesson="12_measuring",
            minutes=20,
            difficulty="easy",
        ),
    )
}


def find(exercise_id):
    """An exercise by its id. Raises ValueError for one that isn't there."""
    if exercise_id not in EXERCISES:
        raise ValueError(f"exercise {exercise_id!r}: must be one of {', '.join(EXERCISES)}")
    return EXERCISES[exercise_id]


if __name__ == "__main__":
    from minipaged.exercise_command import main

    sys.exit(main())
