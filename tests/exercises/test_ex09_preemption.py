"""The checks of exercise 09: what the text of the stub says, and nothing else.

The first need only choose_victim, then come preempt and resume by themselves, and at last all three in the scheduler.
"""

from random import Random

from ex09_serving import must_serve, workload
from ex09_world import World

from minipaged.memory.contiguous import ContiguousMemory
from minipaged.serving.sequence import Request, SamplingParams

BLOCK_SIZES = (4, 3, 1, 16)
PAIR = [(11, 40), (27, 26)]  # for a pool of 21 blocks of 4: the second must yield once


def lined_up(lengths, names="ABCDEFGH"):
    """Running requests, the oldest first: (prompt tokens, generated tokens) of each."""
    running = []
    for i, (num_prompt_tokens, num_generated) in enumerate(lengths):
        running.append(Request(names[i], None, list(range(num_prompt_tokens)), SamplingParams(), 100, seed=0))
        running[-1].sequences[0].token_ids += [7] * num_generated
    return running


def newest_of(impl, lengths, names="ABCDEFGH"):
    running = lined_up(lengths, names)
    names = [request.request_id for request in running]
    got = impl.choose_victim(running)
    told = f"running, the oldest first: {', '.join(names)}: choose_victim(running)"
    left = [request.request_id for request in running]
    assert left == names, f"{told} left {', '.join(left) or 'nobody'} in the list: it must stay as it is"
    found = getattr(got, "request_id", repr(got))
    why = "the newest yields" if len(names) > 1 else "nobody else runs"
    assert got is running[-1], f"{told} returned {found}: it must return the request {names[-1]}, {why}"


def test_the_newest_yields(impl):
    for num_running in range(2, 9):
        newest_of(impl, [(5, 2)] * num_running)


def test_who_runs_alone_yields_itself(impl):
    newest_of(impl, [(5, 2)])


def test_how_long_they_are_does_not_matter(impl):
    random = Random(0)
    for _ in range(20):
        newest_of(impl, [(random.randint(1, 30), random.randint(0, 30)) for _ in range(random.randint(2, 8))])


def test_its_blocks_are_dropped(impl):
    for block_size in BLOCK_SIZES:
        for num_tokens in (1, block_size, block_size + 1, 3 * block_size):
            World(impl, block_size=block_size).run("A", 5).run("B", num_tokens).preempt("B")


def test_it_may_be_in_the_middle_of_its_prompt(impl):
    for num_host_blocks in (0, 4):
        world = World(impl, num_host_blocks=num_host_blocks).run("A", 5).run("B", 23, 0, num_computed=10)
        world.preempt("B", bool(num_host_blocks))


def test_dropped_whatever_was_generated(impl):
    for num_generated in (1, 2, 9):
        World(impl).run("A", 5).run("B", 6, num_generated).preempt("B")


def test_its_blocks_go_to_the_host_pool(impl):
    for block_size in BLOCK_SIZES:
        for num_tokens in (1, block_size, block_size + 1, 3 * block_size):
            world = World(impl, block_size=block_size, num_host_blocks=8).run("A", 5).run("B", num_tokens)
            world.preempt("B", True)


def test_without_swap_nothing_goes_to_the_host_pool(impl):
    World(impl, num_host_blocks=8).run("A", 5).run("B", 9).preempt("B", False)


def test_a_host_pool_that_is_just_large_enough(impl):
    World(impl, num_host_blocks=3).run("A", 5).run("B", 11).preempt("B", True)


def test_a_full_host_pool(impl):
    World(impl, num_host_blocks=2).run("A", 5).run("B", 11).preempt("B", True)
    world = World(impl, num_host_blocks=4).run("A", 5).run("B", 11).run("C", 7)
    world.preempt("C", True)
    world.preempt("B", True)  # two host blocks are left, and it has three


def test_who_shares_its_blocks_goes_on_with_them(impl):
    for num_host_blocks in (0, 8):
        world = World(impl, prefix_caching=True, num_host_blocks=num_host_blocks).run("A", 10).run("B", 14, like="A")
        world.preempt("B", bool(num_host_blocks))
        world.read("A")


def test_what_can_be_hit_still_can(impl):
    World(impl, prefix_caching=True).run("A", 5).run("B", 14).preempt("B")


def test_all_may_yield_one_after_another(impl):
    world = World(impl, num_host_blocks=5).run("A", 7).run("B", 9).run("C", 4)
    for name in "CBA":
        world.preempt(name, True)


def test_for_the_first_time(impl):
    for num_tokens in (1, 4, 5, 40):
        World(impl).ask("A", num_tokens).resume("A")


def test_for_the_first_time_with_a_host_pool(impl):
    World(impl, num_host_blocks=8).run("A", 5).ask("B", 9).resume("B")


