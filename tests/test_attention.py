"""Attention through block tables, against torch's own attention over each sequence's dense K and V, in float64.

Every slot that must not be read holds NaN, and every table entry past a sequence's end is an id that doesn't exist.
"""

import itertools
import math
import random
from dataclasses import dataclass

import pytest
from harness import some_slow

EXACT = 1e-12  # in float64; the largest error seen is a few 1e-15
NO_BLOCK = (-1, 10**9)  # what a table may hold where nobody looks
IMPLEMENTATIONS = ["reference", "batched", "batched in a small workspace"]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(params=IMPLEMENTATIONS)
def attention(request, torch):
    """A paged_attention: each implementation in turn."""
    from minipaged.attention import batched, reference

    if request.param == "reference":
        return reference.paged_attention
    if request.param == "batched":
        return batched.paged_attention
    return paged_attention_of(batched.BatchedAttention(workspace_tokens=40))


def paged_attention_of(backend):
    """A backend of the model as one function: plan, then run once."""

    def paged_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, scale):
        return backend.plan(block_tables, seq_lens, query_start_loc)(q, k_cache, v_cache, scale)

    return paged_attention


@dataclass
class Case:
    """The arguments of paged_attention, the blocks of each sequence, and what must come out."""

    arguments: dict
    blocks: list
    expected: object


