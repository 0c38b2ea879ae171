"""The checks of exercise 08: what the text of the stub says, and nothing else.

In a message A 7/8 is a sequence with 8 tokens, 7 of them computed. The first checks need only those that run.
"""

from random import Random

from ex08_world import World

DECODING = [(name, tokens, tokens - 1) for name, tokens in (("A", 8), ("B", 31), ("C", 2), ("D", 5))]


def test_nothing_to_do(impl):
    World(impl, 8, 4).schedule()


def test_everybody_decodes(impl):
    for number in (1, 2, 4):
        for budget in (4, 5, 100):
            World(impl, budget, 4, DECODING[:number]).schedule()


def test_a_prompt_that_fits_is_computed_whole(impl):
    for lacks in (2, 3, 7, 15, 16):
        World(impl, 16, 4, [("A", lacks, 0)]).schedule()
        World(impl, 16 + 2, 4, [*DECODING[:2], ("E", lacks, 0)]).schedule()


def test_a_prompt_that_does_not_fit_gets_what_is_left(impl):
    for budget in (4, 5, 16, 37):
        World(impl, budget, 4, [("A", 200, 0)]).schedule()
        World(impl, budget, 4, [*DECODING[:3], ("E", 200, 0)]).schedule()


def test_a_chunk_goes_on_where_the_last_one_ended(impl):
    for computed in (1, 4, 15, 150, 198, 199):
        World(impl, 16, 4, [*DECODING[:2], ("E", 200, computed)]).schedule()


def test_the_order_of_the_rows_is_that_of_the_running(impl):
    for order in ("ABCD", "DCBA", "BDAC"):
        by_name = {name: (name, *numbers) for name, *numbers in DECODING}
        World(impl, 40, 4, [by_name[name] for name in order]).schedule()


def test_who_runs_keeps_its_token_whoever_comes(impl):
    for budget in (4, 5, 9):
        World(impl, budget, 4, DECODING[:3], [("E", 100)]).schedule()
        World(impl, budget, 4, [*DECODING[:2], ("E", 100, 60)], [("F", 100)]).schedule()


def test_one_enters(impl):
    for tokens in (1, 2, 5, 16):
        World(impl, 16, 4, (), [("A", tokens)]).schedule()
        World(impl, 17, 4, DECODING[:1], [("E", tokens)]).schedule()


def test_several_enter_in_one_step(impl):
    World(impl, 30, 8, DECODING[:2], [("E", 5), ("F", 3), ("G", 1), ("H", 9)]).schedule()


def test_the_last_to_enter_gets_what_is_left(impl):
    for tokens in (12, 13, 500):
        World(impl, 20, 8, DECODING[:2], [("E", 5), ("F", 2), ("G", tokens)]).schedule()


def test_one_token_of_the_budget_lets_one_enter(impl):
    World(impl, 8, 8, DECODING[:2], [("E", 5), ("F", 9)]).schedule()
    World(impl, 5, 5, DECODING, [("F", 9), ("G", 1)]).schedule()


def test_nobody_enters_when_the_budget_is_spent(impl):
    World(impl, 8, 8, DECODING[:2], [("E", 6), ("F", 1)]).schedule()
    World(impl, 8, 8, [*DECODING[:2], ("E", 60, 20)], [("F", 1), ("G", 1)]).schedule()


def test_at_most_max_num_seqs_run(impl):
    many = [(f"W{number}", 3) for number in range(9)]
    for max_num_seqs in (1, 2, 4, 6):
        World(impl, 100, max_num_seqs, DECODING[:max_num_seqs], many).schedule()
        World(impl, 100, max_num_seqs, (), many).schedule()
        World(impl, 100, max_num_seqs, DECODING[: max_num_seqs - 1], many).schedule()


def test_nobody_passes_the_head(impl):
    World(impl, 16, 4, DECODING[:1], [("E", 40), ("F", 2), ("G", 3)]).schedule()
    World(impl, 16, 2, (), [("E", 16), ("F", 2), ("G", 3)]).schedule()
    World(impl, 16, 4, (), [("E", 9), ("F", 40), ("G", 2)]).schedule()


def test_a_prompt_of_which_the_beginning_is_cached(impl):
    for cached in (4, 8, 36, 39):
        World(impl, 16, 4, DECODING[:1], [("E", 40, cached), ("F", 10, 8), ("G", 3)]).schedule()


def test_the_smallest_budget(impl):
    World(impl, 1, 1, (), [("A", 1), ("B", 1)]).schedule()
    World(impl, 1, 1, DECODING[:1], [("B", 3)]).schedule()
    World(impl, 1, 1, [("A", 9, 4)], [("B", 3)]).schedule()
    World(impl, 4, 4, DECODING, [("F", 1)]).schedule()


def test_steps_of_one_prompt(impl):
    for budget in (4, 5, 64):
        world = World(impl, budget, 4, (), [("A", 43)])
        for _ in range(14):
            world.step()


def test_long_prompts_never_stop_those_who_decode(impl):
    world = World(impl, 10, 8, (), [("A", 3), ("B", 3)]).step()
    for number in range(12):
        world.arrive((f"W{number}", 64)).step(leaving={"A"} if number == 9 else ())


def test_the_next_enters_when_somebody_leaves(impl):
    world = World(impl, 12, 2, (), [("A", 3), ("B", 5), ("C", 4), ("D", 2)])
    world.step().step(leaving="A").step().step(leaving="B").step().step(leaving="CD").step()


def test_two_queues_know_nothing_of_each_other(impl):
    one = World(impl, 8, 4, (), [("A", 20), ("B", 3)])
    other = World(impl, 8, 4, (), [("C", 3), ("D", 3)])
    for _ in range(5):
        one.step()
        other.step()


def test_a_random_run(impl):
    for seed in range(12):
        random, number = Random(seed), 0
        max_num_seqs = random.choice((1, 2, 3, 6))
        world = World(impl, max_num_seqs + random.choice((0, 1, 5, 30)), max_num_seqs)
        for _ in range(40):
            for _ in range(random.choice((0, 0, 0, 1, 1, 4))):
                tokens = random.choice((1, 2, 7, 20, 60))
                world.arrive((f"W{number}", tokens, random.choice((0, 0, tokens // 2))))
                number += 1
            world.step(leaving={each.name for each in world.running if random.random() < 0.1})


def test_large_budgets_and_many_sequences(impl):
    """As in real use: prompts of hundreds of tokens, and more than a handful that run."""
    World(impl, 512, 16, DECODING[:2], [("E", 300), ("F", 150), ("G", 400)]).schedule()
    World(impl, 2048, 64, (), [(f"S{i}", 40) for i in range(50)]).schedule()
