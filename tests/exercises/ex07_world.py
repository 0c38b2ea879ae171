"""For the checks of exercise 07: tables on a pool, and what must be true of them after every call."""

from collections import Counter, deque

from minipaged.memory.allocator import DoubleFree, OutOfBlocks
from minipaged.memory.block_table import BlockTable

PUBLIC = "allocate, share, release, ref_count, num_free and free_order"
NAMES = "ABCDEFGHIJKL"


class NotOffered(AssertionError, AttributeError):
    """Something was asked of the allocator that it doesn't have. hasattr(...) is False, as ever."""


class Table(BlockTable):
    """A BlockTable that says what it holds, should it stand in a message."""

    def __repr__(self):
        return f"a BlockTable({self.block_size}) with blocks {self.blocks}"


class Pool:
    """An allocator with the public methods, and with nothing inside that looks like minipaged's own."""

    def __init__(self, ids):
        self.__free, self.__named = deque(ids), dict.fromkeys(ids, 0)

    def __getattr__(self, name):
        raise NotOffered(f"the allocator was asked for its {name!r}: it has {PUBLIC}, and nothing else may be used")

    def __repr__(self):
        return "an allocator"

    def allocate(self, n=1):
        if n > len(self.__free):
            raise OutOfBlocks(f"{n} blocks asked for, {len(self.__free)} free")
        if n < 0:
            raise ValueError(f"n={n}")
        ids = [self.__free.popleft() for _ in range(n)]
        self.__named |= dict.fromkeys(ids, 1)
        return ids

    def share(self, ids):
        ids = list(ids)
        for block in ids:
            self.ref_count(block)
        for block in ids:
            if self.__named[block] == 0:
                self.__free.remove(block)
            self.__named[block] += 1

    def release(self, ids, keep=()):
        ids = list(ids)
        for block, times in Counter(ids).items():
            if times > self.ref_count(block):
                raise DoubleFree(f"block {block}: {times} to be released, and it has {self.ref_count(block)} owners")
        freed = []
        for block in reversed(ids):
            self.__named[block] -= 1
            if self.__named[block] == 0:
                freed.append(block)
        self.__free.extendleft(reversed(freed))
        return freed

    def ref_count(self, block):
        if block not in self.__named:
            raise ValueError(f"block {block} is not in this pool")
        return self.__named[block]

    @property
    def num_free(self):
        return len(self.__free)

    def free_order(self):
        return list(self.__free)


def spread(num_blocks, seed=0):
    """So many block ids, neither side by side nor in order."""
    return [(37 * i + 11 + seed) % 101 for i in range(num_blocks)]


