"""Triton's attention kernels against torch's own attention in float64, on the very numbers that the kernels get.

On a CPU they run in Triton's interpreter, which shows whether the numbers are right and nothing else.
"""

import random

import pytest
from harness import some_slow

from minipaged.attention.triton import geometry

HEADS = [(4, 4), (8, 2), (5, 1), (6, 2), (16, 2), (1, 1)]
TILE = 16  # small, so that short sequences have several; the sizes that are really used have tests of their own


@pytest.fixture(scope="module", autouse=True)
def kernels():
    """Skips everything here where kernels can't run, and says why."""
    pytest.importorskip("torch")
    from minipaged.attention.triton import loader

    try:
        loader.load()
    except ValueError as error:
        pytest.skip(str(error))


def decode(case, **options):
    from minipaged.attention.triton.decode import decode

    return decode(**case.decode_arguments(), **options)


def check(case, **options):
    """A decode with these options."""
    out, lse = decode(case, **options)
    case.check(out)
    case.check_lse(lse)


def check_prefill(case, **options):
    from minipaged.attention.triton.prefill import prefill

    case.check(prefill(**case.arguments, **options))


def make_case(*arguments, **options):
    from kernel_cases import kernel_case

    return kernel_case(*arguments, **options)


def edges(block_size):
    """Lengths around every edge of a block and of a tile."""
    return [0, 1, block_size - 1, block_size, block_size + 1, 2 * block_size, TILE - 1, TILE, TILE + 1, 2 * TILE, 3, 50]


def test_the_cases_have_no_number_wherever_nobody_may_read():
    case = make_case([1, 6, 0], [1, 3, 1])
    for pool in case.pools:
        written = pool.isfinite().all(-1).all(-1)  # [num_blocks + 2, block_size]
        assert written.sum() == 7
        assert torch_isnan_and_inf(pool)
        assert not written[0].any() and not written[-1].any()
    assert case.arguments["k_cache"].stride() != make_case([1]).arguments["q"].new_empty(6, 4, 2, 16).stride()


def torch_isnan_and_inf(pool):
    return bool(pool.isnan().any()) and bool(pool.isinf().any())


@pytest.mark.parametrize("block_size", some_slow([1, 2, 4, 16, 32], [1, 2, 16, 32]))
@pytest.mark.parametrize("num_splits", some_slow([1, 3], [3]))
def test_decode_lengths_around_every_edge(block_size, num_splits):
    check(make_case(edges(block_size), block_size=block_size), tile_size=TILE, num_splits=num_splits)


@pytest.mark.parametrize("block_size", some_slow([1, 2, 4, 16, 32], [1, 2, 16, 32]))
def test_prefill_lengths_around_every_edge(block_size):
    lengths = edges(block_size)
    prompts = [min(length, 9) or 2 for length in lengths]
    check_prefill(make_case(lengths, prompts, block_size=block_size), tile_size=TILE)
    mixed = [*prompts[:6], *[1] * 6]
    check_prefill(make_case(lengths, mixed, block_size=block_size), tile_size=TILE)


@pytest.mark.parametrize("heads", some_slow(HEADS, [(4, 4), (8, 2), (6, 2), (16, 2), (1, 1)]))
def test_heads(heads):
    check(make_case([9, 40, 2], heads=heads), tile_size=TILE, num_splits=2)
    check_prefill(make_case([9, 40, 2], [1, 30, 1], heads=heads), tile_size=TILE)


@pytest.mark.parametrize("head_dim", some_slow([1, 8, 16, 32, 64, 80, 96, 128], [1, 8, 16, 32, 64, 96, 128]))
def test_head_dims(head_dim):
    check(make_case([33, 1, 70], heads=(6, 2), head_dim=head_dim), num_splits=2)
    check_prefill(make_case([33, 1, 70], [20, 1, 2], heads=(6, 2), head_dim=head_dim))


@pytest.mark.parametrize("dtype", some_slow(["float32", "float16", "bfloat16"], ["float32", "float16", "bfloat16"]))
def test_the_sizes_that_are_really_used(dtype):
    check(make_case([130, 65, 64, 63, 1], head_dim=32, block_size=16, dtype=dtype), num_splits=2)
    check_prefill(make_case([70, 65, 33, 32, 31], [66, 1, 33, 5, 31], head_dim=32, block_size=16, dtype=dtype))


