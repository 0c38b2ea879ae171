"""Shared blocks: forks, copies before writes, and what is never copied. Names like test_d1 are fixed scenarios."""

import random

import pytest

from minipaged.events import BlockCopied, BlocksReleased, BlocksTaken, Forked
from minipaged.memory.allocator import BlockAllocator, DoubleFree, OutOfBlocks
from minipaged.memory.block_table import BlockTable
from minipaged.memory.check import BrokenInvariant, ShadowSlots, check
from minipaged.memory.copy_on_write import fork, make_writable
from minipaged.memory.paged import PagedMemory
from minipaged.memory.usage import Usage


def table_of(allocator, num_tokens, block_size=4):
    table = BlockTable(block_size)
    table.append_blocks(allocator.allocate(table.blocks_needed(num_tokens)))
    table.num_tokens = num_tokens
    return table


def counts(allocator):
    return [allocator.ref_count(block) for block in range(allocator.num_blocks)], allocator.free_order()


def memory_with(num_blocks, block_size, num_tokens, *children, **options):
    """A memory with a sequence A of num_tokens tokens, and forks of it."""
    memory = PagedMemory(num_blocks, block_size, prefix_caching=False, **options)
    memory.admit("A", [0] * num_tokens)
    assert memory.grow([("A", num_tokens)]) == []
    memory.commit("A", [], num_tokens)
    for child in children:
        memory.fork("A", child)
    check(memory)
    return memory


def grow(memory, *requests):
    """Grow and commit -> the copies."""
    copies = memory.grow(list(requests))
    if copies is not None:
        for name, _ in requests:
            memory.commit(name, [], memory.table(name).num_tokens)
        check(memory)
    return copies


def used(memory):
    return memory.num_blocks - memory.allocator.num_free


def state(memory):
    tables = {name: (list(memory.table(name).blocks), memory.table(name).num_tokens) for name in memory.sequences()}
    return tables, counts(memory.allocator), memory.usage(), list(memory.log or ())


def test_figure_8_of_the_paper_on_tables():
    """Two samples of one prompt of 7 tokens: A1 writes first and gets block 3, A2 then writes in place."""
    allocator = BlockAllocator(9, free_order=[7, 1, 3])
    a1 = table_of(allocator, 7)
    a2 = fork(a1, allocator)
    assert a1.blocks == a2.blocks == [7, 1] and a1.blocks is not a2.blocks
    assert (allocator.ref_count(7), allocator.ref_count(1)) == (2, 2)
    assert make_writable(a1, 7, allocator) == (1, 3)
    assert (a1.blocks, a2.blocks) == ([7, 3], [7, 1])
    assert [allocator.ref_count(block) for block in (7, 1, 3)] == [2, 1, 1]
    assert make_writable(a2, 7, allocator) is None
    assert a2.blocks == [7, 1]


@pytest.mark.parametrize("at_once", [True, False])
def test_figure_8_of_the_paper_in_the_memory(at_once):
    memory = memory_with(9, 4, 7, free_order=[7, 1, 3])
    memory.log = []
    memory.fork("A", "A.2")
    assert memory.table("A").blocks == memory.table("A.2").blocks == [7, 1]
    copies = grow(memory, ("A", 1), ("A.2", 1)) if at_once else grow(memory, ("A", 1)) + grow(memory, ("A.2", 1))
    assert copies == [(1, 3)]
    assert (memory.table("A").blocks, memory.table("A.2").blocks) == ([7, 3], [7, 1])
    assert memory.log == [Forked("A", "A.2", 2, 7), BlockCopied("A", 1, 1, 3, 2, 6)]
    assert memory.filled() == {7: 4, 1: 4, 3: 4}
    assert memory.usage() == Usage(12, 12, 0, 36, saved_slots=4, saved_blocks=1)