class World:
    """Tables on one pool. What they must name is kept beside them; each call of the learner's is held against that."""

    def __init__(self, impl, block_size=4, num_blocks=24, pool=None):
        self.impl, self.block_size = impl, block_size
        self.pool = Pool(spread(num_blocks)) if pool is None else pool
        self.ids = self.pool.free_order()
        self.tables, self.named = {}, {}  # name -> BlockTable; name -> the blocks that it must name

    # What the checks do themselves, without the learner's functions.

    def open(self, name, num_tokens, num_blocks=None, like=None):
        """A table with so many tokens. like: the name of one whose blocks it shares, in the place of new ones."""
        table = self.tables[name] = Table(self.block_size)
        if like:
            table.append_blocks(self.named[like])
            self.pool.share(table.blocks)
        else:
            wanted = table.blocks_needed(num_tokens) if num_blocks is None else num_blocks
            table.append_blocks(self.pool.allocate(wanted))
        table.num_tokens, self.named[name] = num_tokens, list(table.blocks)
        return self

    def append(self, name, num_tokens):
        """A table grows by so many tokens, and by the blocks for them."""
        table = self.tables[name]
        taken = self.pool.allocate(table.blocks_needed(table.num_tokens + num_tokens))
        table.append_blocks(taken)
        table.num_tokens += num_tokens
        self.named[name] += taken

    def close(self, name):
        freed = self.pool.release(self.tables.pop(name).blocks)
        del self.named[name]
        return freed

    def fill(self):
        """From now on no block is free."""
        self.open("the rest", 0, num_blocks=self.pool.num_free)

    # What they hold it against.

    def owners(self, block):
        return sum(blocks.count(block) for blocks in self.named.values())

    def told(self):
        here = {name: table for name, table in self.tables.items() if name in NAMES}
        shown = [f"{name} {table.blocks} ({count(table.num_tokens, 'token')})" for name, table in here.items()]
        free = f"{count(self.pool.num_free, 'block')} free"
        return f"block_size {self.block_size}, tables {', '.join(shown) or 'none'}, {free}"

    def look(self):
        """All that a call could change, in the words of a message."""
        seen = {f"{name}.blocks": list(table.blocks) for name, table in self.tables.items()}
        seen |= {f"{name}.num_tokens": table.num_tokens for name, table in self.tables.items()}
        seen |= {f"{name}.block_size": table.block_size for name, table in self.tables.items()}
        seen |= {f"ref_count({block})": self.pool.ref_count(block) for block in self.ids}
        return seen | {"free_order()": self.pool.free_order()}

    def calling(self, what):
        """A function that demands something of this call, and else tells what the tables were before it."""
        told = self.told()

        def demand(holds, problem):
            assert holds, f"{told}: {what} {problem}"

        return demand

    def settled(self, demand, before, changed, why):
        """Only what `changed` names has changed since `before`, and to that."""
        expected, found = before | changed, self.look()
        for what, value in expected.items():
            must = f"it must be {value}" if what in changed else f"it was {value}, and must be so still"
            demand(found[what] == value, f"left {what} at {found[what]}: {must}; {why}")

    def fork(self, parent, child):
        """The learner's fork of one table, held against all that must be true of it."""
        table, before = self.tables[parent], self.look()
        demand = self.calling(f"fork({parent}, allocator)")
        try:
            made = self.impl.fork(table, self.pool)
        except (OutOfBlocks, DoubleFree, ValueError) as error:
            demand(False, f"raised {type(error).__name__} ({error}): a fork takes no block, only owners are added")
        is_table = all(hasattr(made, name) for name in ("blocks", "num_tokens", "block_size"))
        demand(is_table, f"returned {shown(made)}: it must return a BlockTable")
        demand(made is not table, f"returned {parent} itself: it must return a second table")
        expected = self.named[parent]
        demand(isinstance(made.blocks, list), f"returned a table whose blocks are {shown(made.blocks)}, not a list")
        demand(made.blocks == expected, f"returned a table with blocks {made.blocks}: they must be {expected}")
        demand(made.blocks is not table.blocks, f"returned a table whose list of blocks is {parent}'s own, not a copy")
        for name in ("num_tokens", "block_size"):
            got, due = getattr(made, name), before[f"{parent}.{name}"]
            demand(got == due, f"returned a table with {name} {got}: it must be {due}, as {parent}'s")
        more = {f"ref_count({block})": self.owners(block) + 1 for block in expected}
        self.settled(demand, before, more, "a fork only gives each block of the table one owner more")
        self.tables[child], self.named[child] = made, list(expected)
        return self

    def make_writable(self, name, position):
        """The learner's make_writable, held against all that must be true of it. Returns what it returned."""
        table, before = self.tables[name], self.look()
        logical, blocks = position // self.block_size, self.named[name]
        num_owners = self.owners(blocks[logical]) if logical < len(blocks) else 0
        demand = self.calling(f"make_writable({name}, {position}, allocator)")
        try:
            got = self.impl.make_writable(table, position, self.pool)
        except (OutOfBlocks, DoubleFree, ValueError, IndexError) as error:
            demand(False, f"raised {type(error).__name__} ({error}): nothing is wrong with this call")
        if num_owners < 2:
            past = f"{name}'s blocks end before this position"
            why = past if not num_owners else f"nobody else owns block {blocks[logical]}, and {name} writes in place"
            demand(got is None, f"returned {shown(got)}: it must return None, {why}")
            self.settled(demand, before, {}, why)
            return None
        source = blocks[logical]
        why = f"position {position} lies in logical block {logical}, block {source}, which has {num_owners} owners"
        is_pair = isinstance(got, tuple) and len(got) == 2
        demand(is_pair, f"returned {shown(got)}: it must return a tuple (source, destination); {why}")
        demand(got[0] == source, f"returned {got}: the source must be {source}; {why}")
        demand(got[1] in before["free_order()"], f"returned {got}: block {got[1]} was not free; {why}")
        self.named[name] = [*blocks[:logical], got[1], *blocks[logical + 1 :]]
        changed = {f"{name}.blocks": self.named[name], f"ref_count({source})": num_owners - 1}
        changed |= {f"ref_count({got[1]})": 1}
        changed["free_order()"] = [block for block in before["free_order()"] if block != got[1]]
        self.settled(demand, before, changed, f"{why}, and {got[1]} takes its place in {name}")
        return got

    def refuses(self, error, name, position, why):
        """Demand that make_writable raises this error, and has changed nothing."""
        before, wanted = self.look(), error.__name__
        demand = self.calling(f"make_writable({name}, {position}, allocator)")
        try:
            got = self.impl.make_writable(self.tables[name], position, self.pool)
        except error:
            self.settled(demand, before, {}, f"it raised {wanted}, and so it must, but nothing may change then")
        except NotImplementedError:  # still to be written
            raise
        except Exception as other:
            demand(False, f"raised {type(other).__name__} ({other}): it must raise {wanted}, {why}")
        else:
            demand(False, f"returned {shown(got)}: it must raise {wanted}, {why}")


def count(number, noun):
    return f"{number} {noun}{'s' * (number != 1)}"


def shown(got):
    return (
        repr(got) if got is None or isinstance(got, (int, float, str, tuple, list, dict)) else f"a {type(got).__name__}"
    )
