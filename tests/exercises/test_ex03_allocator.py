"""The checks of exercise 03: what the text of the stub says, and nothing else.

A message tells the last calls, what came of them and what was expected. The first checks need one or two methods only,
so that they pass while the others are still to be written.
"""

from random import Random

from ex03_pool import Pool

from minipaged.memory.allocator import DoubleFree, OutOfBlocks


def test_a_fresh_pool_is_free(impl):
    for num_blocks, free_order in ((8, None), (1, None), (9, [7, 1, 3])):
        Pool(impl, num_blocks, free_order).demand_is("nobody owns a block yet", free=num_blocks)


def test_a_fresh_block_has_no_owner(impl):
    Pool(impl, 3).demand_is(b0=0, b1=0, b2=0)


def test_ref_count_refuses_ids_outside_the_pool(impl):
    for block in (5, 6, -1, -5, -6):
        Pool(impl, 5).refuses(ValueError, "the ids of 5 blocks are 0 to 4", "ref_count", block)


def test_allocate_gives_a_list_of_different_blocks(impl):
    pool = Pool(impl, 8)
    ids = pool.allocate(3) + pool.allocate() + pool.allocate(4)
    for block in ids:
        pool.demand(ids.count(block) == 1, f"allocate gave block {block} twice: it was never freed in between")
    pool.demand(sorted(ids) == list(range(8)), f"all 8 blocks are handed out, but their ids are {sorted(ids)}")


def test_allocate_takes_the_front_of_the_queue(impl):
    backwards = [*range(299, -1, -1)]
    for order, queue in (([7, 1, 3], [7, 1, 3, 0, 2, 4, 5, 6, 8]), (None, [0, 1, 2, 3, 4]), (backwards, backwards[:])):
        pool, given = Pool(impl, len(queue), order), order and list(order)
        ids = pool.allocate(2) + pool.allocate()
        pool.demand(ids == queue[:3], f"{ids} are handed out; {queue[:3]} stood at the front of the free queue")
        pool.demand_is("the other blocks, in the order in which they stood", order=queue[3:])
        pool.demand(order == given, f"the list given as free_order has become {order}")


def test_allocated_blocks_have_one_owner(impl):
    pool = Pool(impl, 6, [4, 2])
    pool.allocate(2)
    pool.demand_is("2 of 6 blocks are owned", free=4, b0=0, b1=0, b2=1, b3=0, b4=1, b5=0)


def test_too_many_blocks_are_refused_as_a_whole(impl):
    pool = Pool(impl, 5)
    pool.allocate(2)
    for n in (4, 5, 100):
        pool.refuses(OutOfBlocks, "3 blocks are free", "allocate", n)
    pool.allocate(3)
    pool.demand_is("all 5 blocks are owned", free=0, order=[])
    pool.refuses(OutOfBlocks, "no block is free", "allocate")


def test_no_block_and_less_than_none(impl):
    for num_owned in (0, 1, 3):
        pool = Pool(impl, 3)
        pool.allocate(num_owned)
        before = pool.state()
        pool.allocate(0)
        pool.demand(pool.state() == before, f"no block was asked for, but {before} has become {pool.state()}")
        for n in (-1, -3):
            pool.refuses(ValueError, "n must be 0 or more", "allocate", n)


def test_released_blocks_can_be_had_again(impl):
    pool = Pool(impl, 4)
    for table in ([0, 1, 2, 3], [3, 2, 1, 0], [0, 1, 2, 3]):
        pool.release(pool.allocate(4), table[::-1], "all of them, the last of `ids` first")
        pool.demand_is("all are released", free=4, b0=0, b1=0, b2=0, b3=0)
    pool.release([], [])
    pool.demand_is("release([]) releases nothing", free=4, order=[3, 2, 1, 0])


def test_a_freed_tail_is_handed_out_first(impl):
    pool, rule = Pool(impl, 8, [7, 1, 3]), "freed blocks go to the front, the last of `ids` first of all"
    pool.allocate(3), pool.allocate(2)
    pool.release([7, 1, 3], [3, 1, 7], "the last of `ids` first")
    pool.demand_is(rule, order=[3, 1, 7, 4, 5, 6], free=6)
    pool.release([2], [2])
    pool.demand_is(rule, order=[2, 3, 1, 7, 4, 5, 6])
    ids = pool.allocate(3)
    pool.demand(ids == [2, 3, 1], f"allocate gave {ids}, but the front of the queue was [2, 3, 1]")
    pool.release([0, 2, 3, 1], [1, 3, 2, 0], "the last of `ids` first")
    pool.demand_is(rule, order=[1, 3, 2, 0, 7, 4, 5, 6])


