"""Parts: what of the engine can be replaced, by the learner's own code from the exercises or by anything that fits.

Only LLM builds an engine from them. An engine on a learner's parts checks its memory after every step, and an error in
it is told as theirs, with file and line.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

from minipaged import learner
from minipaged.exercises import EXERCISES
from minipaged.memory.allocator import BlockAllocator
from minipaged.memory.block_table import BlockTable
from minipaged.memory.check import check
from minipaged.serving.engine import Engine


@dataclass(frozen=True)
class Parts:
    """The reference's parts, unless others are given.

    attend_one: as attention.reference.attend_one; None: LLM's own attention, which reads many queries at a time.
    exercises: those whose solutions by the learner these parts are. notes: what is to be said about the other ones.
    """

    allocator: type = BlockAllocator
    block_table: type = BlockTable
    attend_one: Callable | None = None
    exercises: tuple = ()
    notes: tuple = ()

    @classmethod
    def mine(cls):
        """Each part from the learner's exercise for it, if nothing in the file is left to write."""
        parts, solved, notes = {}, [], []
        for exercise in EXERCISES.values():
            if exercise.part is None:
                continue
            try:
                if exercise.is_solved:
                    [parts[exercise.part]] = vars(exercise.load()).values()
                    solved.append(exercise)
            except learner.WrongFile as error:
                notes.append(f"not used: {error}")
        return cls(**parts, exercises=tuple(solved), notes=tuple(notes))

    @property
    def names(self):
        """The learner's parts, by name."""
        return ", ".join(name for exercise in self.exercises for name in exercise.names)

    @property
    def yours(self):
        """Which parts are the learner's, for a title."""
        return f"yours: {self.names or 'nothing yet'}"

    @contextmanager
    def blamed(self):
        """Inside it, an error that comes from these parts is a ValueError that says where in the learner's files."""
        try:
            yield
        except Exception as error:
            first = error
            while first.__context__ is not None:  # what came after it, while the engine cleaned up, is no news
                first = first.__context__
            where = learner.place(first, [exercise.path for exercise in self.exercises])
            if where is None and isinstance(error, ValueError):
                raise  # a wrong prompt, say
            where = where or f"while the engine used {self.names}"
            ids = " or ".join(exercise.id for exercise in self.exercises)
            to_do = f"python -m pytest -k '{ids}' --impl yours -x"
            raise ValueError(f"your code, {where}: {type(first).__name__}: {first} ({to_do})") from error


class LearnersEngine(Engine):
    """An Engine on a learner's parts. It raises ValueError for what goes wrong in them, in the step it happens."""

    def __init__(self, parts, *arguments):
        self.parts = parts
        super().__init__(*arguments)
        with parts.blamed():
            check(self.memory)

    def step(self):
        with self.parts.blamed():
            result = super().step()
            check(self.memory)
        return result
