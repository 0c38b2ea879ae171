"""The prefix cache by itself and in the memory. Scenarios with a letter and a number come with their numbers."""

import random
import struct
from hashlib import sha256

import pytest

from minipaged.events import BlocksTaken, Evicted, PrefixHit
from minipaged.memory.check import BrokenInvariant, check
from minipaged.memory.paged import PagedMemory
from minipaged.memory.prefix_cache import ROOT, PrefixCache, block_hashes
from minipaged.memory.usage import Usage


def admit(memory, name, token_ids):
    """Admit, grow by the rest, commit. Returns how many tokens were cached, or None if there was no room."""
    num_cached = memory.admit(name, token_ids)
    if num_cached is not None:
        assert memory.grow([(name, len(token_ids) - num_cached)]) == []
        memory.commit(name, token_ids, len(token_ids))
        check(memory)
    return num_cached


def append(memory, name, token_ids):
    """The last of these tokens is new."""
    copies = memory.grow([(name, 1)])
    memory.commit(name, token_ids, len(token_ids))
    check(memory)
    return copies


# Hashes


def test_the_hash_is_a_chain_over_full_blocks():
    first = sha256(bytes(32) + struct.pack("<2q", 1, 2)).digest()
    second = sha256(first + struct.pack("<2q", 3, 300)).digest()
    assert block_hashes([1, 2, 3, 300, 5], 2) == [first, second]
    assert block_hashes([3, 300], 2, first) == [second]
    assert block_hashes([1], 2) == block_hashes([], 2) == []
    assert len(ROOT) == 32


@pytest.mark.parametrize(
    "one, other, block_size",
    [
        ([1, 23], [12, 3], 2),  # ids joined as text
        ([1], [257], 1),  # ids cut to 8 bits
        ([1], [65537], 1),  # to 16
        ([1], [1 + 2**32], 1),  # to 32
        ([-1], [2**32 - 1], 1),
        ([1, 2], [2, 1], 2),  # the same tokens in another order
        ([0, 0], [0], 1),
    ],
)
def test_other_tokens_have_another_hash(one, other, block_size):
    assert block_hashes(one, block_size)[-1] != block_hashes(other, block_size)[-1]


def test_equal_blocks_with_another_past_have_another_hash():
    assert len(set(block_hashes([5] * 40, 4))) == 10


def test_b6_never_the_whole_prompt():
    memory = PagedMemory(10, 4)
    admit(memory, "A", list(range(8)))
    for num_tokens, num_blocks in ((8, 1), (9, 2), (4, 0), (5, 1)):
        assert memory.prefix_cache.longest_hit(list(range(num_tokens))) == [0, 1][:num_blocks]
        assert memory.lookup(list(range(num_tokens))) == 4 * num_blocks
    assert memory.lookup([]) == memory.lookup([0]) == 0


@pytest.mark.parametrize("num_tokens, num_hit", [(33, 32), (32, 16), (48, 32), (16, 0), (1, 0)])
def test_b7_of_two_equal_prompts_the_second_computes_at_least_one_token(num_tokens, num_hit):
    memory = PagedMemory(10, 16)
    assert admit(memory, "A", [7] * num_tokens) == 0
    assert admit(memory, "B", [7] * num_tokens) == num_hit


def test_b8_a_chain():
    memory = PagedMemory(10, 4)
    admit(memory, "A", [1, 2, 3, 4, 5, 6, 7, 8])
    assert memory.lookup([5, 6, 7, 8, 1, 2, 3, 4, 0]) == 0
    assert memory.lookup([1, 2, 3, 4, 9, 9, 9, 9, 0]) == 4
    assert memory.lookup([9, 1, 2, 3, 4, 5, 6, 7, 8]) == 0
    assert memory.lookup([1, 2, 3, 4, 9, 9, 9, 9, 5, 6, 7, 8, 0]) == 4  # nothing is hit behind a gap


