"""The checks of exercise 07: what the text of the stub says, and nothing else.

The first need only fork, those in the middle only make_writable (the tables they share are made without fork).
"""

from random import Random

from ex07_texts import Texts
from ex07_world import Pool, World

from minipaged.memory.allocator import BlockAllocator, OutOfBlocks

BLOCK_SIZES = (4, 3, 1, 16)
PAPER = ["Four", "score", "and", "seven", "years", "ago", "our"]


def lengths(block_size):
    """Numbers of tokens: one, a block that isn't full, full blocks, some more than that."""
    return sorted({1, block_size - 1 or 1, block_size, block_size + 1, 2 * block_size, 3 * block_size - 1})


def test_a_fork_names_all_blocks_and_each_has_one_owner_more(impl):
    for block_size in BLOCK_SIZES:
        for num_tokens in lengths(block_size):
            World(impl, block_size).open("A", num_tokens).open("B", 5).fork("A", "C")


def test_a_fork_of_an_empty_table(impl):
    World(impl).open("A", 0).fork("A", "B")


def test_blocks_with_room_are_shared_too(impl):
    for num_tokens in (0, 3, 5, 8):  # three blocks each: those for the next tokens are in the table already
        World(impl).open("A", num_tokens, num_blocks=3).fork("A", "B")


def test_a_fork_needs_no_free_block(impl):
    world = World(impl, num_blocks=3).open("A", 7)
    world.fill()
    world.fork("A", "B")


def test_parent_and_child_go_different_ways(impl):
    for first, second in ("AB", "BA"):
        world, counts = World(impl).open("A", 7).fork("A", "B"), {"A": 7, "B": 7}
        for name, num_tokens in ((first, 2), (second, 6), (first, 3)):
            demand = world.calling("B came from fork(A, allocator), and")
            world.append(name, num_tokens)
            counts[name] += num_tokens
            world.tables[name].blocks[0] = world.named[name][0] = 99
            for other, table in world.tables.items():
                got, due = (table.blocks, table.num_tokens), (world.named[other], counts[other])
                act = f"then {name} got 99 as its first block and {num_tokens} more tokens"
                demand(got == due, f"{act}: {other}'s blocks and num_tokens are {got}, they must be {due}")


def test_a_fork_of_a_fork(impl):
    world = World(impl, 3).open("A", 7).fork("A", "B").fork("B", "C").fork("A", "D").fork("C", "E")
    world.append("E", 4)
    world.fork("E", "F").fork("A", "G")


def test_the_parent_may_leave_first(impl):
    for order in ("ABC", "CAB", "BCA"):
        world = World(impl).open("A", 10).fork("A", "B").fork("B", "C")
        for number, name in enumerate(order):
            demand = world.calling(f"fork was called twice, and release({name}'s blocks)")
            due = [] if number < 2 else list(reversed(world.named[name]))
            freed = world.close(name)
            demand(freed == due, f"freed {freed}: it must free {due}; a block is free when its last owner has gone")


def test_the_only_owner_writes_in_place(impl):
    for block_size in BLOCK_SIZES:
        world = World(impl, block_size).open("A", 2 * block_size + 1).open("B", block_size)
        for position in range(3 * block_size):
            world.make_writable("A", position)


def test_past_the_table_there_is_nothing_to_copy(impl):
    for block_size in BLOCK_SIZES:
        for num_blocks in (0, 1, 3):
            end = num_blocks * block_size
            world = World(impl, block_size).open("A", end, num_blocks).open("B", end, like="A")
            for position in (end, end + 1, end + block_size, end + 1000):
                world.make_writable("A", position)
                world.make_writable("B", position)
            world.fill()
            world.make_writable("B", end)


def test_a_shared_block_is_replaced_and_no_other(impl):
    for block_size in BLOCK_SIZES:
        for position in range(3 * block_size):
            world = World(impl, block_size).open("A", 3 * block_size - 1 or 1, num_blocks=3)
            world.open("B", world.tables["A"].num_tokens, like="A").open("C", 2)
            world.make_writable("B", position)
            world.make_writable("B", position)  # nobody else owns the new block
            world.make_writable("A", position)  # and A is now the only owner of the old one


def test_it_goes_by_the_position_and_not_by_the_number_of_tokens(impl):
    for num_tokens in (0, 5, 8, 12):
        for position in (0, 3, 4, 7, 8, 11):
            world = World(impl).open("A", num_tokens, num_blocks=3).open("B", num_tokens, like="A")
            world.make_writable("A", position)


def test_owners_one_after_another(impl):
    """Four owners: three take a block of their own, the last writes in place."""
    for order in ("ABCD", "DCBA", "CADB"):
        world = World(impl).open("A", 6).open("B", 6, like="A").open("C", 6, like="A").open("D", 6, like="A")
        for name in order:
            world.make_writable(name, 6)


def test_many_owners_and_long_tables(impl):
    names = "ABCDEFGHIJ"
    for ids in (range(40), range(39, -1, -1)):  # block 0 is a block like any other: once copied from, once copied to
        world = World(impl, pool=Pool(ids)).open("A", 118, num_blocks=30)
        for name in names[1:]:
            world.open(name, 118, like="A")
        for name in names:
            world.make_writable(name, 0 if ids[0] == 0 else 118)
        world.make_writable("B", 70)