def test_a_block_is_freed_only_once(impl):
    pool = Pool(impl, 6)
    pool.allocate(4)
    pool.release([1, 3], [3, 1])
    for ids in ([3], [5], [0, 1], [1, 0], [0, 3, 2], [0, 2, 5], [5, 0, 2], [0, 1, 2, 3]):
        free = next(block for block in ids if block in (1, 3, 5))
        pool.refuses(DoubleFree, f"nobody owns block {free}", "release", ids)
    for ids in ([0, 0], [0, 2, 0], [2, 0, 0], [2, 2, 2]):
        pool.refuses(DoubleFree, "an id stands there more often than it has owners", "release", ids)
    pool.release([0, 2], [2, 0], "the calls that were refused have changed nothing")


def test_release_refuses_ids_outside_the_pool(impl):
    pool = Pool(impl, 4)
    pool.allocate(4)
    for ids in ([4], [-1], [-4], [-5], [0, -1], [-1, 0], [1, 9, 2], [0, 1, 4]):
        pool.refuses(ValueError, "the ids of 4 blocks are 0 to 3", "release", ids)


def test_a_shared_block_is_freed_by_its_last_owner(impl):
    pool = Pool(impl, 5, [4, 1, 0])
    pool.allocate(3)
    pool.call("share", [1])
    pool.call("share", [1])
    pool.demand_is(b4=1, b1=3, b0=1, free=2)
    pool.release([4, 1, 0], [0, 4], "block 1 has two owners left")
    pool.demand_is("block 1 has two owners left", b4=0, b1=2, b0=0, order=[0, 4, 2, 3])
    pool.release([1], [], "block 1 has one owner left")
    pool.demand_is("block 1 has one owner left", b1=1, order=[0, 4, 2, 3])
    pool.release([1], [1], "block 1 has no owner left")
    pool.demand_is("block 1 has no owner left", b1=0, order=[1, 0, 4, 2, 3])
    pool.refuses(DoubleFree, "all three owners have given it up", "release", [1])


def test_two_owners_may_give_up_a_block_in_one_call(impl):
    pool = Pool(impl, 4)
    pool.allocate(3)
    pool.call("share", [0, 2])
    pool.refuses(DoubleFree, "block 0 has two owners and stands there three times", "release", [0, 1, 0, 0])
    freed = pool.call("release", [0, 1, 2, 0])  # whether 0 or 1 is the last to go, the text does not say
    pool.demand(sorted(freed or ()) == [0, 1], f"release gave {freed}; it must give 0 and 1, each once; 2 has an owner")
    pool.demand_is("block 2 has one owner left", free=3, b0=0, b1=0, b2=1)
    pool.call("share", [2, 2])
    pool.release([2, 2], [], "block 2 has three owners, and two of them give it up")
    pool.demand_is("one of three owners is left", free=3, b2=1)


def test_share_takes_a_free_block_out_of_the_queue(impl):
    pool = Pool(impl, 4)
    pool.call("share", [2])
    pool.demand_is("block 2 has an owner now", free=3, order=[0, 1, 3], b2=1)
    ids = pool.allocate(3)
    pool.demand(2 not in ids, f"allocate gave {ids}, but block 2 has an owner")
    pool.release([2], [2])
    pool.demand_is("block 2 is the only one that nobody owns", order=[2])


def test_blocks_to_keep_go_to_the_back(impl):
    for keep in ({0, 1, 2}, [2, 0, 1], {0: "a", 1: "b", 2: "c"}, frozenset({0, 1, 2, 9})):
        pool, was = Pool(impl, 6), repr(keep)
        pool.allocate(4)
        pool.release([0, 1, 2, 3], [3, 2, 1, 0], "all four are freed", keep=keep)
        pool.demand(repr(keep) == was, f"keep was {was}, it has become {keep}")
        pool.demand_is("those in keep stand at the back, the last of them first", order=[3, 4, 5, 2, 1, 0])
        pool.demand_is("nobody owns a kept block", free=6, b0=0, b1=0, b2=0, b3=0)
        pool.refuses(DoubleFree, "nobody owns block 2", "release", [2])
        ids = pool.allocate(6)
        pool.demand(ids == [3, 4, 5, 2, 1, 0], f"allocate gave {ids}; the queue was [3, 4, 5, 2, 1, 0]")


def test_a_block_to_keep_may_have_another_owner(impl):
    pool = Pool(impl, 5)
    pool.allocate(3)
    pool.call("share", [1])
    pool.release([0, 1, 2], [2, 0], "block 1 has an owner left", keep={0, 1})
    pool.demand_is("block 1 has an owner left, block 0 is in keep", order=[2, 3, 4, 0])
    pool.release([1], [1])
    pool.demand_is("keep was for the call before, not for this one", order=[1, 2, 3, 4, 0])