def test_a_lookup_takes_the_copy_that_has_been_here_longest_and_forgetting_it_leaves_the_other():
    cache = PrefixCache(2)
    [name] = block_hashes([1, 2], 2)
    for block in (5, 3, 8):
        cache.remember(block, name)
    cache.remember(5, name)  # again: it keeps its place
    assert cache.longest_hit([1, 2, 0]) == cache.longest_hit([1, 2, 0]) == [5]  # asking moves nothing
    cache.forget(5)
    assert cache.longest_hit([1, 2, 0]) == [3]
    cache.remember(3, block_hashes([7, 7], 2)[0])  # it holds something else now
    assert cache.longest_hit([1, 2, 0]) == [8] and cache.longest_hit([7, 7, 0]) == [3]
    cache.forget(8)
    cache.forget(8)  # nothing happens
    assert cache.longest_hit([1, 2, 0]) == [] and cache.hash_of(8) is None
    cache.clear()
    assert cache.longest_hit([7, 7, 0]) == [] and cache.hash_of(3) is None


def test_nothing_is_hit_behind_a_gap():
    cache = PrefixCache(2)
    for block, name in enumerate(block_hashes([1, 2, 3, 4, 5, 6], 2)):
        cache.remember(block, name)
    cache.forget(1)
    assert cache.longest_hit([1, 2, 3, 4, 5, 6, 7]) == [0]


# In the memory

COMMON = [0] * 16 + [1] * 16 + [2] * 16


def test_b1_to_b5_a_common_prefix_is_stored_once_and_eaten_from_its_end():
    memory = PagedMemory(10, 16)
    assert admit(memory, "r0", COMMON + [3] * 7) == 0  # B1
    assert memory.table("r0").blocks == [0, 1, 2, 3]
    hashes = [memory.prefix_cache.hash_of(block) for block in range(4)]
    assert hashes == [*block_hashes(COMMON, 16), None]
    assert [memory.allocator.ref_count(block) for block in range(4)] == [1, 1, 1, 1]
    assert memory.allocator.num_free == 6

    assert admit(memory, "r1", COMMON + [4] * 5) == 48  # B2
    assert memory.table("r1").blocks == [0, 1, 2, 4]
    assert [memory.allocator.ref_count(block) for block in range(5)] == [2, 2, 2, 1, 1]
    assert memory.allocator.num_free == 5

    memory.release("r0")  # B3
    check(memory)
    memory.release("r1")
    assert memory.allocator.free_order() == [4, 3, 5, 6, 7, 8, 9, 2, 1, 0]
    assert memory.cached() == [2, 1, 0]
    assert memory.usage() == Usage(0, 0, 48, 160)

    assert admit(memory, "r2", COMMON + [5] * 6) == 48  # B4
    assert memory.table("r2").blocks == [0, 1, 2, 4]
    assert memory.allocator.free_order() == [3, 5, 6, 7, 8, 9]

    memory.release("r2")  # B5
    assert admit(memory, "r3", [99] * 160) == 0
    assert memory.table("r3").blocks == [4, 3, 5, 6, 7, 8, 9, 2, 1, 0]
    assert memory.allocator.num_free == 0
    assert memory.lookup(COMMON + [0]) == 0
    stats = memory.prefix_stats
    assert (stats.queries, stats.hits, stats.tokens_asked, stats.tokens_saved) == (4, 2, 55 + 53 + 54 + 160, 96)
    assert stats.evictions == 3 and stats.hit_rate == 96 / 322


def test_b9_a_block_that_is_not_full_is_never_hit_and_a_reused_one_is_forgotten():
    memory = PagedMemory(1, 16)
    admit(memory, "r0", list(range(16)))
    memory.release("r0")
    assert memory.lookup(list(range(15))) == 0
    assert memory.prefix_cache.hash_of(0) is not None
    admit(memory, "r1", list(range(15)))
    assert memory.table("r1").blocks == [0] and memory.prefix_cache.hash_of(0) is None
    assert memory.lookup(list(range(17))) == 0


def test_b10_a_block_can_be_hit_once_its_last_slot_is_written():
    memory, tokens = PagedMemory(10, 4), [1, 2, 3, 4, 5, 6]
    admit(memory, "A", tokens)
    assert (memory.prefix_cache.longest_hit(list(range(1, 10))), memory.table("A").blocks) == ([0], [0, 1])
    for token, hit, table in ((7, [0], [0, 1]), (8, [0, 1], [0, 1]), (9, [0, 1], [0, 1, 2])):
        tokens.append(token)
        append(memory, "A", tokens)
        assert memory.prefix_cache.longest_hit(list(range(1, 10))) == hit
        assert memory.lookup(list(range(1, 10))) == 4 * len(hit)
        assert memory.table("A").blocks == table