def test_many_forks(impl):
    world = World(impl).open("A", 7)
    for name in "BCDEFGHIJKLM":
        world.fork("A", name)


def test_it_goes_by_the_owners_of_this_moment(impl):
    world = World(impl).open("A", 6).open("B", 6, like="A").open("C", 6)
    world.make_writable("C", 6)
    world.close("B")
    world.make_writable("A", 6)
    world.open("D", 6, like="A")
    world.make_writable("A", 6)
    world.make_writable("A", 2)


def test_without_a_free_block_nothing_changes(impl):
    for position in (0, 4, 6, 7):
        world = World(impl, num_blocks=4).open("A", 6).open("B", 6, like="A").open("C", 6, like="A")
        world.fill()
        for name in "BAC":
            world.refuses(OutOfBlocks, name, position, "others own the block too, and none is free")
        world.make_writable("B", 8)
        world.close("the rest")
        world.make_writable("B", position)


def test_the_last_free_block_is_taken(impl):
    world = World(impl, num_blocks=3).open("A", 6).open("B", 6, like="A").open("C", 6, like="A")
    world.make_writable("B", 6)
    world.refuses(OutOfBlocks, "C", 6, "A owns the block too, and none is free")


def test_the_last_owner_needs_no_free_block(impl):
    world = World(impl, num_blocks=2).open("A", 6)
    for position in (0, 6, 8):
        world.make_writable("A", position)


def test_positions_below_0_are_refused(impl):
    for num_blocks in (2, 0):
        world = World(impl).open("A", 0, num_blocks).open("B", 0, like="A").open("C", 0, num_blocks)
        for position in (-1, -4, -5, -8, -9, -100):
            for name in "AC":
                world.refuses(ValueError, name, position, "positions count from 0")


def test_figure_8_of_the_paper(impl):
    """Two samples of one prompt. A writes first and gets block 3, B then writes in place."""
    world = World(impl, num_blocks=9, pool=BlockAllocator(9, free_order=[7, 1, 3])).open("A", 7).fork("A", "B")
    demand = world.calling("make_writable(A, 7, allocator), then make_writable(B, 7, allocator)")
    got = [world.make_writable(name, 7) for name in "AB"]
    demand(got == [(1, 3), None], f"returned {got}: they must return [(1, 3), None], as in the paper's Figure 8")


def test_beams(impl):
    """A candidate is forked, and both go on; a full block is never copied."""
    world = World(impl).open("A", 8).fork("A", "B")
    for _ in range(3):
        for name in "AB":
            world.make_writable(name, world.tables[name].num_tokens)
            world.append(name, 1)
        world.close("A")
        world.fork("B", "A")


def test_how_many_blocks_are_used(impl):
    """Forked at L tokens, and A more for one of the two: ceil(L / b) + ceil((L + A) / b) - floor(L / b)."""
    for block_size in (4, 3, 1, 8):
        for num_tokens in lengths(block_size):
            for more in (1, block_size, 2 * block_size + 1):
                world = World(impl, block_size).open("A", num_tokens).fork("A", "B")
                copied = world.make_writable("B", num_tokens)
                world.append("B", more)
                used, full = len(world.ids) - world.pool.num_free, num_tokens // block_size
                due = len(range(0, num_tokens, block_size)) + len(range(0, num_tokens + more, block_size)) - full
                demand = world.calling(f"B, forked from A at {num_tokens} tokens, has got {more} more:")
                demand(used == due, f"{used} blocks are in use, and it must be {due}: full blocks are shared for good")
                is_partial = num_tokens % block_size != 0
                demand(bool(copied) == is_partial, f"a copy was {'' if copied else 'not '}made: only a part is copied")


def test_two_pools_have_nothing_to_do_with_each_other(impl):
    worlds = [World(impl, 3).open("A", 7).fork("A", "B") for _ in range(3)]
    for name in "BA":
        for world in worlds:
            world.make_writable(name, 7)


def test_nobody_reads_what_another_has_written(impl):
    """Random forks, writes and leaves; each sequence's tokens are looked up in the slots after every one of them."""
    for seed in range(6):
        random = Random(seed)
        texts = Texts(impl, random.choice((1, 2, 3, 4, 5)))
        for number in range(70):
            here, name = list(texts.tables), f"S{number}"
            act = random.random()
            if not here or act < 0.06:
                texts.start(name)
            elif act < 0.2 and len(here) < 6:
                texts.fork(random.choice(here), name)
            elif act < 0.27:
                texts.leave(random.choice(here))
            else:
                who = random.choice(here)
                end = len(texts.texts[who])
                if end < 12:
                    texts.write(who, end if random.random() < 0.8 else random.randrange(end + 1), f"{who}.{number}")
            texts.read()


def test_two_answers_to_one_prompt(impl):
    texts = Texts(impl, 4)
    texts.start("A1")
    for position, word in enumerate(PAPER):
        texts.write("A1", position, word)
    texts.fork("A1", "A2")
    for position, words in enumerate((("fathers", "mothers"), ("brought", "gave"), ("forth", "us")), start=len(PAPER)):
        for name, word in zip(("A1", "A2"), words):
            texts.write(name, position, word)
            texts.read()
