"""For the checks of exercise 03: a learner's allocator that remembers what was called on it, for the messages."""

import operator
from numbers import Integral

from minipaged.memory.allocator import DoubleFree, OutOfBlocks


def is_whole(number):
    return isinstance(number, Integral) and not isinstance(number, bool)


def is_count(number):
    """As is_whole, or what Python can take for one: a tensor that holds a single whole number, say."""
    try:
        return operator.index(number) == number
    except TypeError:
        return False


class Pool:
    """The learner's allocator, and what was called on it, for the messages."""

    def __init__(self, impl, num_blocks, free_order=None):
        self.num_blocks = num_blocks
        self.calls = [f"BlockAllocator({num_blocks}{f', free_order={free_order}' if free_order else ''})"]
        self.allocator = impl.BlockAllocator(num_blocks, free_order)

    def demand(self, holds, what):
        calls = self.calls if len(self.calls) < 6 else [self.calls[0], "...", *self.calls[-4:]]
        assert holds, f"after {', '.join(calls)}: {what}"

    def call(self, name, *args, **options):
        said = f"{name}({', '.join([*map(repr, args), *(f'{key}={value!r}' for key, value in options.items())])})"
        try:
            given = getattr(self.allocator, name)(*args, **options)
        except (OutOfBlocks, DoubleFree, ValueError) as error:
            self.demand(False, f"{said} raised {type(error).__name__} ({error}); nothing is wrong with this call")
        self.calls.append(said if given is None else f"{said} -> {given!r}")
        return given

    def allocate(self, *n):
        ids, n = self.call("allocate", *n), n[0] if n else 1
        self.demand(isinstance(ids, list) and len(ids) == n, f"allocate must give a list of {n} ids, not {ids!r}")
        self.demand(all(map(is_whole, ids)), f"allocate must give whole numbers, not {ids!r}")
        return ids

    def release(self, ids, expected, why="", **keep):
        argument, freed = list(ids), self.call("release", ids, **keep)
        self.demand(isinstance(freed, (list, tuple)), f"release must give the list of the freed ids, not {freed!r}")
        self.demand(list(freed) == expected, f"release gave {freed}, it must give {expected}{why and ': '}{why}")
        self.demand(ids == argument, f"the list that release was given, {argument}, has become {ids}")

    @property
    def num_free(self):
        number = self.allocator.num_free
        self.demand(callable(number) or is_count(number), f"num_free is {number!r}, it must be a whole number")
        self.demand(not callable(number), "num_free is read without brackets: leave `@property` above it")
        return number

    @property
    def free_order(self):
        return list(self.allocator.free_order())

    def demand_is(self, why="", free=None, order=None, **counts):
        """free: what num_free must be. order: what free_order() must give. counts: b3=2 for ref_count(3) being 2."""
        why = why and f": {why}"
        if free is not None:
            self.demand(self.num_free == free, f"num_free is {self.num_free}, it must be {free}{why}")
        if order is not None:
            self.demand(self.free_order == order, f"free_order() is {self.free_order}, it must be {order}{why}")
        for block, count in counts.items():
            found = self.allocator.ref_count(int(block[1:]))
            self.demand(is_count(found), f"ref_count({block[1:]}) is {found!r}, it must be a whole number")
            self.demand(found == count, f"ref_count({block[1:]}) is {found}, it must be {count}{why}")

    def state(self):
        counts = [self.allocator.ref_count(block) for block in range(self.num_blocks)]
        return {"num_free": self.num_free, "free_order()": self.free_order, "the numbers of owners": counts}

    def refuses(self, error, why, name, *args):
        """Demand that a call raises this error, and that it has changed nothing."""
        before, said, wanted = self.state(), f"{name}({', '.join(map(repr, args))})", error.__name__
        try:
            said += f" gave {getattr(self.allocator, name)(*args)!r}"
        except error:
            said += f" raised {wanted}"
        except NotImplementedError:
            raise  # the learner has not written it yet
        except Exception as other:
            own = ", a class of your own, not the imported one" * (type(other).__name__ == wanted)
            said += f" raised {type(other).__name__}{own} ({other})"
        self.demand(said.endswith(f" raised {wanted}"), f"{said}; it must raise {wanted}: {why}")
        for what, now in self.state().items():
            changed = f"{what}: {before[what]} before, {now} after it"
            self.demand(now == before[what], f"{said}, and so it must, but it has changed {changed}")
