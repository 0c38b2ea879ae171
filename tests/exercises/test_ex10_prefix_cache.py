"""The checks of exercise 10: what the text of the stub says, and nothing else.

The first need only block_hashes, those in the middle only remember, forget, hash_of and clear. How tokens become bytes
is the learner's: the hashes are compared with each other and with nothing else.
"""

from itertools import product
from random import Random

from ex10_world import A, B, C, World, asked, hashes_of, must_differ, shown

from minipaged.memory.prefix_cache import ROOT

BLOCK_SIZES = (4, 3, 1, 16)
LARGEST = 2**63 - 1


def text_of(num_tokens, seed=0):
    random = Random(seed)
    return [random.randrange(10, 90) for _ in range(num_tokens)]


def test_one_hash_for_every_full_block(impl):
    for block_size in BLOCK_SIZES:
        for num_tokens in (0, 1, block_size - 1, block_size, block_size + 1, 3 * block_size - 1, 5 * block_size):
            hashes_of(impl, text_of(num_tokens), block_size)
            hashes_of(impl, text_of(num_tokens), block_size, parent=A)


def test_the_same_text_has_the_same_hashes(impl):
    for block_size in BLOCK_SIZES:
        text = text_of(4 * block_size + 1)
        one, other = hashes_of(impl, text, block_size), hashes_of(impl, list(text), block_size)
        assert one == other, f"{asked(text, block_size)} gave {shown(one)}, and then {shown(other)}: the same is needed"


def test_tokens_that_fill_no_block_change_no_hash(impl):
    for block_size in (2, 4, 5):
        text = text_of(3 * block_size)
        before = hashes_of(impl, text, block_size)
        for more in range(1, block_size):
            after = hashes_of(impl, text + [7] * more, block_size)
            said = f"{asked(text + [7] * more, block_size)} gave {shown(after)}"
            assert after == before, f"{said}: it must give {shown(before)}, as without the end, which fills no block"


def test_each_of_its_own_tokens_counts(impl):
    for block_size in BLOCK_SIZES:
        text = text_of(block_size)
        for place in range(block_size):
            for number in (text[place] + 1, text[place] + 256, text[place] + 2**16, text[place] + 2**32):
                other = text[:place] + [number] + text[place + 1 :]
                must_differ(impl, text, other, block_size, "two texts have one hash only if all tokens are the same")


def test_large_token_ids(impl):
    why = "token ids go up to 2**63 - 1, and each of the 8 bytes counts"
    numbers = [0, LARGEST, 2**61 - 1, 2**61, 2**53, 2**53 + 1, 2**32, 2**16, 256, 255, 1]
    for one in numbers:
        for other in numbers:
            if one != other:
                must_differ(impl, [one, 3], [other, 3], 2, why)
                must_differ(impl, [3, one], [3, other], 2, why)


def test_it_is_not_the_digits_that_count(impl):
    why = "where one token ends and the next begins counts too"
    pairs = [([1, 23], [12, 3]), ([0, 0, 1], [0, 1, 0]), ([256, 0], [1, 256]), ([1, 256], [256, 1]), ([11, 1], [1, 11])]
    for one, other in pairs:
        must_differ(impl, one, other, len(one), why)


def test_the_order_of_the_tokens_counts(impl):
    must_differ(impl, [1, 2, 3, 4], [4, 3, 2, 1], 4, "the same tokens in another order are another text")
    must_differ(impl, [1, 2, 3, 4], [1, 3, 2, 4], 4, "the same tokens in another order are another text")
    must_differ(impl, [5, 5, 6, 6], [5, 6, 6, 6], 4, "how often a token comes counts")


def test_all_tokens_before_the_block_count(impl):
    for block_size in BLOCK_SIZES:
        text = text_of(4 * block_size, seed=1)
        for place in range(3 * block_size):
            other = text[:place] + [text[place] + 1] + text[place + 1 :]
            why = f"the token at position {place} is another, and K and V of all that follows too"
            must_differ(impl, text, other, block_size, why)


def test_the_order_of_the_blocks_counts(impl):
    one, two, three = text_of(4, 1), text_of(4, 2), text_of(4, 3)
    why = "the same blocks came before it, but in another order"
    must_differ(impl, one + two + three, two + one + three, 4, why)
    must_differ(impl, one + two, two + one, 4, why)
    must_differ(impl, one + one + three, two + two + three, 4, "other blocks came before it")