def test_what_is_not_written_yet_cannot_be_hit():
    memory = PagedMemory(10, 4)
    memory.admit("A", [1] * 9)
    memory.grow([("A", 9)])
    assert memory.lookup([1] * 9) == 0
    memory.commit("A", [1] * 9, 9)
    assert memory.lookup([1] * 9) == 8


def test_b11_only_full_blocks_have_a_hash():
    memory = PagedMemory(10, 16)
    tokens = list(range(55))
    admit(memory, "A", tokens)
    assert len(memory.table("A").blocks) == 4
    tokens += range(4)
    memory.grow([("A", 4)])
    memory.commit("A", tokens, 59)
    table = memory.table("A").blocks
    assert len(table) == 4 and memory.prefix_cache.hash_of(table[-1]) is None
    tokens += range(19)
    memory.grow([("A", 19)])
    memory.commit("A", tokens, 78)
    assert len(table) == 5
    assert [memory.prefix_cache.hash_of(block) for block in table] == [*block_hashes(tokens, 16), None]


def test_b12_chunks():
    memory, tokens, taken = PagedMemory(10, 4), list(range(10)), []
    memory.admit("A", tokens)
    for num_tokens, num_computed, num_hit in ((3, 3, 0), (3, 6, 1), (4, 10, 2)):
        before = len(memory.table("A").blocks)
        memory.grow([("A", num_tokens)])
        memory.commit("A", tokens, num_computed)
        check(memory)
        taken.append(len(memory.table("A").blocks) - before)
        assert memory.lookup(tokens) == 4 * num_hit
    assert taken == [1, 1, 1]


def test_b18_caching_off():
    memory = PagedMemory(4, 4, prefix_caching=False)
    assert admit(memory, "A", list(range(10))) == 0
    assert len(memory.table("A").blocks) == 3
    memory.release("A")
    assert memory.lookup(list(range(16))) == 0
    assert admit(memory, "B", list(range(16))) == 0
    assert memory.admit("C", [1, 2, 3, 4]) is None
    assert memory.prefix_cache is None and memory.cached() == []
    memory.release("B")
    assert memory.reset_prefix_cache() is True


def test_b19_reset():
    memory = PagedMemory(6, 4)
    admit(memory, "A", list(range(9)))
    assert memory.reset_prefix_cache() is False
    assert memory.lookup(list(range(9))) == 8
    memory.release("A")
    order = memory.allocator.free_order()
    assert memory.reset_prefix_cache() is True
    check(memory)
    assert memory.allocator.free_order() == order
    assert all(memory.prefix_cache.hash_of(block) is None for block in range(6))
    assert memory.lookup(list(range(9))) == 0


def test_a_cleared_memory_has_no_hits():
    """After a step that broke off: it may have promised a hit on blocks that were never written."""
    memory = PagedMemory(4, 4)
    admit(memory, "A", list(range(9)))
    memory.clear()
    check(memory)
    assert memory.lookup(list(range(9))) == 0 and memory.cached() == []


def everything(memory):
    hashes = [memory.prefix_cache.hash_of(block) for block in range(memory.num_blocks)]
    counts = [memory.allocator.ref_count(block) for block in range(memory.num_blocks)]
    tables = {name: (list(memory.table(name).blocks), memory.table(name).num_tokens) for name in memory.sequences()}
    return hashes, counts, tables, memory.allocator.free_order(), vars(memory.prefix_stats).copy(), memory.usage()


def test_b24_a_lookup_changes_nothing_and_an_admission_looks_again():
    memory = PagedMemory(4, 4)
    admit(memory, "A", list(range(9)))
    memory.release("A")
    before = everything(memory)
    for _ in range(5):
        assert memory.lookup(list(range(9))) == 8
        assert memory.prefix_cache.longest_hit(list(range(9))) == [0, 1]
    assert everything(memory) == before
    admit(memory, "B", [50] * 12)  # takes the free ones and the tail of what was found
    assert memory.lookup(list(range(9))) == 4
    assert memory.admit("C", list(range(9))) is None
    memory.release("B")
    assert admit(memory, "C", list(range(9))) == 4


def test_a_hit_that_nobody_owns_leaves_the_queue_and_so_is_counted_with_what_is_needed():
    """Three blocks are free, two of them are the hit: one more is left. A prompt of 9 needs it, one of 13 needs two."""
    memory = PagedMemory(3, 4)
    admit(memory, "A", list(range(9)))
    memory.release("A")
    before = everything(memory)
    assert memory.admit("B", list(range(13))) is None
    assert memory.admit("B", list(range(9)), extra_blocks=1) is None
    assert everything(memory) == before
    assert admit(memory, "B", list(range(9))) == 8
    assert admit(memory, "C", list(range(4))) is None  # B owns them all


