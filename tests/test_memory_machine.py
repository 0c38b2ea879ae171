"""Random walks through allocator, tables and memory, compared with models of them that are too simple to be wrong."""

import hypothesis.strategies as st
import pytest
from harness import grow
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from minipaged.memory.allocator import BlockAllocator, DoubleFree, OutOfBlocks
from minipaged.memory.check import ShadowSlots, check
from minipaged.memory.paged import PagedMemory


class AllocatorMachine(RuleBasedStateMachine):
    """The model is the plain list of every ownership ever given and not yet given up, and a list as queue."""

    owned = Bundle("owned")

    def __init__(self):
        super().__init__()
        self.allocator = BlockAllocator(7, free_order=[4, 2])
        self.queue = [4, 2, 0, 1, 3, 5, 6]
        self.owners = []

    @rule(target=owned, n=st.integers(-1, 5))
    def allocate(self, n):
        if not 0 <= n <= len(self.queue):
            with pytest.raises(ValueError if n < 0 else OutOfBlocks):
                self.allocator.allocate(n)
            return []
        ids = self.allocator.allocate(n)
        assert ids == self.queue[:n]
        del self.queue[:n]
        self.owners += ids
        return ids

    @rule(target=owned, ids=owned)
    def share(self, ids):
        self.allocator.share(ids)
        self.queue = [block for block in self.queue if block not in ids]
        self.owners += ids
        return ids

    @rule(ids=consumes(owned), keep=st.sets(st.integers(0, 6)))
    def release(self, ids, keep):
        owners = list(self.owners)
        try:
            for block in ids:
                owners.remove(block)
        except ValueError:  # shared or released before: there is no owner left
            with pytest.raises(DoubleFree):
                self.allocator.release(ids, keep)
            return
        self.owners = owners
        freed = [block for block in reversed(ids) if block not in owners]
        assert self.allocator.release(ids, keep) == freed
        worthless, kept = [b for b in freed if b not in keep], [b for b in freed if b in keep]
        self.queue = worthless + self.queue + kept

    @rule(ids=st.lists(st.integers(-1, 7), min_size=1, max_size=3))
    def release_more_than_there_is(self, ids):
        if all(0 <= block < 7 and self.owners.count(block) >= ids.count(block) for block in ids):
            return
        with pytest.raises((DoubleFree, ValueError)):
            self.allocator.release(ids)

    @invariant()
    def agrees_with_the_model(self):
        assert self.allocator.free_order() == self.queue
        assert self.allocator.num_free == len(self.queue)
        assert [self.allocator.ref_count(b) for b in range(7)] == [self.owners.count(b) for b in range(7)]


class MemoryMachine(RuleBasedStateMachine):
    """Sequences come, fork, grow and go. The model is each one's length, and for each of its blocks an object that
    stands for the content: forks have the same objects. Slots are followed by the shadow."""

    def __init__(self, num_blocks=6, block_size=3):
        super().__init__()
        self.memory = PagedMemory(num_blocks, block_size, prefix_caching=False)
        self.shadow = ShadowSlots()
        self.lengths, self.contents = {}, {}

    def blocks(self, num_tokens):
        return -(-num_tokens // self.memory.block_size)

    def free(self, contents):
        return self.memory.num_blocks - len({id(each) for blocks in contents.values() for each in blocks})

    def grown(self, wanted):
        """What the contents become, and how many of them are copies."""
        contents, num_copies = {name: list(blocks) for name, blocks in self.contents.items()}, 0
        for name, n in wanted:
            mine, length = contents[name], self.lengths[name]
            owners = sum(mine[-1] is each for blocks in contents.values() for each in blocks) if mine else 0
            if length % self.memory.block_size and owners > 1:
                mine[-1] = object()
                num_copies += 1
            mine += [object() for _ in range(self.blocks(length + n) - len(mine))]
        return contents, num_copies

    @rule(name=st.sampled_from("ABCDE"), num_tokens=st.integers(1, 20))
    def admit(self, name, num_tokens):
        if name in self.lengths:
            with pytest.raises(ValueError, match=f"'{name}'"):
                self.memory.admit(name, list(range(num_tokens)))
            return
        admitted = self.memory.admit(name, list(range(num_tokens)))
        assert (admitted == 0) == (self.blocks(num_tokens) <= self.free(self.contents))
        if admitted is not None:
            self.lengths[name], self.contents[name] = 0, []

    @rule(parent=st.sampled_from("ABCDE"), child=st.sampled_from("ABCDE"))
    def fork(self, parent, child):
        if parent not in self.lengths or child in self.lengths:
            with pytest.raises(ValueError):
                self.memory.fork(parent, child)
            return
        self.memory.fork(parent, child)
        self.shadow.fork(parent, child)
        self.lengths[child], self.contents[child] = self.lengths[parent], list(self.contents[parent])

    @rule(data=st.data())
    def grow(self, data):
        names = data.draw(st.lists(st.sampled_from("ABCDE"), unique=True))
        wanted = [(name, data.draw(st.integers(1, 7))) for name in names if name in self.lengths]
        contents, num_copies = self.grown(wanted)
        copies = grow(self.memory, wanted)
        assert (copies is None) == (self.free(contents) < 0)
        if copies is None:
            return
        assert len(copies) == num_copies
        self.contents = contents
        for source, destination in copies:
            self.shadow.copy(source, destination, self.memory.block_size)
        for name, n in wanted:
            start, self.lengths[name] = self.lengths[name], self.lengths[name] + n
            self.shadow.write(self.memory, name, start, start + n)
            self.memory.commit(name, [], start + n)

    @rule(name=st.sampled_from("ABCDE"))
    def release(self, name):
        if name in self.lengths:
            self.memory.release(name)
            del self.lengths[name], self.contents[name]

    @invariant()
    def agrees_with_the_model(self):
        check(self.memory, self.shadow)
        tables = {name: self.memory.table(name) for name in self.memory.sequences()}
        assert {name: table.num_tokens for name, table in tables.items()} == self.lengths
        assert self.memory.allocator.num_free == self.free(self.contents)
        block_of = {}  # one block for each content, one content for each block
        for name, table in tables.items():
            for content, block in zip(self.contents[name], table.blocks, strict=True):
                assert block_of.setdefault(id(content), block) == block
        assert len(set(block_of.values())) == len(block_of)
        assert self.memory.usage().used_slots + self.memory.usage().saved_slots == sum(self.lengths.values())

    def teardown(self):
        for name in self.lengths:
            self.memory.release(name)
        assert self.memory.allocator.num_free == self.memory.num_blocks


WALKS = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))


def test_allocator_walks():
    run_state_machine_as_test(AllocatorMachine, settings=WALKS)


@pytest.mark.parametrize(
    "num_blocks, block_size",
    [(6, 3), pytest.param(9, 1, marks=pytest.mark.slow), pytest.param(3, 4, marks=pytest.mark.slow)],
)
def test_memory_walks(num_blocks, block_size):
    run_state_machine_as_test(lambda: MemoryMachine(num_blocks, block_size), settings=WALKS)