def test_a_block_is_not_known_by_its_own_tokens(impl):
    block, text = [5, 6, 7, 8], [5, 6, 7, 8] * 5
    hashes = hashes_of(impl, text, 4)
    said = f"{asked(text, 4)} gave {shown(hashes)}"
    why = f"all five blocks hold {block}, but each comes after another text"
    assert len(set(hashes)) == 5, f"{said}: {why}, so all must differ"


def test_the_parent_counts(impl):
    for text in (text_of(4), text_of(12)):
        found = {parent: hashes_of(impl, text, 4, parent) for parent in (ROOT, A, B, bytes([1]) + bytes(31))}
        for one, other in product(found, repeat=2):
            for number, pair in enumerate(zip(found[one], found[other]), start=1):
                both = f"{asked(text, 4, one)} and {asked(text, 4, other)}"
                what = f"gave the same hash for block number {number}, and their parents differ"
                assert one == other or pair[0] != pair[1], f"{both} {what}"


def test_a_text_goes_on_where_its_parent_ended(impl):
    for block_size in BLOCK_SIZES:
        text = text_of(5 * block_size + 1, seed=2)
        at_once = hashes_of(impl, text, block_size)
        for number in range(1, 6):
            begun, rest = text[: number * block_size], text[number * block_size :]
            first = hashes_of(impl, begun, block_size)
            pieces = first + hashes_of(impl, rest, block_size, parent=first[-1])
            calls = f"hashes = {asked(begun, block_size)}, then block_hashes({shown(rest)}, {block_size}, hashes[-1])"
            what = f"gave together {shown(pieces)}: the whole text in one call gave {shown(at_once)}"
            assert pieces == at_once, f"{calls} {what}"


def test_root_is_the_parent_of_a_first_block(impl):
    text = text_of(9)
    left_out, given = hashes_of(impl, text, 4), impl.block_hashes(list(text), 4, ROOT)
    said = f"{asked(text, 4)} gave {shown(left_out)}, and with ROOT as the parent {shown(given)}"
    assert left_out == given, f"{said}: ROOT is what parent is if it is left out"


def test_many_texts_many_hashes(impl):
    texts, seen = [list(text) for text in product(range(4), repeat=6)], {}
    for text in texts:
        last = hashes_of(impl, text, 3)[-1]
        assert last not in seen, f"{asked(seen.get(last, ()), 3)} and {asked(text, 3)} end in the same hash"
        seen[last] = text


# Blocks and their hashes.


def test_an_empty_cache_knows_no_block(impl):
    World(impl).look()


def test_it_remembers(impl):
    World(impl).remember(0, A).remember(5, B).remember(3, C)


def test_it_forgets(impl):
    world = World(impl).remember(0, A).remember(5, B).remember(3, C)
    world.forget(5).forget(0).remember(5, A).forget(3).forget(5)


def test_a_block_that_is_not_known_may_be_forgotten(impl):
    world = World(impl).forget(0).forget(7).remember(2, A).forget(7)
    world.forget(2).forget(2)


def test_a_block_gets_another_hash(impl):
    world = World(impl).remember(1, A).remember(1, B).remember(2, B).remember(2, A).remember(1, A)
    world.forget(1).forget(2)


def test_copies_have_the_same_hash(impl):
    world = World(impl)
    for block in (4, 0, 6):
        world.remember(block, A)
    world.forget(0).forget(4).remember(0, A).forget(6)


def test_the_same_again_changes_nothing(impl):
    world = World(impl).remember(1, A).remember(1, A).remember(1, A)
    world.forget(1).forget(1)


def test_clear_forgets_all(impl):
    world = World(impl).clear().remember(1, A).remember(2, A).remember(3, B).clear()
    world.remember(2, B).clear().clear()


def test_two_caches_know_nothing_of_each_other(impl):
    text = text_of(9)
    one, two = World(impl, texts=[text]), World(impl, texts=[text])
    one.store(text, [3, 1])
    two.look()
    two.remember(3, text[:4])
    one.clear()
    two.look()


# Hits.


def test_nothing_is_hit_in_an_empty_cache(impl):
    for block_size in BLOCK_SIZES:
        for num_tokens in (0, 1, block_size, 3 * block_size + 1):
            World(impl, block_size).longest_hit(text_of(num_tokens))


def test_a_prompt_hits_its_beginning(impl):
    for block_size in BLOCK_SIZES:
        text, blocks = text_of(4 * block_size, seed=3), [5, 0, 7, 2]
        world = World(impl, block_size).store(text, blocks)
        for num_tokens in range(4 * block_size + 1):
            world.longest_hit(text[:num_tokens] + [99] * 2)


