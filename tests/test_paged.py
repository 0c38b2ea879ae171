"""PagedMemory: the verbs, all or nothing."""

from dataclasses import replace

import pytest

from minipaged.events import BlocksReleased, BlocksTaken
from minipaged.memory.check import BrokenInvariant, ShadowSlots, check
from minipaged.memory.paged import PagedMemory
from minipaged.memory.usage import Usage


def admit(memory, name, num_tokens):
    """Admit, grow and commit: all tokens are computed."""
    token_ids = list(range(num_tokens))
    cached = memory.admit(name, token_ids)
    assert cached == 0
    append(memory, name, num_tokens, token_ids)


def append(memory, name, num_tokens=1, token_ids=()):
    total = memory.table(name).num_tokens + num_tokens
    assert memory.grow([(name, num_tokens)]) == []
    memory.commit(name, token_ids, total)
    check(memory)


def everything(memory):
    tables = {name: (list(memory.table(name).blocks), memory.table(name).num_tokens) for name in memory.sequences()}
    counts = [memory.allocator.ref_count(block) for block in range(memory.num_blocks)]
    return tables, counts, memory.allocator.free_order(), memory.usage()


@pytest.mark.parametrize("num_tokens, num_blocks", [(1, 1), (16, 1), (129, 9)])
def test_a8_blocks_of_a_sequence(num_tokens, num_blocks):
    memory = PagedMemory(1024, 16, prefix_caching=False)
    for name in "ABCDE":
        admit(memory, name, num_tokens)
        assert len(memory.table(name).blocks) == num_blocks
    assert memory.allocator.num_free == 1024 - 5 * num_blocks
    for name in "ABCDE":
        memory.release(name)
        check(memory)
    assert memory.allocator.num_free == 1024
    assert memory.usage() == Usage(0, 0, 0, 1024 * 16)


def test_figure_6_of_the_paper():
    """Seven prompt tokens lie on physical blocks 7 and 1; the ninth token's block is 3."""
    memory = PagedMemory(9, 4, prefix_caching=False, free_order=[7, 1, 3])
    prompt = ["Four", "score", "and", "seven", "years", "ago", "our"]
    assert memory.admit("A", prompt) == 0
    assert memory.grow([("A", 7)]) == []
    memory.commit("A", prompt, 7)
    assert memory.table("A").blocks == [7, 1]
    assert memory.filled() == {7: 4, 1: 3}

    append(memory, "A", 1, [*prompt, "fathers"])
    assert memory.table("A").blocks == [7, 1]
    assert memory.filled() == {7: 4, 1: 4}

    append(memory, "A", 1, [*prompt, "fathers", "brought"])
    assert memory.table("A").blocks == [7, 1, 3]
    assert memory.filled() == {7: 4, 1: 4, 3: 1}
    assert memory.table("A").slots(6, 9) == [1 * 4 + 2, 1 * 4 + 3, 3 * 4]


def test_b18_without_prefix_caching_nothing_is_hit():
    memory = PagedMemory(4, 4, prefix_caching=False)
    admit(memory, "A", 10)
    assert len(memory.table("A").blocks) == 3
    memory.release("A")
    assert memory.lookup(list(range(16))) == 0
    admit(memory, "B", 16)
    assert len(memory.table("B").blocks) == 4
    assert memory.admit("C", [0, 1, 2, 3]) is None


def test_released_blocks_are_handed_out_again_tail_first():
    memory = PagedMemory(6, 4, prefix_caching=False)
    admit(memory, "A", 16)
    assert memory.table("A").blocks == [0, 1, 2, 3]
    memory.release("A")
    assert memory.allocator.free_order() == [3, 2, 1, 0, 4, 5]