def test_figure_9_of_the_paper():
    """Beam search with k = 4, every block full: the new blocks are taken before the losers' are given back."""
    allocator = BlockAllocator(13)
    take = allocator.allocate
    c0 = table_of(allocator, 4)
    c3 = fork(c0, allocator)
    for table in (c0, c3, c0, c3):  # 0 and 3 go apart: blocks 1 and 3, 2 and 4
        table.append_blocks(take(1))
    c1, c2 = fork(c0, allocator), fork(c0, allocator)
    for table in (c0, c1, c2, c3):
        table.append_blocks(take(1))
    assert [each.blocks for each in (c0, c1, c2, c3)] == [[0, 1, 3, 5], [0, 1, 3, 6], [0, 1, 3, 7], [0, 2, 4, 8]]
    assert [allocator.ref_count(block) for block in range(9)] == [4, 3, 1, 3, 1, 1, 1, 1, 1]

    beams = [c1, fork(c1, allocator), c2, fork(c2, allocator)]
    for table in beams:
        assert make_writable(table, 16, allocator) is None  # all blocks are full: nothing is copied
        table.append_blocks(take(1))
    freed = [allocator.release(loser.blocks) for loser in (c0, c3)]
    assert [each.blocks for each in beams] == [[0, 1, 3, 6, 9], [0, 1, 3, 6, 10], [0, 1, 3, 7, 11], [0, 1, 3, 7, 12]]
    assert freed == [[5], [8, 4, 2]]
    assert [allocator.ref_count(block) for block in range(13)] == [4, 4, 0, 4, 0, 0, 2, 2, 0, 1, 1, 1, 1]


def test_d1_the_child_copies_and_the_parent_then_writes_in_place():
    memory = memory_with(4, 4, 3)
    assert used(memory) == 1
    memory.fork("A", "B")
    assert used(memory) == 1
    assert memory.table("A").blocks == memory.table("B").blocks == [0]
    assert grow(memory, ("B", 1)) == [(0, 1)]
    assert used(memory) == 2
    assert (memory.table("A").blocks, memory.table("B").blocks) == ([0], [1])
    assert (memory.table("A").num_tokens, memory.table("B").num_tokens) == (3, 4)
    assert grow(memory, ("A", 1)) == []
    assert used(memory) == 2


def test_d3_a_full_last_block_is_not_copied():
    memory = memory_with(4, 4, 4, "B")
    assert grow(memory, ("B", 1)) == []
    assert used(memory) == 2
    assert (memory.table("A").blocks, memory.table("B").blocks) == ([0], [0, 1])


@pytest.mark.parametrize(
    "num_tokens, more, after", [(1, 1, 2), (16, 1, 3), (129, 16, 20), (1, 129, 18), (16, 129, 19), (129, 1, 18)]
)
def test_d4_the_count_law(num_tokens, more, after):
    memory = memory_with(24, 8, num_tokens, "B")
    copies = grow(memory, ("B", more))
    assert (used(memory), len(copies)) == (after, int(num_tokens % 8 != 0))


