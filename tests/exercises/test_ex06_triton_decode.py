"""The checks of exercise 06. They look only at the answers: how a kernel walks over the keys is free.

First those of merge_states, which need no kernel; then those of decode; the last needs both.
"""

import math
from itertools import permutations

import pytest
from ex06_cases import NAN, Case, attend, check
from ex06_memory import WRAP, memory
from ex06_states import Parts, check_merge, merge_by_hand

TILE_EDGES = [1, 15, 16, 17, 31, 33, 64]


def test_two_parts_by_hand(impl):
    why = "The weights are exp(lse), 1 and 2: out is (1 * 1 + 2 * 4) / (1 + 2) = 3, and lse is ln(1 + 2)"
    merge_by_hand(impl, (1, 0), (4, math.log(2)), (3, math.log(3)), why)
    why = "Equal lse are equal weights: out is the mean, and lse grows by ln 2"
    merge_by_hand(impl, (2, 5), (8, 5), (5, 5 + math.log(2)), why)


def test_merged_parts_are_attention_over_all_keys(impl):
    for counts in ((1, 1), (5, 2), (1, 9), (40, 30)):
        for shape in ((), (3,), (2, 4)):
            why = f"The parts are attention over {counts[0]} and over {counts[1]} of the same query's keys"
            check_merge(impl, Parts(counts, shape), why)


def test_merging_in_any_order(impl):
    parts = Parts((3, 1, 6, 2), (2, 3))
    for order in permutations(range(4)):
        check_merge(impl, parts.in_order(order), "Four parts, merged one after another, in any order")


def test_an_empty_part_counts_nothing(impl):
    for number in (0.0, NAN, math.inf):
        for counts in ((0, 4), (4, 0), (0, 3, 0, 2)):
            why = f"A part without keys has lse -inf, and its out, here {number}, must not be looked at"
            check_merge(impl, Parts(counts, (2, 3), empty=number), why)


def test_empty_for_some_queries_only(impl):
    for number in (0.0, NAN):
        parts = Parts((4, 3), (2, 3)).forget(0, 1, number).forget(1, 2, number)
        check_merge(
            impl, parts, f"For some queries a part is empty, its lse -inf and its out {number}: each has its own"
        )


def test_two_empty_parts_are_empty(impl):
    for number in (0.0, NAN):
        why = "Both are empty: -inf minus -inf is NaN, but out must be zeros and lse -inf"
        check_merge(impl, Parts((0, 0), (2, 3), empty=number), why)


def test_large_log_sum_exps(impl):
    for large in (300, 5000, -300, -5000):
        why = f"Both lse are near {large}: exp of that is inf or 0, so take the larger of both off first"
        check_merge(impl, Parts((4, 3), (2, 3), shifts=(large, large)), why)


def test_one_part_far_above_the_other(impl):
    for shifts in ((500, 0), (0, 500), (-5000, 5000), (0, -5000), (3, -4)):
        why = "exp of the difference of both lse is the smaller part's weight beside the larger's; it may be 0"
        check_merge(impl, Parts((4, 3), (2, 3), shifts=shifts), why)


def test_three_keys_by_hand(impl):
    for block_size in (4, 1):
        case = Case([3], heads=(1, 1), block_size=block_size, scale=1.0)
        case.q[:], case.keys[0][:], case.values[0][:] = 1, 0, 0
        for position, (score, value) in enumerate(((0, 6), (math.log(2), 3), (math.log(3), 2))):
            case.keys[0][position, 0, 0], case.values[0][position, 0, :] = score, value
        why = "Only 3 keys count. Their scores are 0, ln 2, ln 3, so the weights are 1, 2, 3 of 6: (6 + 6 + 6) / 6 = 3"
        check(impl, case.store(), why)


def test_scales(impl):
    for scale in (0.01, 3.0):
        check(impl, Case([4], (1, 1), scale=scale), f"A score is {scale:g} * (q . k), with no other factor")


def test_query_heads_that_share_a_kv_head(impl):
    for heads in ((4, 4), (8, 2), (5, 1), (6, 2), (1, 1)):
        group = heads[0] // heads[1]
        why = f"Query head h reads KV head h // {group}: this program's KV head is kv_head, not one of `heads`"
        check(impl, Case([6], heads), why)


def test_blocks_may_lie_anywhere(impl):
    for blocks in ((0, 2, 5), (5, 2, 0), (2, 0, 5)):
        why = "Logical block i is the physical block in the table's entry i, in whatever order the ids are"
        check(impl, Case([9], (2, 1), blocks=[blocks]), why)


def test_each_sequence_has_its_own_table_and_length(impl):
    why = "Program (sequence, kv_head) reads this sequence's row of block_tables, which may be part of a wider tensor"
    check(impl, Case([5, 9, 1]), why)


