"""The checks of exercise 05. They look only at the answer: how the blocks are read is free."""

import math
from itertools import permutations
from random import Random

from ex05_cases import NAN, SIZES, Case, attend, check


def test_three_keys_by_hand(impl):
    import torch

    for block_size in (4, 1, 2):
        case = Case(3, heads=(1, 1), head_dim=1, block_size=block_size, scale=1.0)
        case.keys[:, 0, 0] = torch.tensor([0, math.log(2), math.log(3)], dtype=torch.float64)
        case.values[:, 0, 0] = torch.tensor([6, 3, 2])
        sums = "(1 * 6 + 2 * 3 + 3 * 2) / (1 + 2 + 3) = 3; logical block i lies in physical block block_table[i]"
        why = f"With scores 0, ln 2, ln 3 the weights are 1, 2, 3; the values are 6, 3, 2: {sums}"
        check(impl, case.store(), why)


def test_any_head_dim_and_scale(impl):
    for head_dim in (1, 5, 16, 24, 64):
        for scale in (0.001, 0.01, 0.25, 1.0, 3.0, 10.0):
            why = f"head_dim may be any number, and a score is {scale:g} * (q . k), with no other factor"
            check(impl, Case(4, (1, 1), head_dim, scale=scale), why)


def test_query_heads_that_share_a_kv_head(impl):
    for heads in ((4, 4), (8, 2), (6, 2), (5, 1), (16, 2)):
        for seq_len in (4, 8):
            check(impl, Case(seq_len, heads), f"Query head h reads KV head h // {heads[0] // heads[1]}")


def test_blocks_may_lie_anywhere(impl):
    for blocks in permutations((0, 2, 5)):
        why = "Logical block i is the physical block in the table's entry i, in whatever order the ids are"
        check(impl, Case(9, blocks=blocks), why)


def test_no_keys_give_zeros(impl):
    for bits in (64, 32):
        check(impl, Case(0, unread=NAN, bits=bits), "With no keys the answer is zeros")
    check(impl, Case(0).store(padding=()), "With no keys the answer is zeros, and the table may be empty")


def test_every_length(impl):
    for block_size, seq_len in SIZES:
        why = f"It must see the keys at positions 0 to {seq_len - 1}: these and no others"
        check(impl, Case(seq_len, block_size=block_size), why)
        check(impl, Case(seq_len, block_size=block_size).store(padding=()), why)


def test_slots_past_the_end_are_not_read(impl):
    for block_size, seq_len in SIZES:
        case = Case(seq_len, block_size=block_size, unread=NAN)
        k, v = case.k_cache, case.v_cache
        for name, case.k_cache, case.v_cache in (("k_cache", k, v.nan_to_num(1)), ("v_cache", k.nan_to_num(1), v)):
            where = "past seq_len in the last block, and in every block that the table doesn't name"
            check(impl, case, f"{name} is NaN {where}: none of it may reach the answer, and 0 * NaN is NaN")
        infinite = Case(seq_len, block_size=block_size, unread=math.inf)
        check(impl, infinite, f"k_cache and v_cache are infinite {where}: 0 * inf is NaN")