@pytest.mark.parametrize("block_size", [1, 2, 4, 16])
def test_one_token_at_a_time_takes_a_block_where_the_last_is_full(block_size):
    memory = PagedMemory(40, block_size, prefix_caching=False)
    admit(memory, "A", 1)
    for num_tokens in range(2, 40):
        append(memory, "A")
        assert len(memory.table("A").blocks) == -(-num_tokens // block_size)


def test_admission_asks_for_the_whole_length_and_takes_nothing_yet():
    memory = PagedMemory(4, 4, prefix_caching=False)
    assert memory.admit("A", list(range(16))) == 0
    assert memory.allocator.num_free == 4
    memory.release("A")
    before = everything(memory)
    assert memory.admit("A", list(range(17))) is None
    assert memory.admit("A", list(range(13)), extra_blocks=1) is None
    assert everything(memory) == before


def test_grow_serves_all_or_none():
    memory = PagedMemory(4, 4, prefix_caching=False)
    admit(memory, "A", 4)
    admit(memory, "B", 7)
    before = everything(memory)
    assert memory.grow([("A", 1), ("B", 2)]) is None
    assert everything(memory) == before
    assert memory.grow([("A", 1), ("B", 1)]) == []
    assert memory.table("A").blocks == [0, 3]
    assert (memory.table("A").num_tokens, memory.table("B").num_tokens) == (5, 8)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda memory: memory.admit("A", [1]), "'A'"),
        (lambda memory: memory.admit("C", []), "'C'"),
        (lambda memory: memory.grow([("A", 1), ("B", 1)]), "'B'"),
        (lambda memory: memory.grow([("A", 0)]), "num_new_tokens=0"),
        (lambda memory: memory.grow([("A", 5.0)]), "num_new_tokens=5.0"),
        (lambda memory: memory.admit("C", [1] * 100, extra_blocks=-100), "extra_blocks=-100"),
        (lambda memory: memory.grow([("A", 1), ("A", 1)]), "only once"),
        (lambda memory: memory.grow_one("B", 1), "'B'"),
        (lambda memory: memory.grow_one("A", 0), "num_new_tokens=0"),
        (lambda memory: memory.grow([("A", -3)]), "num_new_tokens=-3"),
        (lambda memory: memory.commit("A", [1, 2, 3], 4), "4 tokens"),
        (lambda memory: memory.commit("A", [1, 2, 3], 2), "2 tokens computed, but 3"),
        (lambda memory: memory.release("B"), "'B'"),
        (lambda memory: memory.table("B"), "'B'"),
    ],
)
def test_a_wrong_call_names_what_is_wrong_and_changes_nothing(wrong, message):
    memory = PagedMemory(4, 4, prefix_caching=False)
    admit(memory, "A", 3)
    before = everything(memory)
    with pytest.raises(ValueError, match=message):
        wrong(memory)
    assert everything(memory) == before
    check(memory)


def test_a_memory_that_cannot_be():
    with pytest.raises(ValueError, match="num_blocks=0"):
        PagedMemory(0, 4)
    with pytest.raises(ValueError, match="block_size=0"):
        PagedMemory(4, 0)
    with pytest.raises(ValueError, match="prefix_caching=1: must be True or False"):
        PagedMemory(4, 4, prefix_caching=1)
    with pytest.raises(ValueError, match="num_host_blocks=-1"):
        PagedMemory(4, 4, num_host_blocks=-1)


def test_the_last_token_needs_no_slot():
    memory = PagedMemory(4, 4, prefix_caching=False)
    assert memory.fits_ever(num_prompt_tokens=8, max_tokens=9)
    assert not memory.fits_ever(num_prompt_tokens=8, max_tokens=10)
    assert memory.fits_ever(num_prompt_tokens=16, max_tokens=1)
    assert not memory.fits_ever(num_prompt_tokens=17, max_tokens=1)


def test_full_blocks_of_a_prompt_are_counted_once_for_n_samples():
    memory = PagedMemory(9, 4, prefix_caching=False)
    assert [memory.blocks_at_most(10, 3, n) for n in (1, 2, 4)] == [3, 4, 6]
    assert memory.blocks_at_most(8, 2, 4) == 6
    assert memory.blocks_at_most(10, 1, 4) == 3
    assert memory.fits_ever(10, 3, 7)
    assert not memory.fits_ever(10, 3, 8)


def test_a_cleared_memory_is_a_fresh_one():
    memory = PagedMemory(6, 4, prefix_caching=False, free_order=[3, 1])
    admit(memory, "A", 9)
    memory.clear()
    check(memory)
    assert memory.sequences() == []
    assert memory.allocator.free_order() == [3, 1, 0, 2, 4, 5]


def test_usage_tells_tail_waste():
    memory = PagedMemory(8, 4, prefix_caching=False)
    admit(memory, "A", 9)
    admit(memory, "B", 2)
    assert memory.usage() == Usage(used_slots=11, allocated_slots=16, cached_slots=0, total_slots=32)