@pytest.mark.parametrize("seed", range(30))
def test_d4_the_count_law_for_any_numbers(seed):
    """ceil(L / b) + ceil((L + A) / b) - floor(L / b) blocks, one copy if L fills no last block, none for the other."""
    rng = random.Random(seed)
    for _ in range(20):
        size, num_tokens, more = rng.randint(1, 9), rng.randint(1, 60), rng.randint(1, 60)
        memory = memory_with(200, size, num_tokens, "B")
        one, other = rng.sample(["A", "B"], 2)
        copies = grow(memory, (one, more))
        assert len(copies) == int(num_tokens % size != 0)
        assert used(memory) == -(-num_tokens // size) + -(-(num_tokens + more) // size) - num_tokens // size
        before = used(memory)
        assert grow(memory, (other, 1)) == []
        assert used(memory) == before + int(num_tokens % size == 0)


def test_d5_the_original_may_go_first():
    memory = memory_with(4, 4, 6, "B")
    memory.log = []
    memory.release("A")
    check(memory)
    assert used(memory) == 2
    assert memory.log == [BlocksReleased("A", (), 2)]
    assert (memory.table("B").blocks, memory.table("B").num_tokens) == ([0, 1], 6)
    memory.release("B")
    assert memory.allocator.free_order() == [1, 0, 2, 3]
    assert memory.usage() == Usage(0, 0, 0, 16)


@pytest.mark.parametrize("num_tokens, forked, after, num_copies", [(10, 3, 6, 3), (8, 2, 6, 0)])
@pytest.mark.parametrize("at_once", [True, False])
def test_d6_four_samples_of_one_prompt(num_tokens, forked, after, num_copies, at_once):
    names = ["A", "B", "C", "D"]
    memory = memory_with(8, 4, num_tokens, *names[1:])
    assert used(memory) == forked
    requests = [(name, 1) for name in names]
    copies = grow(memory, *requests) if at_once else [copy for each in requests for copy in grow(memory, each)]
    assert (used(memory), len(copies)) == (after, num_copies)


def test_d9_a_copied_block_holds_what_the_source_held_bit_for_bit():
    import torch

    from minipaged.attention.kv_cache import KVCache
    from minipaged.serving.plan import Plan

    memory, cache = memory_with(4, 4, 3, "B"), KVCache(2, 4, 4, 2, 8, poison=True)
    memory.take_moved()
    stored = torch.randn(2, 3, 2, 8)
    for layer in range(2):
        cache.write(layer, stored[layer], -stored[layer], torch.tensor([0, 1, 2], dtype=torch.int32))
    copies = grow(memory, ("B", 1))
    cache.apply(Plan([], [], copies, *memory.take_moved()))
    slot = torch.tensor(memory.table("B").slots(3, 4), dtype=torch.int32)
    for layer in range(2):
        assert torch.equal(cache.k[layer][1, :3], stored[layer]) and torch.equal(cache.v[layer][1, :3], -stored[layer])
        cache.write(layer, torch.ones(1, 2, 8), torch.ones(1, 2, 8), slot)
        assert torch.equal(cache.k[layer][0, :3], stored[layer]) and torch.equal(cache.v[layer][0, :3], -stored[layer])
        assert cache.k[layer][0, 3].isnan().all() and not cache.k[layer][1].isnan().any()


def test_a_fork_that_fails_changes_nothing():
    allocator = BlockAllocator(6)
    table = table_of(allocator, 9)
    table.blocks[2] = 99  # not in the pool: the allocator refuses to share it, after two that it could share
    before = counts(allocator)
    with pytest.raises(ValueError, match="block 99"):
        fork(table, allocator)
    assert counts(allocator) == before

    memory = memory_with(6, 4, 9, "B")
    memory.log = []
    before = state(memory)
    for parent, child, named in (("A", "B", "'B'"), ("X", "C", "'X'"), ("A", "A", "'A'"), ("X", "X", "'X'")):
        with pytest.raises(ValueError, match=named):
            memory.fork(parent, child)
    memory.table("A").blocks[1] = 99
    with pytest.raises(ValueError, match="block 99"):
        memory.fork("A", "C")
    memory.table("A").blocks[1] = 1
    assert state(memory) == before


def test_a_fork_is_of_its_parents_kind():
    class Mine(BlockTable):
        pass

    allocator, table = BlockAllocator(4), Mine(4)
    table.append_blocks(allocator.allocate(2))
    table.num_tokens = 5
    child = fork(table, allocator)
    assert (type(child), child.block_size, child.num_tokens, child.blocks) == (Mine, 4, 5, [0, 1])
    child.append_blocks(allocator.allocate(1))
    assert table.blocks == [0, 1]


def test_nothing_is_copied_that_need_not_be():
    allocator = BlockAllocator(5)
    table = table_of(allocator, 6)
    assert make_writable(table, 6, allocator) is None  # one owner
    other = fork(table, allocator)
    allocator.release(other.blocks)
    assert make_writable(table, 6, allocator) is None  # one owner again
    other = fork(table, allocator)
    assert make_writable(table, 8, allocator) is None  # past the table: that block is still to be taken
    assert make_writable(table, 10**9, allocator) is None
    assert make_writable(other, 3, allocator) == (0, 2)  # any shared block, not only the last
    assert make_writable(table, 0, allocator) is None
    assert (table.blocks, other.blocks) == ([0, 1], [2, 1])
    before = counts(allocator)
    for wrong in (-1, 1.5, None):
        with pytest.raises(ValueError, match=f"position={wrong}"):
            make_writable(table, wrong, allocator)
    assert counts(allocator) == before


def test_out_of_blocks_changes_nothing():
    allocator = BlockAllocator(2)
    table = table_of(allocator, 6)
    other = fork(table, allocator)
    before = counts(allocator)
    with pytest.raises(OutOfBlocks):
        make_writable(other, 6, allocator)
    assert counts(allocator) == before
    assert table.blocks == other.blocks == [0, 1]


def test_a_grow_prices_copies_before_it_touches_anything():
    """Three owners of a partial block, of whom all write: two copies. Of whom two write: two copies as well."""
    for names, needed in ((("A", "B", "C"), 2), (("A", "B"), 2), (("A",), 1)):
        for num_free in range(4):
            memory = memory_with(2 + num_free, 4, 6, "B", "C")
            memory.log = []
            before = state(memory)
            copies = grow(memory, *[(name, 2) for name in names])
            assert (copies is None) == (num_free < needed)
            if copies is None:
                assert state(memory) == before
            else:
                assert copies == [(1, 2 + i) for i in range(needed)]


def test_copies_and_new_blocks_are_priced_together():
    memory = memory_with(4, 4, 6, "B")
    before = state(memory)
    assert grow(memory, ("A", 3), ("B", 3)) is None  # a copy and two blocks more, and two are free
    assert state(memory) == before
    memory = memory_with(5, 4, 6, "B")
    memory.log = []
    assert grow(memory, ("A", 3), ("B", 3)) == [(1, 2)]
    assert memory.log == [
        BlockCopied("A", 1, 1, 2, 2, 2),
        BlocksTaken("A", 2, False, (3,), 1),
        BlocksTaken("B", 2, False, (4,), 0),
    ]
    assert (memory.table("A").blocks, memory.table("B").blocks) == ([0, 2, 3], [0, 1, 4])


def test_a_copys_destination_is_handed_out_and_a_shared_block_not_released():
    memory = memory_with(6, 4, 6, "B", "C")
    memory.take_moved()
    assert grow(memory, ("B", 1)) == [(1, 2)]
    assert memory.take_moved() == ([2], [])
    memory.release("A")
    assert memory.take_moved() == ([], [])
    memory.release("C")
    assert memory.take_moved() == ([], [1])
    memory.release("B")
    assert memory.take_moved() == ([], [0, 2])


def test_what_sharing_saves():
    memory = memory_with(12, 4, 10, "B", "C", "D")
    assert memory.usage() == Usage(10, 12, 0, 48, saved_slots=30, saved_blocks=9)
    grow(memory, *[(name, 1) for name in "ABCD"])
    assert memory.usage() == Usage(8 + 4 * 3, 24, 0, 48, saved_slots=24, saved_blocks=6)
    assert sum(memory.filled().values()) == 20


class TestTheShadow:
    """A shadow that can't fail proves nothing."""

    @pytest.fixture
    def memory(self):
        return memory_with(8, 4, 6, "B")

    @pytest.fixture
    def shadow(self, memory):
        shadow = ShadowSlots()
        memory.release("B")
        shadow.write(memory, "A", 0, 6)
        memory.fork("A", "B")
        shadow.fork("A", "B")
        check(memory, shadow)
        return shadow

    def test_a_write_into_a_shared_block_is_seen(self, memory, shadow):
        for start, stop in ((5, 6), (6, 7)):
            with pytest.raises(BrokenInvariant, match="2 owners"):
                shadow.write(memory, "B", start, stop)

    def test_a_copy_that_was_forgotten_is_seen(self, memory, shadow):
        [(source, destination)] = memory.grow([("B", 1)])
        shadow.write(memory, "B", 6, 7)
        with pytest.raises(BrokenInvariant, match=r"holds \{\}"):
            check(memory, shadow)
        shadow.copy(source, destination, memory.block_size)
        shadow.write(memory, "B", 6, 7)
        check(memory, shadow)

    def test_a_fork_that_nobody_was_told_of_is_seen(self, memory, shadow):
        memory.fork("A", "C")
        with pytest.raises(BrokenInvariant, match="'A': 0"):
            check(memory, shadow)

    def test_a_block_shared_at_another_place_is_seen(self, memory):
        memory.table("A").blocks.reverse()
        with pytest.raises(BrokenInvariant, match="elsewhere"):
            check(memory)

    @pytest.mark.parametrize("wrong", [{"saved_slots": 1}, {"saved_blocks": 0}])
    def test_a_wrong_number_of_what_is_saved_is_seen(self, memory, wrong):
        true = memory.usage()
        memory.usage = lambda: type(true)(**{**vars(true), **wrong})
        with pytest.raises(BrokenInvariant):
            check(memory)


def test_an_allocator_with_the_public_methods_alone_is_enough():
    """A learner's allocator has these and no others."""

    class Mine:
        def __init__(self, num_blocks, free_order=None):
            self._inner = BlockAllocator(num_blocks, free_order)

        def allocate(self, n=1):
            return self._inner.allocate(n)

        def release(self, ids, keep=()):
            return self._inner.release(ids, keep)

        def share(self, ids):
            self._inner.share(ids)

        def ref_count(self, block):
            return self._inner.ref_count(block)

        @property
        def num_free(self):
            return self._inner.num_free

        def free_order(self):
            return self._inner.free_order()

    class Parts:
        allocator, block_table = Mine, BlockTable

    memory = memory_with(6, 4, 6, "B", parts=Parts)
    assert grow(memory, ("B", 1), ("A", 1)) == [(1, 2)]
    memory.release("A")
    memory.release("B")
    check(memory)
    with pytest.raises(DoubleFree):
        memory.allocator.release([0])
