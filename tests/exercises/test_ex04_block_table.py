"""The checks of exercise 04."""

import random

from ex04_asked import BLOCK_SIZES, Asked


def test_blocks_are_appended_in_logical_order(impl):
    asked = Asked(impl, 4)
    for ids in ([7], [1, 3], [], [0, 5]):
        before = f"BlockTable(4) with blocks {asked.ids}"
        asked.append(ids)
        asked.has_blocks(asked.ids, f"{before}: append_blocks({ids})")
    try:
        asked.table.append_blocks((4, 2))
    except TypeError as error:
        raise AssertionError(f"append_blocks((4, 2)) raised TypeError ({error}): a tuple is allowed too") from error
    asked.has_blocks([7, 1, 3, 0, 5, 4, 2], f"{asked.told}: append_blocks((4, 2)), a tuple,")


def test_the_table_and_the_caller_have_a_list_each(impl):
    asked, first, second = Asked(impl, 4), [7, 1], [3]
    asked.table.append_blocks(first)
    asked.table.append_blocks(second)
    assert (first, second) == ([7, 1], [3]), (
        f"append_blocks was given the lists [7, 1] and [3], and afterwards they are {first} and {second}: they belong "
        "to the caller, so copy the ids and leave the lists as they are"
    )
    first[0] = second[0] = 9
    first.append(5)
    asked.has_blocks([7, 1, 3], "append_blocks with the lists [7, 1] and [3], and then changes to these lists,")


def test_append_blocks_counts_no_tokens(impl):
    asked = Asked(impl, 4)
    for num_tokens, ids in ((0, [7, 1]), (6, [3])):
        asked.table.num_tokens = num_tokens
        asked.append(ids)
        got, why = asked.table.num_tokens, "blocks have come, but no tokens"
        assert got == num_tokens, f"append_blocks({ids}) changed num_tokens from {num_tokens} to {got}: {why}"


def test_an_empty_table_needs_all_blocks(impl):
    for block_size in BLOCK_SIZES:
        asked = Asked(impl, block_size)
        for n in range(3 * block_size + 2):
            asked.needs(n, len(range(0, n, block_size)))


def test_blocks_that_are_there_are_not_needed(impl):
    for block_size in BLOCK_SIZES:
        asked = Asked(impl, block_size, [7, 1, 3])
        for n in range(5 * block_size + 2):
            asked.needs(n, len(range(3 * block_size, n, block_size)))


def test_n_counts_from_the_first_token(impl):
    asked = Asked(impl, 4, [7, 1])
    for asked.table.num_tokens in (0, 5, 7, 8):
        asked.told = f"BlockTable(4) with blocks [7, 1], num_tokens {asked.table.num_tokens}"
        for n, expected in ((7, 0), (8, 0), (9, 1), (12, 1), (13, 2)):
            asked.needs(n, expected)


def test_every_covered_position_has_its_slot(impl):
    Asked(impl, 4, [7, 1, 3]).translates(5, (1, 1, 1, 5))
    Asked(impl, 4, [6, 0, 8, 2, 5, 9]).translates(21, (5, 1, 9, 37))
    for block_size in BLOCK_SIZES:
        asked = Asked(impl, block_size, [5, 0, 9, 2])
        for position, expected in enumerate(asked.walk()):
            asked.translates(position, expected)


def test_a_covered_position_needs_no_token(impl):
    asked = Asked(impl, 4, [7, 1])
    asked.table.num_tokens, asked.told = 5, f"{asked.told}, num_tokens 5"
    for position, expected in enumerate(asked.walk()):
        asked.translates(position, expected)
    asked.has_slots(3, 8, [31, 4, 5, 6, 7])


def test_a_position_that_is_not_covered_has_no_slot(impl):
    for block_size in BLOCK_SIZES:
        for ids in ([6, 0, 3], [4], []):
            asked, end = Asked(impl, block_size, ids), len(ids) * block_size
            for position in (-1, -block_size, -end - 1, end, end + 1, end + block_size, 1000):
                asked.refuses("translate", position)
                asked.refuses("slot", position)


def test_slots_of_a_range(impl):
    Asked(impl, 4, [7, 2]).has_slots(0, 6, [28, 29, 30, 31, 8, 9])
    Asked(impl, 4).has_slots(0, 0, []).append(9)  # that list is the caller's
    Asked(impl, 4).has_slots(0, 0, [])
    for block_size in BLOCK_SIZES:
        asked, end = Asked(impl, block_size, [2, 6, 0]), 3 * block_size
        where = [slot for *_, slot in asked.walk()]
        edges = sorted({0, 1, block_size - 1, block_size, 2 * block_size, end - 1, end})
        for start in edges:
            for stop in edges[edges.index(start) :]:
                asked.has_slots(start, stop, where[start:stop])