def test_the_log_tells_which_blocks_moved():
    memory = PagedMemory(8, 4, prefix_caching=False)
    memory.log = []
    admit(memory, "A", 5)
    append(memory, "A", 3)
    append(memory, "A", 1)
    append(memory, "A", 5)
    memory.release("A")
    assert memory.log == [
        BlocksTaken("A", 0, False, (0, 1), 6),
        BlocksTaken("A", 2, True, (2,), 5),
        BlocksTaken("A", 3, False, (3,), 4),
        BlocksReleased("A", (3, 2, 1, 0), 8),
    ]
    assert memory.take_moved() == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert memory.take_moved() == ([], [])


class TestCheck:
    """A check that can't fail proves nothing: each of these breaks one thing by hand."""

    @pytest.fixture
    def memory(self):
        memory = PagedMemory(6, 4, prefix_caching=False)
        admit(memory, "A", 6)
        admit(memory, "B", 3)
        return memory

    @pytest.mark.parametrize(
        "damage",
        [
            lambda memory: memory.table("A").blocks.append(5),  # a block that the allocator thinks is free
            lambda memory: memory.table("A").blocks.pop(),  # a leaked block
            lambda memory: memory.table("B").blocks.append(0),  # two owners, one counted
            lambda memory: memory.allocator.share([0]),  # one owner, two counted
            lambda memory: memory.allocator.release([0]),  # freed, and still in a table
            lambda memory: memory.allocator.allocate(1),  # taken, and in no table
            lambda memory: setattr(memory.table("A"), "num_tokens", 9),  # more tokens than slots
            lambda memory: setattr(memory.table("A"), "num_tokens", 4),  # a block too many
            lambda memory: memory.table("A").blocks.__setitem__(1, 0),  # the same block twice
            lambda memory: memory.table("A").blocks.__setitem__(1, 99),  # not in the pool
        ],
    )
    def test_damage_is_seen(self, memory, damage):
        check(memory)
        damage(memory)
        with pytest.raises(BrokenInvariant):
            check(memory)

    @pytest.mark.parametrize(
        "queue, num_free, message",
        [
            ([3, 4, 5, 0], 4, "block 0 has 1 owners and is in the free queue"),
            ([3, 4, 5, 5], 4, "twice in the free queue"),
            ([3, 4], 2, "block 5 has 0 owners and is not in the free queue"),
            ([3, 4, 5], 4, "num_free is 4"),
        ],
    )
    def test_an_allocator_that_lies_is_seen(self, memory, queue, num_free, message):
        class Lying:
            ref_count = memory.allocator.ref_count

            def free_order(self):
                return queue

        memory.allocator = Lying()
        memory.allocator.num_free = num_free
        with pytest.raises(BrokenInvariant, match=message):
            check(memory)

    def test_a_usage_that_does_not_add_up_is_seen(self, memory):
        true = memory.usage()
        for false in (replace(true, used_slots=99), replace(true, allocated_slots=16), replace(true, cached_slots=20)):
            memory.usage = lambda false=false: false
            with pytest.raises(BrokenInvariant, match=r"usage|tables"):
                check(memory)

    def test_a_table_with_a_wrong_block_is_seen(self, memory):
        memory.table("A").blocks[1] = 0
        memory.allocator.share([0])
        memory.allocator.release([1])
        with pytest.raises(BrokenInvariant, match="twice in its table"):
            check(memory)
        memory.table("A").blocks[1] = 99
        memory.allocator.release([0])
        with pytest.raises(BrokenInvariant, match="isn't in the pool"):
            check(memory)

    def test_a_slot_that_another_sequence_wrote_is_seen(self, memory):
        shadow = ShadowSlots()
        for name, num_tokens in (("A", 6), ("B", 3)):
            shadow.write(memory, name, 0, num_tokens)
        check(memory, shadow)
        a, b = memory.table("A").blocks, memory.table("B").blocks
        a[1], b[0] = b[0], a[1]
        with pytest.raises(BrokenInvariant, match="slot"):
            check(memory, shadow)

    def test_a_slot_that_nobody_wrote_is_seen(self, memory):
        with pytest.raises(BrokenInvariant, match=r"holds \{\}"):
            check(memory, ShadowSlots())
