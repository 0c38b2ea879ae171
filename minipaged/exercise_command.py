"""python -m minipaged.exercises list | hint ex03 [2] | reset ex03 | solution ex03: the work behind it."""

import inspect
import shutil
import sys
from pathlib import Path

from minipaged import exercises, learner
from minipaged.commandline import Parser, exit_status
from minipaged.exercises import EXERCISES, ROOT, find


def show_list(args):
    for each in EXERCISES.values():
        try:
            state = "written" if each.is_solved else "TODO"
            if each.why_not_here:
                state += f"; {each.why_not_here}"
        except learner.WrongFile as error:
            state = f"can't be read: {error}"
        print(f"{each.id}  {each.title:<44} {each.minutes:>2} min  {each.difficulty:<7} {each.file:<24} {state}")
    print("Written is not yet right. To check one:  python -m pytest -k ex03 --impl yours -x")


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
    if exercise.path.exists() and exercise.path.read_bytes() != exercise.original.read_bytes():
        backup = next(path for path in backups(exercise.path) if not path.exists())
        shutil.copy2(exercise.path, backup)
        print(f"Yours is kept: lessons/exercises/{backup.name}")
    shutil.copyfile(exercise.original, exercise.path)
    print(f"As it came: lessons/exercises/{exercise.file}")


def is_confirmed(question):
    try:
        return input(question).strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        print()
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
        if not exercises.FOLDER.is_dir():
            raise ValueError(f"there are no exercises in {exercises.FOLDER}: run this in a checkout of minipaged")
        args.work(args)

    return exit_status("minipaged.exercises", work)
