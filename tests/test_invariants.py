"""What holds after every step of any workload, each counted out anew instead of asking check(). Named by number."""

import random
from collections import Counter

import pytest
from harness import Drive, request, scheduler

from minipaged.memory.prefix_cache import block_hashes


def random_drive(seed):
    """Yields a scheduler after every step of a random workload under pressure; where seed is odd, with prefix caching:
    of two prompts, here, the shorter is always the beginning of the longer."""
    rng = random.Random(seed)
    block_size, budget = rng.choice([1, 2, 3, 4, 16]), 5 + rng.randint(0, 20)
    made = scheduler(-(-60 // block_size), block_size, 5, budget, prefix_caching=seed % 2 == 1)
    for i in range(8):
        n = rng.randint(1, 3)
        made.add(request(f"R{i}", rng.randint(1, 30) // n + 1, rng.randint(1, 25) // n + 1, n))
    drive = Drive(made)
    while made.running or made.waiting:
        drive.step()
        yield made


@pytest.mark.parametrize("seed", range(10))
def test_p1_free_and_in_use_make_up_the_pool(seed):
    for made in random_drive(seed):
        memory, allocator = made.memory, made.memory.allocator
        free = allocator.free_order()
        owners = Counter(block for name in memory.sequences() for block in memory.table(name).blocks)
        assert len(set(free)) == len(free) == allocator.num_free
        assert set(free).isdisjoint(owners)
        assert set(free) | set(owners) == set(range(memory.num_blocks))
        assert all(allocator.ref_count(block) == owners[block] for block in range(memory.num_blocks))


@pytest.mark.parametrize("seed", range(1, 20, 2))
def test_p3_what_is_found_by_a_hash_has_that_hash(seed):
    """Looked up after every step: all texts that there ever were, of which some are lost by then."""
    sequences, num_found, num_lost = {}, 0, 0
    for made in random_drive(seed):
        cache = made.memory.prefix_cache
        sequences |= {each.name: each for one in (*made.running, *made.waiting) for each in one.sequences}
        for sequence in sequences.values():
            hashes = block_hashes(sequence.token_ids[:-1], made.memory.block_size)
            hit = cache.longest_hit(sequence.token_ids)
            assert [cache.hash_of(block) for block in hit] == hashes[: len(hit)]
            num_found, num_lost = num_found + len(hit), num_lost + (len(hit) < len(hashes))
    assert min(num_found, num_lost) >= 20


@pytest.mark.parametrize("seed", range(10))
def test_p4_a_table_has_the_blocks_that_its_computed_tokens_fill(seed):
    for made in random_drive(seed):
        for sequence in with_tables(made):
            computed, block_size = sequence.num_computed_tokens, made.memory.block_size
            blocks = made.memory.table(sequence.name).blocks
            assert (len(blocks) - 1) * block_size < computed <= len(blocks) * block_size


@pytest.mark.parametrize("seed", range(10))
def test_p8_everything_released_leaves_every_block_free(seed):
    *_, made = random_drive(seed)
    assert made.memory.allocator.num_free == made.memory.num_blocks
    assert made.memory.usage().used_slots == made.memory.usage().allocated_slots == 0


def with_tables(made):
    return [sequence for each in made.running for sequence in each.sequences if sequence.num_computed_tokens]


@pytest.mark.parametrize("seed", range(10))
def test_p2_a_block_with_several_owners_is_never_written(seed):
    """The slots of every row, when the plan is made, lie in blocks of one owner, and no two rows have one in common."""
    rng = random.Random(seed)
    made = scheduler(rng.randint(14, 30), rng.choice([2, 3, 4]), 6, 14, prefix_caching=seed % 2 == 1)
    for i in range(5):
        made.add(request(f"R{i}", rng.randint(1, 6), rng.randint(2, 6), rng.randint(1, 3)))
    schedule, num_written = made.schedule, 0

    def watched():
        nonlocal num_written
        plan = schedule()
        slots = []
        for sequence, start, num_tokens in plan.rows:
            slots += made.memory.table(sequence.name).slots(start, start + num_tokens)
        assert len(set(slots)) == len(slots)
        assert {made.memory.allocator.ref_count(slot // made.memory.block_size) for slot in slots} <= {1}
        num_written += len(slots)
        return plan

    made.schedule = watched
    Drive(made).run()
    assert num_written > 20


def keys_and_values(model, token_ids):
    """K and V of every layer, computed densely: a list of pairs of [num_tokens, num_kv_heads, head_dim]."""
    import torch
    import torch.nn.functional as F

    found = []

    def attend(layer, q, k, v):
        found.append((k, v))
        heads_first = [x.transpose(0, 1) for x in (q, k, v)]
        out = F.scaled_dot_product_attention(*heads_first, is_causal=True, scale=model.scale, enable_gqa=True)
        return out.transpose(0, 1)

    model.hidden(torch.tensor(token_ids), torch.arange(len(token_ids)), attend)
    return found


@pytest.mark.parametrize("prefix_caching", [False, True], ids=["", "caching"])
@pytest.mark.parametrize("block_size", [1, 3, 4])
def test_p5_the_slots_of_a_table_hold_its_tokens(block_size, prefix_caching):
    """K and V found through a table are those of the sequence's tokens, at every layer, after every step."""
    import torch
    from oracle import CheckedEngine, random_model

    from minipaged.serving.sequence import SamplingParams

    engine = CheckedEngine(random_model(), -(-44 // block_size), block_size, 4, 9, prefix_caching=prefix_caching)
    for i in range(5):
        n = 3 if i in (1, 3) else 1
        engine.add([7 * (i % 2) + j for j in range(3 + 4 * i)], SamplingParams(seed=i, max_tokens=12 // n, n=n))
    with torch.inference_mode():
        while engine.has_unfinished():
            engine.step()
            for sequence in with_tables(engine.scheduler):
                token_ids = sequence.token_ids[: sequence.num_computed_tokens]
                slots = engine.memory.table(sequence.name).slots(0, len(token_ids))
                for layer, (k, v) in enumerate(keys_and_values(engine.model.model, token_ids)):
                    assert (engine.cache.k[layer].flatten(0, 1)[slots] - k).abs().max() <= 1e-9
                    assert (engine.cache.v[layer].flatten(0, 1)[slots] - v).abs().max() <= 1e-9


def greedy_outputs(prompts, num_blocks, block_size, max_num_seqs=8, budget=64, preempt=0.0, **options):
    """Run prompts greedily, the newest running request being preempted at random steps. Returns their tokens."""
    from oracle import CheckedEngine, random_model

    from minipaged.serving.sequence import SamplingParams

    engine = CheckedEngine(random_model(), num_blocks, block_size, max_num_seqs, budget, **options)
    names = [engine.add(prompt, SamplingParams(temperature=0, max_tokens=14)) for prompt in prompts]
    outputs, rng = {}, random.Random(0)
    while engine.has_unfinished():
        outputs.update((each.request_id, each.outputs[0].token_ids) for each in engine.step().outputs)
        if rng.random() < preempt:
            engine.force_preemption()
    return [outputs[name] for name in names]


def test_p7_greedy_outputs_depend_on_nothing_but_the_prompt():
    rng = random.Random(1)
    prompts = [[rng.randrange(97) for _ in range(length)] for length in (1, 4, 9, 17, 30)]
    expected = greedy_outputs(prompts, 100, 4)
    assert len({tuple(each) for each in expected}) == len(prompts)
    for block_size in (1, 2, 3, 16):
        assert greedy_outputs(prompts, 200, block_size) == expected
    for num_blocks in (11, 13, 20):
        assert greedy_outputs(prompts, num_blocks, 4) == expected
    for max_num_seqs, budget in ((1, 1), (2, 3), (4, 4), (8, 8), (8, 13)):
        assert greedy_outputs(prompts, 100, 4, max_num_seqs, budget) == expected
    assert [greedy_outputs([prompt], 100, 4)[0] for prompt in prompts] == expected
    assert greedy_outputs(prompts[::-1], 100, 4) == expected[::-1]
    for preempt in (0.1, 0.3):
        assert greedy_outputs(prompts, 100, 4, preempt=preempt) == expected
    for num_host_blocks in (3, 200):
        assert greedy_outputs(prompts, 11, 4, preempt=0.3, num_host_blocks=num_host_blocks) == expected
    for num_blocks, block_size, preempt in ((100, 1, 0), (11, 4, 0.1), (13, 4, 0.3), (40, 3, 0.3)):
        twice = greedy_outputs(prompts + prompts, num_blocks, block_size, 4, 8, preempt, prefix_caching=True)
        assert twice == expected + expected
