"""For the checks of exercise 04: a table, and what it must answer to a question, in words."""

from numbers import Integral

BLOCK_SIZES = (4, 3, 1, 16)


class Asked:
    """A table to which some blocks were appended. What it is asked is held against what it must answer."""

    def __init__(self, impl, block_size, ids=()):
        self.table, self.block_size = impl.BlockTable(block_size), block_size
        self.ids, self.told = [], f"BlockTable({block_size}) without blocks"
        if ids:
            self.append(ids)

    def append(self, ids):
        self.table.append_blocks(list(ids))
        self.ids += ids
        self.told = f"BlockTable({self.block_size}) with blocks {self.ids}"

    def walk(self):
        """(logical, offset, block, slot) of every covered position, by counting and not by calculating."""
        return [
            (logical, offset, block, range(block * self.block_size, (block + 1) * self.block_size)[offset])
            for logical, block in enumerate(self.ids)
            for offset in range(self.block_size)
        ]

    def answers(self, name, *arguments, due, is_right):
        """The table's answer, which must be right: no other one, and no ValueError."""
        call = f"{self.told}: {name}({', '.join(map(str, arguments))})"
        try:
            got = getattr(self.table, name)(*arguments)
        except ValueError as error:
            if name != "blocks_needed":
                due += f". {len(self.ids) * self.block_size} positions are covered, be a token stored there or not"
            raise AssertionError(f"{call} raised ValueError ({error}): it must be {due}") from error
        assert is_right(got), f"{call} returned {shown(got)}: it must be {due}"
        return got

    def needs(self, n, expected):
        due = f"{expected}, a whole number"
        self.answers("blocks_needed", n, due=due, is_right=lambda got: same_numbers([got], [expected], list))

    def translates(self, position, expected):
        due = f"{expected}, (logical, offset, block id, slot)"
        self.answers("translate", position, due=due, is_right=lambda got: same_numbers(got, expected, (tuple, list)))

    def has_slots(self, start, stop, expected):
        due = f"{expected}, a list of whole numbers"
        return self.answers("slots", start, stop, due=due, is_right=lambda got: same_numbers(got, expected, list))

    def refuses(self, name, *arguments, why=""):
        call = f"{self.told}: {name}({', '.join(map(str, arguments))})"
        why = why or f"only {len(self.ids) * self.block_size} positions are covered, counted from 0"
        try:
            got = getattr(self.table, name)(*arguments)
        except ValueError:
            return
        except NotImplementedError:  # still to be written
            raise
        except Exception as error:
            raise AssertionError(f"{call} raised {type(error).__name__}: it must raise ValueError, {why}") from error
        raise AssertionError(f"{call} returned {shown(got)}: it must raise ValueError, {why}")

    def has_blocks(self, expected, after):
        got = self.table.blocks
        right = isinstance(got, list) and got == expected
        assert right, f"after {after} .blocks is {shown(got)}: it must be {expected}, a list"


def same_numbers(got, expected, kinds):
    return isinstance(got, kinds) and all(isinstance(number, Integral) for number in got) and [*got] == [*expected]


def shown(got):
    return repr(got) if got is None or isinstance(got, (int, float, str, tuple, list)) else f"a {type(got).__name__}"
