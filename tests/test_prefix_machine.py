"""Random walks through a memory with a prefix cache: every block id is foretold by a model made of plain lists.

The model remembers for each block the whole text up to its end in the place of a hash, and looks through all of them.
"""

from collections import Counter
from typing import ClassVar

import hypothesis.strategies as st
import pytest
from harness import grow
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from minipaged.events import BlockCopied, Evicted, PrefixHit
from minipaged.memory.check import ShadowSlots, check
from minipaged.memory.paged import PagedMemory

NAMES = st.sampled_from("ABCD")
TEXTS = st.lists(st.integers(0, 1), min_size=1, max_size=9)  # of two tokens only: many begin alike


class Model:
    """A pool in plain lists: the free blocks in order, the table and the text of each sequence, what blocks hold."""

    def __init__(self, num_blocks, block_size):
        self.size, self.queue = block_size, list(range(num_blocks))
        self.tables, self.texts, self.lengths = {}, {}, {}
        self.holds = {}  # block -> the text up to its end, in the order in which that was written

    def owners(self, block):
        return sum(table.count(block) for table in self.tables.values())

    def hit(self, text):
        found = []
        while (len(found) + 1) * self.size < len(text):
            start = tuple(text[: (len(found) + 1) * self.size])
            same = [block for block, held in self.holds.items() if held == start]
            if not same:
                break
            found.append(same[0])
        return found

    def blocks(self, num_tokens):
        return -(-num_tokens // self.size)

    def admit(self, name, text):
        hit = self.hit(text)
        left = [block for block in self.queue if block not in hit]
        if self.blocks(len(text)) - len(hit) > len(left):
            return None
        self.queue = left
        self.tables[name], self.texts[name], self.lengths[name] = hit, list(text), len(hit) * self.size
        return self.lengths[name]

    def grow(self, wanted):
        """The copies, or None. What is taken is forgotten."""
        tables, queue = {name: list(table) for name, table in self.tables.items()}, list(self.queue)
        copies, taken = [], []
        try:
            for name, num_tokens in wanted:
                table, length = tables[name], self.lengths[name]
                if length % self.size and sum(each.count(table[-1]) for each in tables.values()) > 1:
                    copies.append((table[-1], queue[0]))
                    table[-1] = queue[0]
                    taken.append(queue.pop(0))
                while len(table) < self.blocks(length + num_tokens):
                    table.append(queue[0])
                    taken.append(queue.pop(0))
        except IndexError:  # the queue is empty
            return None
        self.tables, self.queue = tables, queue
        for block in taken:
            self.holds.pop(block, None)
        for name, num_tokens in wanted:
            self.lengths[name] += num_tokens
        return copies

    def commit(self, name):
        for logical in range(self.lengths[name] // self.size):
            block = self.tables[name][logical]
            self.holds.setdefault(block, tuple(self.texts[name][: (logical + 1) * self.size]))

    def fork(self, parent, child):
        self.tables[child], self.texts[child] = list(self.tables[parent]), list(self.texts[parent])
        self.lengths[child] = self.lengths[parent]
        del self.texts[child][self.lengths[child] :]

    def release(self, name):
        table = self.tables.pop(name)
        del self.texts[name], self.lengths[name]
        freed = [block for block in reversed(table) if not self.owners(block)]
        worthless, kept = [b for b in freed if b not in self.holds], [b for b in freed if b in self.holds]
        self.queue = worthless + self.queue + kept


class PrefixMachine(RuleBasedStateMachine):
    """Sequences are admitted, grow in chunks, fork, write apart and leave; the cache hits, evicts and is reset."""

    counts: ClassVar = Counter()  # over all walks: what they did

    def __init__(self, num_blocks=7, block_size=2):
        super().__init__()
        self.memory = PagedMemory(num_blocks, block_size)
        self.memory.log = []
        self.model, self.shadow = Model(num_blocks, block_size), ShadowSlots()

    @rule(name=NAMES, text=TEXTS)
    def admit(self, name, text):
        self.counts["operation"] += 1
        if name in self.model.tables:
            with pytest.raises(ValueError, match=f"'{name}'"):
                self.memory.admit(name, text)
            return
        looked_up, foretold = self.memory.lookup(text), self.model.admit(name, text)
        assert self.memory.admit(name, text) == foretold
        assert foretold in (None, looked_up)

    @rule(name=NAMES, text=TEXTS)
    def serve(self, name, text):
        """Admit, and compute all that isn't cached."""
        if name not in self.model.tables:
            self.admit(name, text)
        if name in self.model.tables:
            lacking = len(self.model.texts[name]) - self.model.lengths[name]
            self.take([(name, lacking)] if lacking else [])

    @rule(data=st.data())
    def grow(self, data):
        names = data.draw(st.lists(NAMES, unique=True))
        model, wanted = self.model, []
        for name in (name for name in names if name in model.tables):
            known = len(model.texts[name]) - model.lengths[name]
            num_tokens = data.draw(st.integers(1, max(1, known)))
            model.texts[name] += [data.draw(st.integers(0, 1)) for _ in range(num_tokens - known)]
            wanted.append((name, num_tokens))
        self.take(wanted)

    def take(self, wanted):
        """Slots for new tokens, which are written then."""
        self.counts["operation"] += 1
        model = self.model
        foretold = model.grow(wanted)
        assert grow(self.memory, wanted) == foretold
        if foretold is None:
            self.counts["refused"] += 1
            return
        self.follow()  # copies come before what is written
        for name, num_tokens in wanted:
            stop = model.lengths[name]
            self.shadow.write(self.memory, name, stop - num_tokens, stop)
            self.memory.commit(name, model.texts[name], stop)
            model.commit(name)

    @rule(parent=NAMES, child=NAMES)
    def fork(self, parent, child):
        self.counts["operation"] += 1
        if parent in self.model.tables and child not in self.model.tables:
            self.memory.fork(parent, child)
            self.shadow.fork(parent, child)
            self.model.fork(parent, child)
            self.counts["fork"] += 1

    @precondition(lambda self: 0 < len(self.model.tables) < 4)
    @rule(data=st.data(), tokens=st.tuples(st.integers(0, 1), st.integers(0, 1)))
    def fork_and_write(self, data, tokens):
        """As two samples do: whoever writes first into a block that isn't full copies it."""
        parent = data.draw(st.sampled_from(sorted(self.model.tables)))
        child = min(set("ABCD") - set(self.model.tables))
        self.fork(parent, child)
        for name, token in zip((parent, child), tokens):
            del self.model.texts[name][self.model.lengths[name] :]
            self.model.texts[name].append(token)
        self.take([(parent, 1), (child, 1)])

    @rule(name=NAMES)
    def release(self, name):
        self.counts["operation"] += 1
        if name in self.model.tables:
            self.memory.release(name)
            self.model.release(name)

    @precondition(lambda self: self.model.holds and len(self.model.tables) in (0, 1, 4))
    @rule()
    def reset(self):
        if len(self.model.tables) == 1:  # who is left leaves, or it would be refused nearly always
            self.release(next(iter(self.model.tables)))
        self.counts["operation"] += 1
        foretold = not self.model.tables
        assert self.memory.reset_prefix_cache() is foretold
        if foretold:
            self.model.holds.clear()
            self.counts["reset"] += 1

    def follow(self):
        """Tell the shadow what the memory told."""
        for event in self.memory.log:
            self.counts[type(event).__name__] += 1
            if isinstance(event, PrefixHit):
                self.shadow.hit(event.sequence, event.blocks, self.model.size)
            elif isinstance(event, BlockCopied):
                self.shadow.copy(event.source, event.destination, self.model.size)
        self.memory.log.clear()

    @invariant()
    def agrees_with_the_model(self):
        self.follow()
        check(self.memory, self.shadow)
        assert self.memory.allocator.free_order() == self.model.queue
        tables = {name: self.memory.table(name) for name in self.memory.sequences()}
        assert {name: table.blocks for name, table in tables.items()} == self.model.tables
        assert {name: table.num_tokens for name, table in tables.items()} == self.model.lengths
        cached = [block for block in self.model.queue if block in self.model.holds]
        assert self.memory.cached() == cached
        assert self.memory.usage().cached_slots == len(cached) * self.model.size


def walk(num_blocks, block_size, max_examples):
    """Returns how often each thing was done."""
    PrefixMachine.counts.clear()
    walks = settings(
        max_examples=max_examples, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(lambda: PrefixMachine(num_blocks, block_size), settings=walks)
    return PrefixMachine.counts


def test_walks():
    walk(7, 2, max_examples=25)


@pytest.mark.slow
def test_walks_of_20_000_operations():
    """And they do what they are for: nothing is left out."""
    total = Counter()
    for num_blocks, block_size in ((7, 2), (11, 1), (5, 3), (9, 2)):
        total += walk(num_blocks, block_size, max_examples=200)
    print(total)
    assert total["operation"] >= 20_000
    kinds = ("fork", "reset", "refused", PrefixHit, BlockCopied, Evicted)
    assert all(total[getattr(kind, "__name__", kind)] >= 100 for kind in kinds), total