def make_case(lengths, num_queries, heads=(4, 2), head_dim=16, block_size=4, seed=0, place_seed=None):
    """Sequences of `lengths` keys, the last num_queries[i] of which are queries, scattered over a poisoned cache.

    place_seed decides which blocks they take (default: seed, which decides the numbers). Three blocks stay unused.
    """
    import torch

    random_torch = torch.Generator().manual_seed(seed)
    random_blocks = random.Random(seed if place_seed is None else place_seed)
    num_heads, num_kv_heads = heads
    scale = head_dim**-0.5

    def normal(*shape):
        return torch.randn(*shape, generator=random_torch, dtype=torch.float64)

    needed = [-(-length // block_size) for length in lengths]
    order = random_blocks.sample(range(sum(needed) + 3), sum(needed) + 3)
    k_cache = torch.full((len(order), block_size, num_kv_heads, head_dim), float("nan"), dtype=torch.float64)
    v_cache = k_cache.clone()
    tables = torch.tensor([[random_blocks.choice(NO_BLOCK) for _ in range(max(needed) + 2)] for _ in lengths])
    queries, expected, blocks = [], [], []
    for i, (length, count) in enumerate(zip(lengths, num_queries)):
        mine = [order.pop() for _ in range(needed[i])]
        tables[i, : len(mine)] = torch.tensor(mine, dtype=torch.long)
        k, v = normal(length, num_kv_heads, head_dim), normal(length, num_kv_heads, head_dim)
        for position in range(length):
            block, offset = mine[position // block_size], position % block_size
            k_cache[block, offset], v_cache[block, offset] = k[position], v[position]
        q = normal(count, num_heads, head_dim)
        queries.append(q)
        expected.append(dense_attention(q, k, v, scale))
        blocks.append(mine)
    starts = [sum(num_queries[:i]) for i in range(len(num_queries) + 1)]
    arguments = {
        "q": torch.cat(queries),
        "k_cache": k_cache,
        "v_cache": v_cache,
        "block_tables": tables.to(torch.int32),
        "seq_lens": torch.tensor(lengths, dtype=torch.int32),
        "query_start_loc": torch.tensor(starts, dtype=torch.int32),
        "scale": scale,
    }
    return Case(arguments, blocks, torch.cat(expected))


def dense_attention(q, k, v, scale):
    """The oracle. q: [c, num_heads, head_dim]; k, v: [n, num_kv_heads, head_dim]. Query j is at position n - c + j."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    num_keys, count = len(k), len(q)
    if num_keys == 0 or count == 0:
        return torch.zeros_like(q)
    visible = torch.tensor([[key <= num_keys - count + j for key in range(num_keys)] for j in range(count)])
    per_head = [x.transpose(0, 1).repeat_interleave(q.shape[1] // x.shape[1], dim=0) for x in (q, k, v)]
    return scaled_dot_product_attention(*per_head, attn_mask=visible, scale=scale).transpose(0, 1)


def check(attention, case):
    got = attention(**case.arguments)
    assert got.shape == case.expected.shape and got.dtype == case.expected.dtype
    if len(got):
        worst = (got - case.expected).abs().max().item()
        assert worst < EXACT, f"{worst} away from dense attention"  # NaN is not below anything


@pytest.mark.parametrize("seed", some_slow(range(120), range(40, 120)))
def test_random_batches_equal_dense_attention(attention, seed):
    rng = random.Random(seed)
    block_size = rng.choice([1, 2, 3, 4, 16])
    edges = [0, 1, block_size - 1, block_size, block_size + 1, 2 * block_size, 2 * block_size + 1]
    lengths = [rng.choice([*edges, rng.randint(1, 60), rng.randint(1, 60)]) for _ in range(rng.randint(1, 9))]
    num_queries = []
    for length in lengths:
        longest = length or 2  # no keys at all, but up to two queries: zeros
        num_queries.append(rng.choice([0, 1, 1, 1, min(2, longest), rng.randint(1, longest), longest]))
    heads = rng.choice([(4, 4), (8, 2), (5, 1), (6, 2), (16, 2), (1, 1)])
    check(attention, make_case(lengths, num_queries, heads, rng.choice([16, 32, 80]), block_size, seed))


def test_the_cases_have_nan_wherever_nobody_may_read(torch):
    case = make_case([1, 6, 0], [1, 3, 1], block_size=4)
    written = ~case.arguments["k_cache"].isnan().all(-1).all(-1)  # [num_blocks, block_size]
    assert written.sum() == 7
    assert torch.equal(written, ~case.arguments["v_cache"].isnan().any(-1).any(-1))
    assert (written.sum(1) == 0).sum() == 3


def test_g2_running_maximum_sum_and_output(torch):
    """Scores 0, ln 2, ln 3 and values 6, 3, 2: output 3, log-sum-exp ln 6; over the first two alone 4 and ln 3."""
    from minipaged.attention.reference import attention_steps

    for block_size, states in ((1, [(6, 1), (4, 3), (3, 6)]), (2, [(4, 3), (3, 6)]), (3, [(3, 6)])):
        cache = torch.full((5, block_size, 1, 1), float("nan"), dtype=torch.float64)
        k_cache, v_cache, table = cache.clone(), cache.clone(), [4, 0, 2]
        for position, (score, value) in enumerate([(0.0, 6.0), (math.log(2), 3.0), (math.log(3), 2.0)]):
            k_cache[table[position // block_size], position % block_size] = score
            v_cache[table[position // block_size], position % block_size] = value
        q = torch.ones(1, 1, dtype=torch.float64)
        steps = list(attention_steps(q, k_cache, v_cache, table, num_keys=3, scale=1.0))
        assert [step.logical_block for step in steps] == list(range(len(states)))
        assert [step.block_id for step in steps] == table[: len(states)]
        assert [position for step in steps for position in step.positions] == [0, 1, 2]
        for step, (output, total) in zip(steps, states):
            assert step.output.item() == pytest.approx(output, abs=EXACT)
            assert step.log_sum_exp.item() == pytest.approx(math.log(total), abs=EXACT)
            assert step.running_max.item() + math.log(step.running_sum.item()) == pytest.approx(math.log(total))
        assert steps[-1].log_sum_exp.item() == pytest.approx(1.7917594692, abs=1e-10)


def test_steps_are_what_the_reference_returns(torch):
    from minipaged.attention.reference import attention_steps, paged_attention

    case = make_case([11], [1], block_size=4)
    arguments = case.arguments
    q, k_cache, v_cache, scale = (arguments[name] for name in ("q", "k_cache", "v_cache", "scale"))
    steps = list(attention_steps(q[0], k_cache, v_cache, arguments["block_tables"][0], 11, scale))
    assert [(step.block_id, len(step.positions)) for step in steps] == list(zip(case.blocks[0], (4, 4, 3)))
    assert torch.equal(steps[-1].output, paged_attention(**arguments)[0])
    scores = torch.cat([step.scores for step in steps], dim=-1)  # [num_heads, 11]
    assert torch.allclose(steps[-1].log_sum_exp, scores.logsumexp(-1), rtol=0, atol=EXACT)
    assert torch.equal(steps[-1].running_max, scores.amax(-1))


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 16])
def test_g4_context_lengths_mixed_in_one_batch(attention, block_size):
    lengths = [0, 1, block_size - 1, block_size, block_size + 1, 2 * block_size, 200, 0, 65, 129]
    decodes = [1] * len(lengths)
    prompts = [min(length, 9) for length in lengths]
    for num_queries in (decodes, prompts, [*prompts[:5], *decodes[5:]]):
        check(attention, make_case(lengths, num_queries, block_size=block_size))


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 300])
def test_g4_context_lengths_alone(attention, length):
    for num_queries in {0, 1, 2 if length != 1 else 1, min(length, 40)}:
        check(attention, make_case([length], [num_queries]))


def test_g4_no_keys_is_zeros_and_never_nan(attention, torch):
    out = attention(**make_case([0, 0, 5], [1, 3, 2]).arguments)
    assert torch.equal(out[:4], torch.zeros_like(out[:4]))
    assert out[4:].abs().min() > 0


def test_g6_entries_past_the_context_are_never_looked_up(attention, torch):
    case = make_case([3, 8, 40, 0, 21], [1, 1, 1, 1, 4])
    tables, outputs = case.arguments["block_tables"], []
    unused = (tables < 0) | (tables >= len(case.arguments["k_cache"]))
    assert unused.any(1).all()
    for junk in (-1, 10**9, -(2**31), 2**31 - 1, 0):
        case.arguments["block_tables"] = tables.masked_fill(unused, junk)
        check(attention, case)
        outputs.append(attention(**case.arguments))
    assert all(torch.equal(out, outputs[0]) for out in outputs)


def test_an_entry_within_the_context_must_exist(attention):
    for junk in (-1, 10**9):
        for lengths in ([9], [9, 5]):
            case = make_case(lengths, [1] * len(lengths))
            case.arguments["block_tables"][0, 1] = junk
            with pytest.raises(ValueError, match=str(junk)):
                attention(**case.arguments)


@pytest.mark.parametrize("heads", [(4, 4), (8, 2), (5, 1), (6, 2), (16, 2), (1, 1)])
def test_g8_query_head_h_reads_its_kv_head(attention, torch, heads):
    case = make_case([9, 14, 2], [1, 5, 1], heads)
    check(attention, case)
    num_heads, num_kv_heads = heads
    written = ~case.arguments["v_cache"].isnan()
    numbers = torch.arange(num_kv_heads, dtype=torch.float64)[:, None].expand_as(case.arguments["v_cache"])
    case.arguments["v_cache"][written] = numbers[written]  # KV head h has the value h everywhere
    out = attention(**case.arguments)
    expected = torch.tensor([head // (num_heads // num_kv_heads) for head in range(num_heads)], dtype=torch.float64)
    assert torch.allclose(out, expected[:, None].expand_as(out), rtol=0, atol=EXACT)


@pytest.mark.parametrize("head_dim", [16, 32, 64, 80, 96, 128, 192, 256])
def test_g9_head_dims(attention, head_dim):
    check(attention, make_case([13, 1, 30, 4], [1, 1, 7, 4], heads=(6, 2), head_dim=head_dim))


@pytest.mark.parametrize("cached", [0, 1, 3, 4, 5, 17])
def test_g13_a_chunk_after_a_cached_prefix_is_causal(attention, torch, cached):
    """Query i of a chunk that starts at position p sees keys 0 .. p + i: keys behind it change nothing before it."""
    chunk = 6
    case = make_case([cached + chunk, 7], [chunk, 1])
    check(attention, case)
    before = attention(**case.arguments)
    for i in range(chunk):
        block, offset = case.blocks[0][(cached + i) // 4], (cached + i) % 4
        changed = {name: case.arguments[name].clone() for name in ("k_cache", "v_cache")}
        changed["k_cache"][block, offset] *= 50
        changed["v_cache"][block, offset] += 1000
        after = attention(**(case.arguments | changed))
        assert torch.equal(after[:i], before[:i]) and torch.equal(after[chunk:], before[chunk:])
        assert (after[i:chunk] != before[i:chunk]).any(-1).any(-1).all()


def test_a_chunk_equals_its_queries_one_at_a_time(attention, torch):
    case = make_case([23], [10])
    whole = attention(**case.arguments)
    for j in range(10):
        one = case.arguments | {
            "q": case.arguments["q"][j : j + 1],
            "seq_lens": torch.tensor([14 + j], dtype=torch.int32),
            "query_start_loc": torch.tensor([0, 1], dtype=torch.int32),
        }
        assert torch.allclose(attention(**one)[0], whole[j], rtol=0, atol=EXACT)


def test_where_the_blocks_lie_changes_no_bit(attention, torch):
    case = make_case([30, 5, 1, 17, 64, 12], [1, 1, 1, 6, 1, 12], block_size=3)
    before = attention(**case.arguments)
    for seed in range(3):
        num_blocks = len(case.arguments["k_cache"])
        new_place = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(seed))
        moved = dict(case.arguments)
        for name in ("k_cache", "v_cache"):
            moved[name] = torch.empty_like(moved[name])
            moved[name][new_place] = case.arguments[name]
        tables = case.arguments["block_tables"]
        used = (tables >= 0) & (tables < num_blocks)
        moved["block_tables"] = tables.clone()
        moved["block_tables"][used] = new_place[tables[used].long()].to(torch.int32)
        assert torch.equal(attention(**moved), before)


def test_sequences_may_share_blocks(attention, torch):
    case = make_case([10, 12, 9], [1, 1, 1])
    tables, lengths = case.arguments["block_tables"], [8, 12, 11]
    tables[0], tables[2, :2], tables[2, 2] = tables[1], tables[1, :2], tables[1, 2]
    case.arguments["seq_lens"] = torch.tensor(lengths, dtype=torch.int32)
    case.arguments["q"][:] = case.arguments["q"][1].clone()
    out = attention(**case.arguments)
    k, v = (case.arguments[name][case.blocks[1]].flatten(0, 1) for name in ("k_cache", "v_cache"))
    for i, length in enumerate(lengths):
        expected = dense_attention(case.arguments["q"][i : i + 1], k[:length], v[:length], case.arguments["scale"])
        assert torch.allclose(out[i], expected[0], rtol=0, atol=EXACT)


def test_nothing_is_written_to_the_arguments(attention, torch):
    case = make_case([3, 50, 7, 20], [1, 1, 1, 5])
    before = {name: value.clone() for name, value in case.arguments.items() if name != "scale"}
    attention(**case.arguments)
    for name, value in before.items():
        assert torch.equal(value.nan_to_num(7.0), case.arguments[name].nan_to_num(7.0)), name


def test_scores_of_any_size(attention):
    """exp(1000) overflows; relative to the running maximum nothing does."""
    for scale in (1000.0, -1000.0, 1e-6):
        case = make_case([21, 6], [1, 3])
        q, k_cache, v_cache = (case.arguments[name] for name in ("q", "k_cache", "v_cache"))
        case.arguments["scale"] = scale
        expected = []
        for i, (length, start, stop) in enumerate([(21, 0, 1), (6, 1, 4)]):
            k, v = (cache[case.blocks[i]].flatten(0, 1)[:length] for cache in (k_cache, v_cache))
            expected.append(dense_attention(q[start:stop], k, v, scale))
        got = attention(**case.arguments)
        assert max((a - b).abs().max().item() for a, b in zip(got.split([1, 3]), expected)) < 1e-9


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float16", 5e-3), ("bfloat16", 4e-2)])
def test_smaller_numbers(attention, torch, dtype, tolerance):
    case = make_case([30, 1, 12, 0, 45], [1, 1, 12, 1, 1], heads=(6, 2), head_dim=32)
    for name in ("q", "k_cache", "v_cache"):
        case.arguments[name] = case.arguments[name].to(getattr(torch, dtype))
    out = attention(**case.arguments)
    assert out.dtype == getattr(torch, dtype)
    assert (out.double() - case.expected).abs().max() < tolerance


def test_the_reference_sums_halves_in_float32(torch):
    from minipaged.attention.reference import paged_attention

    case = make_case([60, 12], [1, 4], head_dim=32)
    for dtype in (torch.float16, torch.bfloat16):
        small = {name: case.arguments[name].to(dtype) for name in ("q", "k_cache", "v_cache")}
        large = {name: tensor.float() for name, tensor in small.items()}
        out = paged_attention(**(case.arguments | small))
        assert torch.equal(out, paged_attention(**(case.arguments | large)).to(dtype))


def test_decodes_in_any_order_of_their_lengths(attention):
    for lengths in itertools.permutations([40, 35, 30, 25]):
        check(attention, make_case(lengths, [1, 1, 1, 1]))
        check(attention, make_case([*lengths, 80, 1], [1, 1, 0, 1, 2, 1]))


def test_chunks_alike_in_any_company(attention):
    """As many queries and keys as another, next to it or not; more of them than are gathered together."""
    check(attention, make_case([12, 12, 12], [5, 5, 5]))
    check(attention, make_case([12, 7, 12, 12, 9, 12], [5, 1, 5, 12, 0, 5]))
    check(attention, make_case([3000] * 7, [2] * 7, heads=(1, 1), head_dim=2, block_size=16))


@pytest.mark.parametrize("heads_per_kv_head", range(1, 9))
def test_many_decodes_for_any_number_of_heads(attention, heads_per_kv_head):
    lengths = [random.Random(heads_per_kv_head).randint(1, 9) for _ in range(20)]
    check(attention, make_case(lengths, [1] * 20, heads=(2 * heads_per_kv_head, 2), head_dim=4))


def test_a_batch_of_nothing(attention, torch):
    check(attention, make_case([5, 0], [0, 0]))
    case = make_case([5], [1])
    empty = {"q": case.arguments["q"][:0], "block_tables": case.arguments["block_tables"][:0]}
    empty |= {"seq_lens": torch.tensor([], dtype=torch.int32), "query_start_loc": torch.zeros(1, dtype=torch.int32)}
    assert attention(**(case.arguments | empty)).shape == (0, 4, 16)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("seq_lens", lambda x: x + 100, "109.*reach only over 20"),
        ("seq_lens", lambda x: x * 0 + 1, "1 keys has 2 queries"),
        ("seq_lens", lambda x: -x, "-9 keys"),
        ("seq_lens", lambda x: x[:1], "2 block tables, 1 seq_lens"),
        ("block_tables", lambda x: x[:, :1], "9.*reach only over 4"),
        ("query_start_loc", lambda x: x[:2], "2 query_start_loc"),
        ("query_start_loc", lambda x: x + 1, r"\[1, 3, 4\]"),
        ("query_start_loc", lambda x: x.flip(0), "must rise from 0"),
        ("query_start_loc", lambda x: x.clamp(min=1), r"\[1, 2, 3\]"),
        ("query_start_loc", lambda x: x + x.new_tensor([0, 2, 0]), r"\[0, 4, 3\]"),
        ("q", lambda x: x[:2], "number of queries, 2"),
        ("q", lambda x: x[:, :3], "3 query heads"),
        ("q", lambda x: x[:, :, :8], "heads of 8"),
        ("q", lambda x: x.float(), "float32.*float64"),
        ("v_cache", lambda x: x[:, :2], "same shape"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(attention, name, change, message):
    case = make_case([9, 6], [2, 1])
    case.arguments[name] = change(case.arguments[name])
    with pytest.raises(ValueError, match=message):
        attention(**case.arguments)


@pytest.mark.parametrize("backend", ["ReferenceAttention", "BatchedAttention"])
def test_one_plan_serves_every_layer(torch, backend):
    from minipaged.attention import batched, reference

    attention = {**vars(reference), **vars(batched)}[backend]()
    layers = [make_case([9, 30, 3, 70, 8], [1, 1, 1, 1, 8], seed=layer, place_seed=0) for layer in range(3)]
    run = attention.plan(*(layers[0].arguments[name] for name in ("block_tables", "seq_lens", "query_start_loc")))
    others = [make_case([400, 350], [1, 1]), make_case([20, 30], [1, 1], (5, 1), head_dim=32, block_size=3)]
    for case in layers:
        check(lambda **given: run(*(given[name] for name in ("q", "k_cache", "v_cache", "scale"))), case)
        for other in others:  # steps in between, one that needs more room and one of another model
            check(paged_attention_of(attention), other)


def test_the_workspace_stays_small(torch):
    from minipaged.attention.batched import BatchedAttention

    def rows(attention):
        return [len(tensor) for pair in attention._workspaces.values() for tensor in pair]

    attention = BatchedAttention(workspace_tokens=256)
    check(paged_attention_of(attention), make_case([100] * 20, [1] * 20))
    assert max(rows(attention)) * 4 <= 256
    check(paged_attention_of(attention), make_case([301], [1]))  # longer than that: alone
    assert max(rows(attention)) * 4 <= 2 * 304
    attention = BatchedAttention()
    check(
        paged_attention_of(attention), make_case([1000, *[10] * 30], [1] * 31)
    )  # a long one doesn't stretch the short ones
    assert max(rows(attention)) * 4 == 1000


def test_inference_mode_may_come_and_go(torch):
    from minipaged.attention.batched import BatchedAttention

    attention = paged_attention_of(BatchedAttention())
    case = make_case([9, 30], [1, 1])
    with torch.inference_mode():
        check(attention, case)
    check(attention, case)
    with torch.inference_mode():
        check(attention, case)