@pytest.mark.parametrize("seed", some_slow(range(40), range(1, 40)))
def test_random_mixes(seed):
    rng = random.Random(seed)
    block_size = rng.choice([1, 2, 3, 4, 16, 32])
    lengths = [rng.choice([*edges(block_size), rng.randint(1, 150)]) for _ in range(rng.randint(1, 6))]
    options = {"heads": rng.choice(HEADS), "head_dim": rng.choice([16, 32, 80, 96]), "block_size": block_size}
    options |= {"dtype": rng.choice(["float32", "float16", "bfloat16"]), "seed": seed, "place_seed": seed}
    tile_size = rng.choice([None, 16, 32, 64])
    check(make_case(lengths, **options), tile_size=tile_size, num_splits=rng.choice([1, 1, 2, 5, 8]))
    num_queries = [rng.choice([0, 1, 1, length or 2, rng.randint(1, length or 2)]) for length in lengths]
    check_prefill(make_case(lengths, num_queries, **options), tile_size=tile_size)


@pytest.mark.parametrize("num_splits", some_slow([2, 7, 64], [2, 7, 64]))
def test_more_splits_than_tiles(num_splits):
    lengths = [0, 1, TILE, num_splits - 1, TILE * (num_splits - 1) % 300, 90]
    case = make_case(lengths)
    check(case, tile_size=TILE, num_splits=num_splits)


def test_splits_that_are_empty_are_harmless_whatever_lies_in_them(kernels):
    """Memory that was NaN before is taken for the parts of an empty split: nobody may read it."""
    import torch

    from minipaged.attention.triton import decode as module

    parts = torch.full((4, 1, 2, 16), float("nan"), device=make_case([1]).expected.device)
    lse = torch.full((4, 1, 2), float("-inf"), device=parts.device)
    parts[2], lse[2] = 3.0, 1.5
    out, total = torch.empty_like(parts[0]), torch.empty_like(lse[0])
    for expected, part_lse in ((3.0, lse), (0.0, torch.full_like(lse, float("-inf")))):
        strides = *parts.stride()[:3], *part_lse.stride()[:2], *out.stride()[:2]
        module.merge_kernel[1, 2](parts, part_lse, out, total, *strides, **geometry.merge_constants(4, 16))
        assert (out == expected).all()
        assert (total == part_lse.amax(0)).all()


@pytest.mark.slow
def test_a_long_sequence():
    check(make_case([2000, 5], heads=(2, 1), block_size=16), num_splits=6)
    check_prefill(make_case([900, 5], [3, 1], heads=(2, 1), block_size=16))


@pytest.mark.slow
def test_where_the_blocks_lie_changes_no_bit():
    import torch

    lengths, num_queries = [30, 5, 1, 17], [1, 1, 1, 17]
    decoded, prefilled = [], []
    for place_seed in range(2):
        case = make_case(lengths, block_size=3, place_seed=place_seed)
        decoded.append(decode(case, tile_size=TILE, num_splits=2)[0])
        mixed = make_case(lengths, num_queries, block_size=3, place_seed=place_seed)
        prefilled.append(prefill_of(mixed))
    for out in (decoded, prefilled):
        assert all(torch.equal(other, out[0]) for other in out[1:])


def prefill_of(case):
    from minipaged.attention.triton.prefill import prefill

    return prefill(**case.arguments, tile_size=TILE)


@pytest.mark.slow
def test_entries_past_the_context_are_never_looked_up():
    import torch

    case = make_case([3, 8, 40, 0, 21], [1, 1, 1, 1, 4])
    tables = case.arguments["block_tables"]
    unused = (tables < 0) | (tables >= len(case.arguments["k_cache"]))
    for junk in (-(2**31), 2**31 - 1):
        case.arguments["block_tables"] = tables.masked_fill(unused, junk)
        check_prefill(case, tile_size=TILE)
    decodes = make_case([3, 8, 40, 0, 21])
    for junk in (-(2**31), 2**31 - 1):
        tables = decodes.arguments["block_tables"]
        decodes.arguments["block_tables"] = torch.where(tables == 10**9, junk, tables)
        check(decodes, num_splits=2)