def test_after_its_blocks_were_dropped(impl):
    for num_generated in (0, 1, 9):
        World(impl).run("A", 5).ask("B", 7, num_generated).resume("B")


def test_what_is_cached_need_not_be_computed(impl):
    for num_tokens in (3, 4, 5, 8, 9, 13):
        World(impl, prefix_caching=True).run("A", 12).ask("B", num_tokens, like="A").resume("B")


def test_it_hits_its_own_blocks(impl):
    world = World(impl, prefix_caching=True).run("A", 5).run("B", 14, 3)
    world.preempt("B")
    world.resume("B")


def test_out_and_in_again(impl):
    for block_size in BLOCK_SIZES:
        for num_tokens in (1, block_size, block_size + 1, 3 * block_size):
            world = World(impl, block_size=block_size, num_host_blocks=8).run("A", 5).run("B", num_tokens)
            world.preempt("B", True)
            world.run("C", 1, num_computed=1)  # somebody takes a block that B had
            world.resume("B")
            world.read("A")


def test_without_room_nothing_changes(impl):
    world = World(impl, num_blocks=8).run("A", 21).ask("B", 6, 3)  # two are free, and three are needed
    world.resume("B")
    World(impl, num_blocks=8).run("A", 21).ask("B", 9, 0).resume("B")


def test_without_room_it_stays_in_the_host_pool(impl):
    world = World(impl, num_blocks=6, num_host_blocks=8).run("A", 5).run("B", 11)
    world.preempt("B", True)
    world.run("C", 9, num_computed=9)
    world.resume("B")


def test_room_for_one_token_more(impl):
    """Twelve tokens of B are computed: it had three blocks. With just three it would have to yield at once."""
    world = World(impl, num_blocks=6, num_host_blocks=8).run("A", 8).run("B", 12)
    world.preempt("B", True)
    world.run("C", 1, num_computed=1)
    world.resume("B")


def test_extra_blocks_are_left_free(impl):
    for extra_blocks in range(5):  # three are needed, and five are free
        World(impl, num_blocks=7).run("A", 8).ask("B", 9, 3).resume("B", extra_blocks)
        world = World(impl, num_blocks=7, num_host_blocks=8).run("A", 8).run("B", 9, 2)
        world.preempt("B", True)
        world.resume("B", extra_blocks)


def test_a_memory_that_reserves(impl):
    """It goes by how many tokens may come, and how many of those that are here came after the prompt."""
    for policy in ("oracle", "pow2", "max"):
        for num_generated in (0, 5):
            world = World(impl, memory=ContiguousMemory(32, 4, policy, max_model_len=64))
            world.ask("A", 9, num_generated, max_tokens=20).resume("A")


def test_no_token_is_lost_in_a_long_walk(impl):
    """Random sequences come, yield, come back; what is computed of each is looked up in its slots."""
    for seed in range(8):
        random = Random(seed)
        world = World(impl, 14, random.choice((1, 2, 3, 4)), random.choice((0, 4, 9)), random.random() < 0.5)
        for _ in range(60):
            here = world.memory.sequences()
            away = [name for name in world.sequences if name not in here]
            if here and random.random() < 0.4:
                world.preempt(random.choice(here), bool(world.memory.host) and random.random() < 0.7)
            elif away and random.random() < 0.8:
                name = random.choice(away)
                if world.resume(name, random.randint(0, 2)) is not None:
                    end = min(world.sequences[name].num_tokens, world.sequences[name].num_computed_tokens + 3)
                    world.compute(name, max(end, world.sequences[name].num_computed_tokens))
            elif len(world.sequences) < 5:
                world.ask("ABCDE"[len(world.sequences)], random.randint(1, 9), random.randint(0, 4))


def test_two_requests_by_recompute(impl):
    must_serve(impl, PAIR, 21)


def test_two_requests_by_swap(impl):
    """One out, one in: whoever comes back has room for more than its next token."""
    must_serve(impl, PAIR, 21, num_host_blocks=21)


def test_many_requests_by_recompute(impl):
    for seed in range(8):
        lengths, num_blocks, block_size = workload(seed)
        must_serve(impl, lengths, num_blocks, block_size=block_size, prefix_caching=bool(seed % 2))


def test_many_requests_by_swap(impl):
    for seed in range(8):
        lengths, num_blocks, block_size = workload(seed)
        host = num_blocks if seed % 2 else num_blocks // 3 + 1
        must_serve(impl, lengths, num_blocks, block_size=block_size, num_host_blocks=host, prefix_caching=seed % 4 < 2)


def test_names_say_nothing_of_age(impl):
    """Users choose them as they like."""
    for names in (["9", "10", "11"], "CAB", "BAC", "ACB"):
        newest_of(impl, [(5, 2)] * 3, names)