def test_slots_of_a_range_that_is_not_covered(impl):
    for block_size in BLOCK_SIZES:
        asked, end = Asked(impl, block_size, [6, 0, 3]), 3 * block_size
        too_far = (0, end + 1), (end - 1, end + 1), (end, end + 1), (end + 5, end + 7), (0, 100 * end)
        for start, stop in (*too_far, (-1, 1), (-1, 0), (-end, end), (-2, -1), (-1, end + 1)):
            asked.refuses("slots", start, stop)
    Asked(impl, 4).refuses("slots", 0, 1)


def test_slots_from_behind(impl):
    for start, stop in ((1, 0), (3, 2), (5, 1), (8, 0), (8, 7)):
        Asked(impl, 4, [7, 2]).refuses("slots", start, stop, why="the start lies behind the stop")


def test_asking_changes_nothing(impl):
    asked = Asked(impl, 4, [7, 1])
    asked.table.num_tokens = 5
    for _ in range(2):
        asked.has_slots(0, 8, [28, 29, 30, 31, 4, 5, 6, 7]).clear()  # that list is the caller's
        asked.needs(20, 3)
        asked.translates(6, (1, 2, 1, 6))
        asked.refuses("translate", 8)
    asked.has_blocks([7, 1], "questions only")
    after = asked.table.num_tokens, asked.table.block_size
    assert after == (5, 4), f"only asked, a table's (num_tokens, block_size) went from (5, 4) to {after}"


def test_a_table_grows_after_it_was_asked(impl):
    asked = Asked(impl, 3, [7])
    asked.needs(7, 2)
    asked.translates(2, (0, 2, 7, 23))
    asked.refuses("translate", 3)
    asked.append([1, 5])
    for position, expected in enumerate(asked.walk()):
        asked.translates(position, expected)
    asked.has_slots(2, 8, [23, 3, 4, 5, 15, 16])
    asked.needs(7, 0)


def test_an_entry_can_be_replaced(impl):
    asked = Asked(impl, 4, [7, 1])
    asked.has_slots(0, 8, [28, 29, 30, 31, 4, 5, 6, 7])
    asked.translates(6, (1, 2, 1, 6))
    asked.table.blocks[1] = 3
    asked.told += ", blocks[1] then set to 3"
    asked.translates(6, (1, 2, 3, 14))
    asked.has_slots(2, 6, [30, 31, 12, 13])
    asked.has_slots(0, 8, [28, 29, 30, 31, 12, 13, 14, 15])
    asked.table.blocks[0] = 5
    asked.told += ", blocks[0] to 5"
    asked.has_slots(0, 8, [20, 21, 22, 23, 12, 13, 14, 15])


def test_two_tables_may_name_one_block(impl):
    one, two = Asked(impl, 4, [7, 1]), Asked(impl, 4)
    two.table.append_blocks(one.table.blocks)
    two.append([5])
    one.has_blocks([7, 1], "the same ids and [5] were appended to another table")
    two.has_blocks([7, 1, 5], "append_blocks with the list of another table, then append_blocks([5])")
    two.told = "BlockTable(4) with blocks [7, 1, 5], beside one with [7, 1]"
    two.has_slots(0, 9, [28, 29, 30, 31, 4, 5, 6, 7, 20])
    one.has_slots(0, 8, [28, 29, 30, 31, 4, 5, 6, 7])


def test_random_tables(impl):
    draw = random.Random(4)
    for block_size in (1, 2, 3, 4, 5, 7, 16, 100):
        asked = Asked(impl, block_size)
        for _ in range(4):
            asked.append(draw.sample([block for block in range(3000) if block not in asked.ids], draw.randint(0, 30)))
            where = asked.walk()
            for position, expected in draw.sample(list(enumerate(where)), min(12, len(where))):
                asked.translates(position, expected)
                asked.answers("slot", position, due=str(expected[3]), is_right=[expected[3]].__contains__)
            start, stop, n = sorted(draw.choices(range(len(where) + 1), k=2)) + [draw.randint(0, 2 * len(where) + 5)]
            asked.has_slots(start, stop, [slot for *_, slot in where[start:stop]])
            asked.needs(n, len(range(len(where), n, block_size)))


def test_a_long_table(impl):
    asked = Asked(impl, 2, random.Random(5).sample(range(10_000), 2000))
    where = [slot for *_, slot in asked.walk()]
    asked.told = "BlockTable(2) with 2000 blocks"
    got, call = asked.table.slots(0, 4000), f"{asked.told}: slots(0, 4000)"
    assert got == where, f"{call} is not the slots of the 4000 covered positions, one after the other"