def test_lists_belong_to_the_caller(impl):
    pool, why = Pool(impl, 6), "lists were changed by the caller, no block was released or taken"
    first, second = pool.allocate(3), pool.allocate(2)
    pool.demand(first == [0, 1, 2], f"the first list has become {first}: each call must give a new one")
    first.clear()
    second.append(5)
    pool.demand_is(why, free=1, order=[5], b0=1, b1=1, b2=1, b3=1, b4=1, b5=0)
    table = [0, 1, 2]
    freed = pool.call("release", table)
    table.clear()
    pool.release([3], [3])
    pool.demand(list(freed) == [2, 1, 0], f"what the first release gave has become {freed}: each must give a new list")
    if isinstance(freed, list):
        freed.clear()
    pool.demand_is(why, free=5, order=[3, 2, 1, 0, 5])
    one = [4]
    freed = pool.call("release", one)
    pool.demand(freed is not one, "release gave back the very list that it was given: it must give a new one")
    pool.allocate(0).append(9)
    pool.demand(
        pool.allocate(0) == [], "the empty list that allocate(0) gave was changed by the caller, and comes again"
    )


def test_two_pools_know_nothing_of_each_other(impl):
    one, two = Pool(impl, 3), Pool(impl, 3)
    one.allocate(2)
    two.demand_is("blocks of another pool were handed out", free=3, order=[0, 1, 2], b0=0, b1=0, b2=0)
    two.allocate(1)
    one.release([0], [0])
    two.demand_is("blocks of another pool were released", free=2, b0=1)


def test_a_long_random_run(impl):
    for num_blocks, seed, steps in ((1, 0, 40), (5, 1, 500), (12, 2, 200), (300, 3, 20), (1100, 4, 3)):
        random_run(impl, num_blocks, Random(seed), steps)


def random_run(impl, num_blocks, random, steps):
    """Right and wrong calls by chance; after each, everything is compared with plain lists."""
    queue, counts, tables = random.sample(range(num_blocks), num_blocks), [0] * num_blocks, [[]]
    pool = Pool(impl, num_blocks, list(queue))
    for _ in range(steps):
        kind, table, n = random.choice("aarrshw"), random.choice(tables), random.randint(0, max(2, num_blocks // 2))
        if kind == "a" and n > len(queue):
            pool.refuses(OutOfBlocks, f"{len(queue)} blocks are free", "allocate", n)
        elif kind in "ash":  # allocate, share a table, hit free blocks
            ids = {"a": queue[:n], "s": table, "h": random.sample(queue, min(len(queue), 2))}[kind]
            taken = pool.allocate(n) if kind == "a" else pool.call("share", list(ids)) or ids
            pool.demand(taken == ids, f"allocate gave {taken}; {ids} stood at the front of the free queue")
            tables.append(list(ids))
            queue = [block for block in queue if block not in ids]
            counts = [count + (block in ids) for block, count in enumerate(counts)]
        elif kind == "r" and table:
            cut = random.choice((0, 0, len(table) // 2))  # sometimes the tail only
            keep, ids = {block for block in table if random.random() < 0.4}, table[cut:]
            del table[cut:]
            counts = [count - (block in ids) for block, count in enumerate(counts)]
            freed = [block for block in reversed(ids) if counts[block] == 0]
            pool.release(ids, freed, "those without an owner, the last of `ids` first", keep=keep)
            queue = [b for b in freed if b not in keep] + queue + [b for b in freed if b in keep]
        elif kind == "w":
            block, place = random.randrange(num_blocks), random.randint(0, len(table))
            ids = [*table[:place], *[block] * (counts[block] + 1), *table[place:]]
            pool.refuses(DoubleFree, f"block {block} has {counts[block]} owners", "release", ids)
            ids = [*table[:place], random.choice((-1, num_blocks, -num_blocks)), *table[place:]]
            pool.refuses(ValueError, f"the ids of {num_blocks} blocks are 0 to {num_blocks - 1}", "release", ids)
        pool.demand_is("the front is handed out, freed blocks go to the front, kept ones to the back", order=queue)
        pool.demand_is(free=len(queue), **{f"b{block}": count for block, count in enumerate(counts)})


class OnlyIn:
    """A container: it says whether something is in it, and nothing else."""

    def __init__(self, ids):
        self.ids = ids

    def __contains__(self, block):
        return block in self.ids

    def __repr__(self):
        return f"a container of {self.ids}"


def test_keep_is_asked_about_freed_blocks_only(impl):
    pool = Pool(impl, 5)
    pool.allocate(3)
    why = "block 3 is in keep too, but it was free already and stays where it was"
    pool.release([0, 1], [1, 0], keep=OnlyIn([0, 3]))
    pool.demand_is(why, order=[1, 3, 4, 0])
    pool.call("share", [2])
    pool.release([2, 2], [2], "its second owner is its last", keep=[2])
    pool.demand_is("block 2 is in keep", order=[1, 3, 4, 0, 2], b2=0)


def test_a_block_may_have_many_owners(impl):
    pool = Pool(impl, 2)
    pool.allocate()
    pool.call("share", [0, 0])
    pool.demand_is("block 0 was shared twice in one call", b0=3, free=1)
    for _ in range(300):
        pool.allocator.share([0])
    pool.calls.append("share([0]) 300 times")
    pool.demand_is("each call is one owner more", b0=303, free=1)
