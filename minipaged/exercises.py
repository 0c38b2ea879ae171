"""The exercises: which there are, where the learner's file is, which part of minipaged is the solution.

python -m minipaged.exercises list | hint ex03 [2] | reset ex03 | solution ex03

Their checks are in tests/exercises; learner.py loads a file; serving/parts.py runs an engine on what is solved. Imports
no torch.
"""

import inspect
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from minipaged import learner
from minipaged.commandline import Parser, exit_status
from minipaged.hints import HINTS

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "lessons" / "exercises"


@dataclass(frozen=True)
class Exercise:
    """One exercise. names: what the learner writes, as in `module`, where the reference has it: that is the solution.

    part: the field of serving.parts.Parts that it can fill, None if the engine has no use for it.
    """

    id: str
    topic: str
    title: str
    module: str
    names: tuple
    lesson: str
    minutes: int
    difficulty: str
    part: str | None = None

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
        module = import_module(self.module)
        return SimpleNamespace(**{name: getattr(module, name) for name in self.names})

    def load(self, path=None):
        """What the learner wrote. path: another file in its place. Raises learner.WrongFile if it can't be used."""
        return learner.load(Path(path or self.path), self.reference)

    @property
    def is_solved(self):
        """Is nothing left that says it is still to be written? Whether it is right, only the checks can tell.

        Raises learner.WrongFile for a file that isn't Python.
        """
        return not learner.has_todo(self.path, self.id)

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
            "ex01",
            "kv_cache",
            "attend with a KV cache",
            "minipaged.attention.growing",
            ("bytes_per_token", "attend_with_cache"),
            lesson="01_kv_cache",
            minutes=20,
            difficulty="easy",
        ),
        Exercise(
            "ex02",
            "reservations",
            "reserve runs of slots, and count the waste",
            "minipaged.memory.reservations",
            ("first_fit", "waste"),
            lesson="02_reservations",
            minutes=20,
            difficulty="easy",
        ),
        Exercise(
            "ex03",
            "allocator",
            "hand out blocks and count their owners",
            "minipaged.memory.allocator",
            ("BlockAllocator",),
            lesson="03_blocks",
            minutes=25,
            difficulty="medium",
            part="allocator",
        ),
        Exercise(
            "ex04",
            "block_table",
            "from a position to a slot",
            "minipaged.memory.block_table",
            ("BlockTable",),
            lesson="04_block_table",
            minutes=20,
            difficulty="easy",
            part="block_table",
        ),
        Exercise(
            "ex05",
            "paged_attention",
            "attend through a block table",
            "minipaged.attention.reference",
            ("attend_one",),
            lesson="05_paged_attention",
            minutes=40,
            difficulty="hard",
            part="attend_one",
        ),
    )
}


def find(exercise_id):
    """An exercise by its id. Raises ValueError for one that isn't there."""
    if exercise_id not in EXERCISES:
        raise ValueError(f"exercise {exercise_id!r}: must be one of {', '.join(EXERCISES)}")
    return EXERCISES[exercise_id]


def show_list(args):
    for each in EXERCISES.values():
        try:
            state = "written" if each.is_solved else "TODO"
        except learner.WrongFile as error:
            state = f"can't be read: {error}"
        print(f"{each.id}  {each.title:<44} {each.minutes:>2} min  {each.difficulty:<7} {each.file:<24} {state}")
    print("To check one:  python -m pytest -k ex03 --impl yours -x")


def show_hint(args):
    exercise = find(args.id)
    if not 1 <= args.number <= len(exercise.hints):
        raise ValueError(f"hint {args.number} of {exercise.id}: must be from 1 to {len(exercise.hints)}")
    print(exercise.hints[args.number - 1])
    if args.number < len(exercise.hints):
        print(f"\nThe next one:  python -m minipaged.exercises hint {exercise.id} {args.number + 1}")


def reset(args):
    """Put the file back as it came. What was in it is kept beside it."""
    exercise = find(args.id)
    if not args.yes:
        if not sys.stdin.isatty():
            raise ValueError(f"reset {exercise.id}: there is no terminal to ask on; --yes resets without asking")
        if not is_confirmed(f"Put {exercise.file} back as it came? Yours is kept as .bak. [y/N] "):
            print("Nothing was changed.")
            return
    if exercise.path.exists():
        backup = next(path for path in backups(exercise.path) if not path.exists())
        shutil.copy2(exercise.path, backup)
        print(f"Yours is kept: lessons/exercises/{backup.name}")
    shutil.copyfile(exercise.original, exercise.path)
    print(f"As it came: lessons/exercises/{exercise.file}")


def is_confirmed(question):
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def backups(path):
    """Names for what was in a file: .bak, .bak2, .bak3 and so on."""
    number = 1
    while True:
        yield path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        number += 1


def show_solution(args):
    exercise = find(args.id)
    for name, part in vars(exercise.reference).items():
        file, line = inspect.getsourcefile(part), inspect.getsourcelines(part)[1]
        print(f"{name}: {Path(file).relative_to(ROOT)}, line {line}")


def main(argv=None):
    parser = Parser(prog="python -m minipaged.exercises", description="The exercises of the lessons.")
    commands = parser.add_subparsers(dest="command", metavar="list|hint|reset|solution", required=True)
    commands.add_parser("list", help="all exercises, and which are written").set_defaults(work=show_list)
    hint = commands.add_parser("hint", help="a hint: the first of three, or the one with this number")
    reset_ = commands.add_parser("reset", help="put the learner's file back as it came, after asking; keeps a .bak")
    solution = commands.add_parser("solution", help="where in minipaged the solution is")
    for each, work in ((hint, show_hint), (reset_, reset), (solution, show_solution)):
        each.add_argument("id", metavar="ID", help="ex01, ex02, ...")
        each.set_defaults(work=work)
    hint.add_argument("number", type=int, nargs="?", default=1, metavar="N", help="1, 2 or 3")
    reset_.add_argument("--yes", action="store_true", help="without asking")

    def work():
        args = parser.parse_args(argv)
        if not FOLDER.is_dir():
            raise ValueError(f"there are no exercises in {FOLDER}: run this in a checkout of minipaged")
        args.work(args)

    return exit_status("minipaged.exercises", work)


if __name__ == "__main__":
    sys.exit(main())