def test_a_hit_that_somebody_owns_costs_nothing():
    memory = PagedMemory(4, 4)
    admit(memory, "A", list(range(9)))
    assert memory.allocator.num_free == 1
    assert admit(memory, "B", list(range(9))) == 8
    assert memory.table("B").blocks[:2] == memory.table("A").blocks[:2]
    memory.release("A")
    check(memory)
    assert memory.usage().cached_slots == 0


def test_two_equal_prompts_in_one_step_are_both_computed_and_either_copy_serves():
    memory, tokens = PagedMemory(6, 4), list(range(9))
    for name in "AB":
        assert memory.admit(name, tokens) == 0
    memory.grow([("A", 9), ("B", 9)])
    for name in "AB":
        memory.commit(name, tokens, 9)
    check(memory)
    assert memory.prefix_cache.longest_hit(tokens) == memory.table("A").blocks[:2]
    mine = memory.table("B").blocks[:2]
    memory.release("A")
    admit(memory, "C", [80] * 9)  # takes A's three
    assert memory.prefix_cache.longest_hit(tokens) == mine
    memory.release("C")
    assert admit(memory, "D", tokens) == 8


def test_a_fork_goes_on_in_the_chain_of_its_parent():
    memory, tokens = PagedMemory(8, 4), list(range(6))
    admit(memory, "A", tokens)
    memory.fork("A", "B")
    mine = {"A": [*tokens, 10, 11, 12], "B": [*tokens, 20, 21, 22]}
    for length in (7, 8, 9):
        for name in "AB":
            append(memory, name, mine[name][:length])
    for name, hit in mine.items():
        assert memory.prefix_cache.longest_hit(hit) == memory.table(name).blocks[:2]
    assert memory.table("A").blocks[0] == memory.table("B").blocks[0]
    memory.release("A")
    memory.release("B")
    check(memory)
    assert len(memory.cached()) == 3


def test_a_copys_destination_is_forgotten():
    memory = PagedMemory(2, 4)
    admit(memory, "A", [0, 1, 2, 3])
    memory.release("A")
    admit(memory, "B", [9, 9])
    memory.fork("B", "C")
    assert append(memory, "C", [9, 9, 9]) == [(1, 0)]
    assert memory.lookup([0, 1, 2, 3, 4]) == 0 and memory.prefix_cache.hash_of(0) is None
    assert memory.prefix_stats.evictions == 1


def test_figure_9_of_the_paper_through_the_memory():
    """Every full block can be hit, so the losers' go behind the fresh ones: the next beams take 9 to 12."""
    memory = PagedMemory(16, 4)
    text = {}

    def go_on(name, token):
        text[name] = text[name] + [token] * 4
        memory.grow([(name, 4)])
        memory.commit(name, text[name], len(text[name]))

    def fork(parent, child):
        memory.fork(parent, child)
        text[child] = list(text[parent])

    text["0"] = [1, 2, 3, 4]
    admit(memory, "0", text["0"])
    fork("0", "3")
    for name, token in (("0", 5), ("3", 6), ("0", 7), ("3", 8)):
        go_on(name, token)
    fork("0", "1")
    fork("0", "2")
    for name, token in zip("0123", (9, 10, 11, 12)):
        go_on(name, token)
    assert [memory.table(name).blocks for name in "0123"] == [[0, 1, 3, 5], [0, 1, 3, 6], [0, 1, 3, 7], [0, 2, 4, 8]]

    fork("1", "1b")
    fork("2", "2b")
    memory.release("0")
    memory.release("3")
    check(memory)
    assert memory.cached() == [5, 8, 4, 2]
    for name, token in zip(("1", "1b", "2", "2b"), (13, 14, 15, 16)):
        go_on(name, token)
    check(memory)
    tables = [memory.table(name).blocks for name in ("1", "1b", "2", "2b")]
    assert tables == [[0, 1, 3, 6, 9], [0, 1, 3, 6, 10], [0, 1, 3, 7, 11], [0, 1, 3, 7, 12]]