def test_never_the_whole_prompt(impl):
    for block_size in BLOCK_SIZES:
        text, blocks = text_of(4 * block_size, seed=4), [5, 0, 7, 2]
        world = World(impl, block_size).store(text, blocks)
        for num_tokens in range(4 * block_size + 1):
            world.longest_hit(text[:num_tokens])


def test_a_part_of_a_block_is_never_hit(impl):
    text = text_of(12, seed=5)
    world = World(impl, 4).store(text, [2, 4, 6])
    for num_tokens in range(13):
        other = text[:num_tokens] + [text[num_tokens] + 1 if num_tokens < 12 else 0] + text[num_tokens + 1 :]
        world.longest_hit(other + [1, 2, 3, 4])


def test_the_same_tokens_elsewhere_are_no_hit(impl):
    world = World(impl, 4).store([1, 2, 3, 4, 5, 6, 7, 8], [3, 5])
    world.longest_hit([5, 6, 7, 8, 1, 2, 3, 4, 0])
    world.longest_hit([9, 1, 2, 3, 4, 5, 6, 7, 8])
    world.longest_hit([1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0])
    world.longest_hit([0, 0, 0, 0, 5, 6, 7, 8, 0])


def test_a_hit_ends_at_the_first_gap(impl):
    text = text_of(17, seed=6)
    for gap in range(4):
        world = World(impl, 4).store(text, [3, 1, 0, 6])
        world.forget([3, 1, 0, 6][gap])
        world.longest_hit(text)


def test_only_what_comes_after_the_gap_is_known(impl):
    text = text_of(17, seed=6)
    world = World(impl, 4)
    for number, block in ((4, 6), (3, 0), (2, 1), (1, 3)):
        world.remember(block, text[: 4 * number])
        world.longest_hit(text)


def test_the_oldest_copy_is_hit(impl):
    text = text_of(9, seed=7)
    world = World(impl, texts=[text]).remember(5, text[:4]).remember(2, text[:4]).remember(6, text[:4])
    world.remember(1, text[:8]).remember(7, text[:8]).remember(0, text[:8])


def test_the_next_oldest_copy_comes_after_it(impl):
    text = text_of(9, seed=8)
    for gone in ([5, 2, 6], [2, 5, 6], [6, 5, 2], [6, 2, 5]):
        world = World(impl, texts=[text])
        for block in (5, 2, 6):
            world.remember(block, text[:4])
        for block in gone:
            world.forget(block)


def test_a_copy_that_comes_back_is_the_newest(impl):
    text = text_of(5, seed=9)
    world = World(impl, texts=[text])
    for block in (5, 2, 6):
        world.remember(block, text[:4])
    world.forget(5).remember(5, text[:4]).forget(2).remember(2, A).remember(2, text[:4]).forget(6).forget(5)


def test_a_copy_that_is_remembered_again_keeps_its_age(impl):
    text = text_of(5, seed=9)
    world = World(impl, texts=[text]).remember(5, text[:4]).remember(2, text[:4])
    world.remember(5, text[:4]).remember(2, text[:4]).forget(5).forget(2)


def test_what_a_block_held_before_is_not_hit(impl):
    one, other = text_of(9, seed=10), text_of(9, seed=11)
    world = World(impl, texts=[one, other]).store(one, [4, 2])
    world.remember(4, other[:4]).remember(2, other[:8]).remember(2, one[:4]).forget(2).forget(4)


def test_nothing_is_hit_after_clear(impl):
    text = text_of(13, seed=12)
    world = World(impl, texts=[text]).store(text, [4, 2, 0]).clear()
    world.store(text, [1, 4]).clear()


def test_a_hit_changes_nothing(impl):
    text, other = text_of(13, seed=13), text_of(9, seed=14)
    world = World(impl, texts=[text, other]).store(text, [4, 2, 0]).store(text, [1, 3, 5]).store(other, [6, 7])
    for _ in range(5):
        world.longest_hit(text)[:] = [99]
    world.look()
    world.forget(4).forget(2)


def test_a_random_run(impl):
    for seed in range(6):
        random, size = Random(seed), (1, 2, 3, 4)[seed % 4]
        texts = [[random.choice((3, 259)) for _ in range(random.randint(0, 4 * size + 1))] for _ in range(6)]
        world = World(impl, size, texts, range(9))
        for _ in range(60):
            act, text = random.random(), random.choice(texts)
            if act < 0.7 and len(text) >= size:
                world.remember(random.randrange(9), text[: size * random.randint(1, len(text) // size)])
            elif act < 0.98:
                world.forget(random.randrange(9))
            else:
                world.clear()
