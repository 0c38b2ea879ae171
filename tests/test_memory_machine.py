"""Random walks through allocator, tables and memory, compared with models of them that are too simple to be wrong."""

import hypothesis.strategies as st
import pytest
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
    """Sequences come, grow and go. The model is how many tokens each has; slots are followed by the shadow."""

    def __init__(self, num_blocks=6, block_size=3):
        super().__init__()
        self.memory = PagedMemory(num_blocks, block_size)
        self.shadow = ShadowSlots()
        self.lengths = {}

    def blocks(self, num_tokens):
        return -(-num_tokens // self.memory.block_size)

    def free(self):
        return self.memory.num_blocks - sum(map(self.blocks, self.lengths.values()))

    @rule(name=st.sampled_from("ABCDE"), num_tokens=st.integers(1, 20))
    def admit(self, name, num_tokens):
        if name in self.lengths:
            return
        admitted = self.memory.admit(name, list(range(num_tokens)))
        assert (admitted == 0) == (self.blocks(num_tokens) <= self.free())
        if admitted is not None:
            self.lengths[name] = 0

    @rule(data=st.data())
    def grow(self, data):
        names = data.draw(st.lists(st.sampled_from("ABCDE"), unique=True))
        wanted = [(name, data.draw(st.integers(1, 7))) for name in names if name in self.lengths]
        after = {name: self.lengths[name] + n for name, n in wanted}
        extra = sum(self.blocks(after[name]) - self.blocks(self.lengths[name]) for name in after)
        copies = self.memory.grow(wanted)
        assert (copies == []) == (extra <= self.free())
        if copies is None:
            return
        for name, n in wanted:
            start, self.lengths[name] = self.lengths[name], self.lengths[name] + n
            self.shadow.write(name, self.memory.table(name), start, start + n)
            self.memory.commit(name, [], start + n)

    @rule(name=st.sampled_from("ABCDE"))
    def release(self, name):
        if name in self.lengths:
            self.memory.release(name)
            del self.lengths[name]

    @invariant()
    def agrees_with_the_model(self):
        check(self.memory, self.shadow)
        assert self.memory.allocator.num_free == self.free()
        assert {name: self.memory.table(name).num_tokens for name in self.memory.sequences()} == self.lengths
        assert self.memory.usage().used_slots == sum(self.lengths.values())

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