def test_the_facts():
    memory = PagedMemory(3, 4)
    memory.log = log = []
    admit(memory, "A", list(range(9)))
    memory.release("A")
    log.clear()
    admit(memory, "B", list(range(9)))
    assert log[0] == PrefixHit("B", (0, 1), num_tokens=8, num_free_before=2, num_free=1)
    memory.release("B")
    log.clear()
    admit(memory, "C", [50] * 12)
    assert log == [Evicted("C", (1, 0)), BlocksTaken("C", 0, False, (2, 1, 0), 0)]
    assert memory.take_moved() == ([0, 1, 2], [2])  # 0 and 1 were never free of content


def test_what_can_be_hit_is_not_named_as_worthless():
    memory = PagedMemory(3, 4)
    admit(memory, "A", list(range(9)))
    memory.take_moved()
    memory.release("A")
    assert memory.take_moved() == ([], [2])


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda memory: memory.commit("A", list(range(7)), 9), r"7 token ids for 8 tokens in full blocks"),
        (lambda memory: memory.commit("A", list(range(9)), 8), r"'A': 8 tokens computed, but 9 have slots"),
        (lambda memory: memory.admit("A", [1]), r"'A' is in this memory already"),
        (lambda memory: memory.admit("B", []), r"'B' has no tokens"),
    ],
)
def test_a_refused_call_changes_nothing(wrong, message):
    memory = PagedMemory(6, 4)
    memory.admit("A", list(range(9)))
    memory.grow([("A", 9)])
    before = everything(memory)
    with pytest.raises(ValueError, match=message):
        wrong(memory)
    assert everything(memory) == before


def test_who_gave_too_few_token_ids_may_give_the_right_ones_next():
    memory = PagedMemory(6, 4)
    memory.admit("A", list(range(9)))
    memory.grow([("A", 9)])
    with pytest.raises(ValueError):
        memory.commit("A", list(range(7)), 9)
    memory.commit("A", list(range(9)), 9)
    assert memory.lookup(list(range(9))) == 8


@pytest.mark.parametrize("how", ["one", "several"])
def test_a_fork_of_a_block_just_filled_but_not_written_yet_is_known_once_either_is_written(how):
    memory = PagedMemory(6, 4)
    admit(memory, "A", [1, 2, 3])
    if how == "one":
        assert memory.grow_one("A", 1) == []
    else:
        assert memory.grow([("A", 2)]) == []
    memory.fork("A", "B")
    assert memory.lookup([1, 2, 3, 4, 5]) == 0
    memory.commit("B", [1, 2, 3, 4, 5], 4 if how == "one" else 5)
    assert memory.lookup([1, 2, 3, 4, 5]) == 4


@pytest.mark.parametrize("damage", ["stale", "missing", "two alike", "not counted"])
def test_check_sees_damage(damage):
    memory = PagedMemory(6, 4)
    admit(memory, "A", list(range(9)))
    cache, blocks = memory.prefix_cache, memory.table("A").blocks
    if damage == "stale":
        cache.remember(blocks[2], block_hashes([1], 1)[0])
    elif damage == "missing":
        cache.forget(blocks[0])
    elif damage == "two alike":
        cache.remember(blocks[1], cache.hash_of(blocks[0]))
    else:
        memory.usage = lambda: Usage(9, 12, 4, 24)
    with pytest.raises(BrokenInvariant):
        check(memory)


@pytest.mark.parametrize("seed", range(5))
def test_p6_a_block_that_can_be_hit_has_a_parent_that_can(seed):
    """A suffix is never orphaned, whatever is evicted: a sequence's tail is freed before its head."""
    rng = random.Random(seed)
    memory, texts = PagedMemory(12, 2), {}
    parents = {}  # hash -> the hash before it
    for i in range(300):
        if texts and rng.random() < 0.5:
            name = rng.choice(list(texts))
            memory.release(name)
            del texts[name]
        else:
            name, tokens = str(i), [rng.randrange(2) for _ in range(rng.randint(1, 12))]
            if admit(memory, name, tokens) is not None:
                texts[name] = tokens
                hashes = block_hashes(tokens, 2)
                parents |= dict(zip(hashes, [ROOT, *hashes]))
        known = {memory.prefix_cache.hash_of(block) for block in range(12)} - {None}
        assert all(parents[each] in known | {ROOT} for each in known)
    assert memory.prefix_stats.evictions > 20 and memory.prefix_stats.hits > 20