def test_later_tiles_have_larger_scores(impl):
    why = "Later keys have larger scores: what was summed so far, and the values, were relative to a smaller maximum"
    for offsets in ((0, 1, 2), (0, 50, 70), (-9, -9, 9)):
        check(impl, Case([40], (2, 1), offsets=offsets), why)
    check(impl, Case([200], (2, 1), block_size=16, offsets=(-3, 0, 5), every=70), why)


def test_earlier_tiles_have_larger_scores(impl):
    why = "Earlier keys have larger scores: what comes later is relative to the largest so far, and counts less"
    for offsets in ((2, 1, 0), (0, 4, -2), (70, 50, 0)):
        check(impl, Case([40], (2, 1), offsets=offsets), why)


def test_large_scores_do_not_overflow(impl):
    for offsets in ((300,) * 3, (300, 0, 0), (-300, 0, 300)):
        why = "Scores reach 300, and exp(300) is inf in float32: take the largest score off first"
        check(impl, Case([40], (2, 1), offsets=offsets), why)


def test_scores_far_below_zero(impl):
    case = Case([5, 20], (2, 1), offsets=(-300, -302))
    check(impl, case, "All scores are about -300, the largest too: what is masked must weigh nothing beside them")
    case.q[:, 1, 0] = -1
    check(impl, case.store(), "Scores are about -300 for one query head and 300 for the other: each has its own")


@pytest.mark.parametrize("block_size", [4, 1, 3, 16])
def test_lengths_around_the_edges_of_tiles(impl, block_size):
    why = "It must see the keys at positions 0 to seq_len - 1, these and no others: the last tile is not always full"
    lengths = TILE_EDGES if block_size > 1 else TILE_EDGES[:4] + [33]  # who reads one block at a time needs seconds
    check(impl, Case(lengths, (2, 1), block_size=block_size), why)


def test_no_keys_give_zeros(impl):
    check(impl, Case([0, 5, 0]), "With no keys out is zeros: 0 / 0 is NaN")


@pytest.mark.parametrize("number", [NAN, math.inf])
@pytest.mark.parametrize("poison", ["k", "v"])
def test_slots_past_the_end_are_not_read(impl, poison, number):
    for block_size, lengths in ((4, [6, 17]), (16, [1, 33])):
        case = Case(lengths, (2, 1), block_size=block_size, unread=number, poison=poison)
        which = (
            f"{poison}_cache is {number} past seq_len in the last block, and in all blocks that the table doesn't name"
        )
        check(impl, case, f"{which}. It must be masked when it is loaded: 0 * {number} is NaN")


def test_table_entries_past_the_end_are_not_looked_up(impl):
    for padding in (["far"], [-1], ["far", -1, 0]):
        case = Case([5, 18], (2, 1), unread=NAN, padding=padding)
        why = "entries past ceil(seq_len / block_size) must be masked when the table is loaded, and never looked up"
        check(impl, case, f"Past its end a table holds {case.padding}, which is no block: {why}")


def test_head_dims(impl):
    for head_dim in (16, 24, 64, 80):
        why = f"head_dim is {head_dim}: past it, up to PADDED_DIM, are other numbers, and NaN, that it must not read"
        check(impl, Case([5], (2, 1), head_dim=head_dim, unread=NAN), why)


def test_block_ids_as_large_as_in_a_large_pool(impl):
    if memory().reach < WRAP:
        pytest.skip("there is no room for 16 GB of addresses")
    block = 2**25
    case = Case([4, 7], (2, 1), blocks=[[block + 1], [block, block + 2]], is_tight=True)
    why = "A block has 64 numbers: an int32 id times that wraps around, so it must be widened to int64 before"
    check(impl, case, f"Its keys lie in blocks {block} to {block + 2}. {why}")


def test_one_call_does_not_depend_on_another(impl):
    case, other = Case([10, 3]), Case([5], (8, 2), head_dim=24, block_size=16)
    first, _ = attend(impl, case)
    kept = first.clone()
    check(impl, other, "This is the second of three calls, with other arguments than the first")
    case.fill(9, "kv")
    check(impl, case.store(), "This is the third of three calls, with the arguments of the first")
    assert (first == kept).all(), f"{case} changed the answer of a call before: each needs memory of its own"


def test_decode_of_two_parts_merged(impl):
    for cut in (1, 4):
        case = Case([17, 20], (2, 1), unread=NAN)
        outs = []
        for part in (slice(0, cut), slice(cut, 5)):
            start, stop = 4 * part.start, 4 * part.stop
            some = Case([min(stop, n) - start for n in case.seq_lens], (2, 1), blocks=[x[part] for x in case.blocks])
            some.q = case.q
            some.keys, some.values = ([x[start:stop] for x in each] for each in (case.keys, case.values))
            outs += attend(impl, some.store())
        check(SimpleDecode(impl.merge_states(*outs)), case, f"Its keys were read in two parts, cut after {4 * cut}")


class SimpleDecode:
    """An impl whose decode has this answer."""

    def __init__(self, answer):
        self.decode = lambda *_, **__: answer