def test_table_entries_past_the_end_are_not_looked_up(impl):
    for padding in ((-1,) * 5, (10**9,) * 5, (0, 1, 2)):
        for seq_len in (1, 4, 5, 12):
            needed = -(-seq_len // 4)
            case = Case(seq_len, blocks=[6, 3, 4][:needed], unread=NAN).store(padding)
            why = f"This sequence's blocks are the table's first {needed}: what comes after them may be anything"
            try:
                check(impl, case, why)
            except IndexError as error:
                raise AssertionError(f"{case} raised IndexError: {error}. {why}") from error


def test_keys_after_the_query_are_not_seen(impl):
    for block_size in (3, 4):
        for seq_len in range(1, 11):
            case = Case(11, block_size=block_size)
            case.seq_len = seq_len
            why = f"11 keys are stored, as within a prompt: this query sees only the first {seq_len}"
            check(impl, case.solve(), why)


def test_equal_scores_give_the_mean_of_the_values(impl):
    for block_size in (1, 3, 4, 16):
        case = Case(2 * block_size + 1, block_size=block_size)
        case.q.zero_()
        why = "A query of zeros weighs all keys alike: the answer is the mean over keys, not over blocks"
        check(impl, case.solve(), why)


def test_later_blocks_have_larger_scores(impl):
    why = "A later block has larger scores: the sum and the weighted values so far were relative to a smaller maximum"
    for offsets in ((0, 1, 2), (0, 4, 0), (-3, 0, 5), (0, 50, 100), (-9, -9, 9)):
        check(impl, Case(11, offsets=offsets), why)


def test_earlier_blocks_have_larger_scores(impl):
    why = "An earlier block has larger scores: what comes later is relative to the largest so far, and counts less"
    for offsets in ((2, 1, 0), (0, 4, -2), (5, 0, -3), (100, 50, 0), (9, -9, -9)):
        check(impl, Case(11, offsets=offsets), why)


def test_large_scores_do_not_overflow(impl):
    for bits, large in ((64, 100_000), (32, 300)):
        for offsets in ((large,) * 3, (large, 0, 0), (0, large, 2), (0, 0, large), (-large, 0, large)):
            why = f"Scores reach {large}, and exp({large}) is inf in float{bits}: take the largest score off first"
            check(impl, Case(11, offsets=offsets, bits=bits), why)


def test_scores_far_below_zero(impl):
    for bits, large in ((64, 100_000), (32, 300)):
        for offsets in ((-large,) * 3, (-large, -large - 2, -large + 2)):
            why = f"All scores are about -{large}, the largest too: take off the largest of them, not 0"
            case = Case(11, offsets=offsets, bits=bits)
            check(impl, case, why)
            case.q[1::2, 0] = -1
            why = f"For query heads 1 and 3 the scores are about {large}, for 0 and 2 -{large}: each has its own"
            check(impl, case.solve(), why)


def test_many_of_everything(impl):
    case = Case(700, heads=(20, 5), head_dim=72, block_size=17, blocks=Random(5).sample(range(300), 42))
    check(impl, case, "Many keys, heads, channels and blocks are no other case than a few")


def test_float32_is_as_exact_as_it_can_be(impl):
    for block_size, seq_len in ((16, 300), (4, 150), (3, 100)):
        case = Case(seq_len, (6, 2), head_dim=24, block_size=block_size, bits=32)
        check(impl, case, "The query sees hundreds of keys, in float32")


def test_parts_of_larger_tensors(impl):
    import torch

    case = Case(10, unread=NAN)
    side_by_side = torch.cat([case.k_cache, case.v_cache], dim=-1)
    case.k_cache, case.v_cache = side_by_side.split(case.k_cache.shape[-1], dim=-1)
    case.q = torch.stack([case.q, case.q], dim=1)[:, 1]
    check(impl, case, "Here q, k_cache and v_cache are parts of larger tensors, and not contiguous")


def test_one_call_does_not_depend_on_another(impl):
    case, other = Case(10), Case(70, (8, 2), head_dim=24, block_size=16)
    for call, arguments in (("first", case), ("second", other), ("third", case)):
        check(impl, arguments, f"This is the {call} of three calls: the third has the arguments of the first")


def test_nothing_is_remembered(impl):
    case = Case(10)
    first, table = attend(impl, case), case.block_table
    kept = first.clone()
    case.keys, case.values = case.values, case.keys
    why = "It is the call before with the same tensors, in which other numbers were written"
    check(impl, case.store(), why)
    assert (first == kept).all(), f"{case} changed the answer of the call before: each needs memory of its own"
    case.keys, case.values = case.values, case.keys
    case.blocks.reverse()
    table.copy_(case.store().block_table)
    case.block_table = table
    check(impl, case, why)