@pytest.mark.parametrize("cached", some_slow([0, 1, 4, 17, 32], [0, 1, 4, 17, 32]))
def test_a_chunk_after_a_cached_prefix_is_causal(cached):
    """Keys behind query i change nothing before it."""
    import torch

    chunk, block_size = 6, 4
    case = make_case([cached + chunk, 7], [chunk, 1])
    check_prefill(case, tile_size=TILE)
    before = prefill_of(case)
    for i in range(chunk):
        changed = make_case([cached + chunk, 7], [chunk, 1])
        position = cached + i
        block = int(changed.arguments["block_tables"][0, position // block_size])
        changed.arguments["k_cache"][block, position % block_size] *= 50
        changed.arguments["v_cache"][block, position % block_size] += 1000
        after = prefill_of(changed)
        assert torch.equal(after[:i], before[:i]) and torch.equal(after[chunk:], before[chunk:])
        assert (after[i:chunk] != before[i:chunk]).any(-1).any(-1).all()


@pytest.mark.slow
def test_scores_of_any_size():
    """exp(1000) overflows; relative to the running maximum nothing does."""
    for scale in (30.0, -30.0):
        case = make_case([70, 6], scale=scale)
        largest = max(1.0, abs(scale))  # float32's own error in a score grows with it
        for out in (decode(case, tile_size=TILE, num_splits=2)[0], prefill_of(case)):
            assert (out.double() - case.expected).abs().max() < 1e-5 * largest


@pytest.mark.slow
def test_nothing_is_written_to_the_arguments():
    case = make_case([3, 50, 7, 20], [1, 1, 1, 5])
    before = [pool.clone() for pool in case.pools]
    check_prefill(case, tile_size=TILE)
    check(make_case([3, 50, 7, 20]), num_splits=2)
    for pool, copy in zip(case.pools, before):
        assert ((pool == copy) | (pool.isnan() & copy.isnan())).all()


def test_the_backend_takes_decode_or_prefill():
    from minipaged.attention.triton.backend import paged_attention

    for num_queries in ([1, 1, 1], [1, 5, 1], [1, 0, 2], [0, 1, 2]):
        case = make_case([9, 30, 2], num_queries)
        case.check(paged_attention(**case.arguments))


def test_a_batch_of_nothing():
    case = make_case([5, 0], [0, 0])
    check_prefill(case)
    case.arguments |= {"block_tables": case.arguments["block_tables"][:0], "seq_lens": case.arguments["seq_lens"][:0]}
    assert decode(case)[0].shape == (0, 4, 16)


def test_block_ids_are_widened_before_they_meet_a_stride():
    """A block of 16 x 8 x 128 numbers: from block 131,072 on, int32 would wrap around."""
    import torch
    from kernel_probe import offsets_kernel

    table = torch.tensor([131_072, 10**9], dtype=torch.int32, device=make_case([1]).expected.device)
    out = torch.empty(16, dtype=torch.int64, device=table.device)
    offsets_kernel[1,](table, out, 16, 16 * 8 * 128, 8 * 128, BLOCK_SIZE=8, TILE=16)
    expected = [block * 16_384 + slot * 1024 for block in (131_072, 10**9) for slot in range(8)]
    assert out.tolist() == expected
    offsets_kernel[1,](table, out, 8, 16 * 8 * 128, 8 * 128, BLOCK_SIZE=8, TILE=16)  # the second entry isn't looked up
    assert out.tolist() == [*expected[:8], *(slot * 1024 for slot in range(8))]


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("seq_lens", lambda x: x + 100, "109.*reach only over"),
        ("seq_lens", lambda x: -x, "-9 keys"),
        ("seq_lens", lambda x: x.long(), "seq_lens is torch.int64: must be torch.int32"),
        ("block_tables", lambda x: x.long(), "block_tables is torch.int64"),
        ("block_tables", lambda x: x[:, :1], "9.*reach only over 4"),
        ("block_tables", lambda x: x * 0 - 1, "blocks -1 to -1: ids in this cache run from 0 to 7"),
        ("block_tables", lambda x: x.t().contiguous().t(), "block_tables has strides"),
        ("q", lambda x: x.double(), "float64"),
        ("q", lambda x: x.half(), "float16.*float32"),
        ("q", lambda x: x[:, :3], "3 query heads"),
        ("q", lambda x: x.transpose(1, 2).contiguous().transpose(1, 2), r"q has strides .*head_dim, must be 1"),
        ("k_cache", lambda x: x.transpose(2, 3).contiguous().transpose(2, 3), "k_cache has strides"),
        ("v_cache", lambda x: x[:, :2], "same shape"),
        ("q", lambda x: x.to("meta"), "q is on meta"),
        ("k_scale", lambda x: 1.0, "k_scale and v_scale"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name, change, message):
    from minipaged.attention.triton.backend import paged_attention

    for lengths, num_queries in (([9, 6], [1, 1]), ([9, 6], [2, 1])):
        case = make_case(lengths, num_queries)
        case.arguments[name] = change(case.arguments.get(name))
        with pytest.raises(ValueError, match=message) as raised:
            paged_attention(**case.arguments)
        assert "\n" not in str(raised.value)


def test_all_of_one_type_that_no_kernel_reads():
    case = make_case([5])
    for name in ("q", "k_cache", "v_cache"):
        case.arguments[name] = case.arguments[name].double()
    with pytest.raises(ValueError, match=r"q is torch.float64.*must all be one of torch.float32, torch.float16"):
        decode(case)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_splits": 0}, "num_splits=0: must be from 1 to 64"),
        ({"num_splits": 65}, "num_splits=65"),
        ({"tile_size": 8}, "tile_size=8: must be a power of two, 16 or more"),
        ({"tile_size": 48}, "tile_size=48"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        decode(make_case([5]), **options)


def test_a_head_too_large_is_refused():
    with pytest.raises(ValueError, match="head_dim=192: the kernels take at most 128"):
        decode(make_case([5], head_dim=192))


def test_every_masked_load_says_what_the_rest_is():
    """Without `other` it is 0 in the interpreter, and anything on a GPU."""
    import ast
    from pathlib import Path

    import minipaged.attention.triton as kernels

    num_masked = 0
    for file in sorted(Path(kernels.__file__).parent.glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "tl.load":
                names = {keyword.arg for keyword in call.keywords}
                assert ("mask" in names) == ("other" in names), f"{file.name}, line {call.lineno}"
                num_masked += "mask" in names
    assert num_masked > 8


@pytest.mark.parametrize("num_splits", [1, 3])
def test_nan_in_a_key_stays_nan(num_splits):
    """In the output and in its log-sum-exp: nothing that is wrong may look like a number."""
    from kernel_cases import kernel_case

    from minipaged.attention.triton.decode import decode

    case = kernel_case([70, 9], heads=(2, 1))
    arguments = case.decode_arguments()
    block = arguments["block_tables"][0, 5]
    arguments["k_cache"][block, 2] = float("nan")
    out, lse = decode(**arguments, num_splits=num_splits, tile_size=16)
    assert out[0].isnan().all() and lse[0].isnan().all() and out[1].isfinite().all() and lse[1].isfinite().all()


def test_offsets_within_a_block_are_as_wide_as_block_ids():
    """Heads or slots that lie 2**30 numbers apart: three of them are past 2**31."""
    import mmap

    import torch

    from minipaged.attention import reference
    from minipaged.attention.triton.backend import paged_attention
    from minipaged.attention.triton.copy import copy_blocks
    from minipaged.attention.triton.write import write

    if torch.cuda.is_available():
        pytest.skip("16 GB of addresses are had without memory behind them on a CPU only")
    try:
        # MAP_NORESERVE (Linux): addresses, and no memory but for what is touched.
        room = mmap.mmap(-1, 2**34, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
    except (OSError, ValueError, AttributeError):
        pytest.skip("there is no room for 16 GB of addresses")
    numbers, middle = torch.frombuffer(room, dtype=torch.int8), 2**33
    torch.manual_seed(0)
    ints = lambda *rows: torch.tensor(rows, dtype=torch.int32)  # noqa: E731
    for strides in ((64, 16, 2**30), (48, 2**30, 16)):
        cache = numbers.as_strided((6, 4, 3, 16), (*strides, 1), middle)
        cache.copy_((torch.randn(6, 4, 3, 16) * 20).to(torch.int8))
        scales = torch.rand(6, 4, 3)
        for starts in ((0, 1, 2), (0, 3, 4)):
            q = torch.randn(starts[-1], 3, 16)
            others = ints([0, 1, 2], [3, 4, 5]), ints(*[9, 5]), ints(*starts), 0.02, scales, scales
            assert (
                paged_attention(q, cache, cache, *others) - reference.paged_attention(q, cache, cache, *others)
            ).abs().max() < 1e-4
        new = torch.randint(-9, 9, (2, 3, 16)).to(torch.int8)
        write(new, new, cache, cache, ints(*[3, 23]))
        assert torch.equal(cache[0, 3], new[0]) and torch.equal(cache[5, 3], new[1])
        copy_blocks(cache, cache, [(0, 1)])
        assert torch.equal(cache[0], cache[1])
