"""Triton's kernels that write K and V into slots and that copy blocks: every bit, and no other."""

import random

import pytest


@pytest.fixture(scope="module", autouse=True)
def torch():
    """Skips everything here where kernels can't run, and says why."""
    torch = pytest.importorskip("torch")
    from minipaged.attention.triton import loader

    try:
        loader.load()
    except ValueError as error:
        pytest.skip(str(error))
    return torch


def random_pool(torch, num_blocks, block_size=4, num_kv_heads=3, head_dim=5, dtype="float32", seed=0):
    """K or V between two guard blocks, with room between the heads: (the pool, all of it)."""
    from kernel_cases import DEVICE

    generator = torch.Generator().manual_seed(seed)
    whole = torch.randn(num_blocks + 2, block_size, num_kv_heads, head_dim + 2, generator=generator)
    whole = whole.to(DEVICE, getattr(torch, dtype))
    return whole[1:-1, ..., :head_dim], whole


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("block_size", [1, 4])
def test_each_token_goes_into_its_slot_and_nothing_else_changes(torch, dtype, block_size):
    from minipaged.attention.triton.write import write

    sizes = {"block_size": block_size, "dtype": dtype}
    (k_cache, k_whole), (v_cache, v_whole) = (random_pool(torch, 6, **sizes, seed=seed) for seed in (1, 2))
    num_slots = 6 * block_size
    slots = random.Random(0).sample(range(num_slots), 5) + [-1, -1]
    k, v = (random_pool(torch, 1, 7, dtype=dtype, seed=seed)[0][0] for seed in (3, 4))  # [7, 3, 5], not contiguous
    before = k_whole.clone(), v_whole.clone()
    write(k, v, k_cache, v_cache, torch.tensor(slots, dtype=torch.int32, device=k.device))
    for new, cache, whole, old in ((k, k_cache, k_whole, before[0]), (v, v_cache, v_whole, before[1])):
        for token, slot in enumerate(slots[:5]):
            assert torch.equal(cache[slot // block_size, slot % block_size], new[token])
            old[1 + slot // block_size, slot % block_size, :, :5] = new[token]
        assert torch.equal(whole, old)


def test_nothing_to_write(torch):
    from minipaged.attention.triton.write import write

    k_cache, whole = random_pool(torch, 2)
    before = whole.clone()
    none = whole.new_empty(0, 3, 5)
    write(none, none, k_cache, k_cache, torch.tensor([], dtype=torch.int32, device=whole.device))
    assert torch.equal(whole, before)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("slot_mapping", lambda x: x + 8, "slots from 8 to 10: must lie between -1 and 7"),
        ("slot_mapping", lambda x: x - 2, "slots from -2 to 0"),
        ("slot_mapping", lambda x: x.long(), "slot_mapping is torch.int64: must be torch.int32"),
        ("slot_mapping", lambda x: x[:2], r"k \(3, 3, 5\) and v \(3, 3, 5\): both must be \(2, 3, 5\)"),
        ("k", lambda x: x[:, :2], r"k \(3, 2, 5\)"),
        ("v", lambda x: x.half(), "v is torch.float16"),
        ("v", lambda x: x.transpose(1, 2).contiguous().transpose(1, 2), "v has strides"),
        ("v_cache", lambda x: x[:1], "must have the same shape"),
        ("k", lambda x: x.to("meta"), "k is on meta"),
    ],
)
def test_what_write_refuses(torch, name, change, message):
    from minipaged.attention.triton.write import write

    cache, whole = random_pool(torch, 2)
    new = random_pool(torch, 1, 3)[0][0]
    slots = torch.arange(3, dtype=torch.int32, device=whole.device)
    arguments = {"k": new, "v": new, "k_cache": cache, "v_cache": cache, "slot_mapping": slots}
    before = whole.clone()
    with pytest.raises(ValueError, match=message):
        write(**(arguments | {name: change(arguments[name])}))
    assert torch.equal(whole, before)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_blocks_are_copied_from_one_pool_into_another(torch, dtype):
    from minipaged.attention.triton.copy import copy_blocks

    source, _ = random_pool(torch, 5, dtype=dtype, seed=1)
    destination, whole = random_pool(torch, 3, dtype=dtype, seed=2)
    expected = whole.clone()
    expected[1:-1, ..., :5][2], expected[1:-1, ..., :5][0] = source[4], source[4]
    copy_blocks(source, destination, [(4, 2), (4, 0)])
    assert torch.equal(whole, expected)
    copy_blocks(source, destination, [])
    assert torch.equal(whole, expected)


@pytest.mark.parametrize("pairs", [[(0, 3)], [(0, 1), (1, 2)], [(0, 1), (1, 0)], [(2, 3), (0, 2), (3, 0), (1, 1)]])
def test_within_a_pool_all_sources_are_read_first(torch, pairs):
    from minipaged.attention.triton.copy import copy_blocks

    pool, whole = random_pool(torch, 4)
    expected = whole.clone()
    for source, destination in pairs:
        expected[1 + destination, ..., :5] = whole[1 + source, ..., :5]
    copy_blocks(pool, pool, pairs)
    assert torch.equal(whole, expected)


@pytest.mark.parametrize(
    "pairs, change, message",
    [
        ([(4, 0)], lambda x: x, "block 4 is not in this cache: ids run from 0 to 3"),
        ([(0, -1)], lambda x: x, "block -1 is not"),
        ([(0, 2), (1, 2)], lambda x: x, "can be the destination of only one"),
        ([(0, 2)], lambda x: x[:, :2], r"copies from \(4, 4, 3, 5\) torch.float32 to \(4, 2, 3, 5\)"),
        ([(0, 2)], lambda x: x.half(), "to .* torch.float16: their blocks must have the same"),
        ([(0, 2)], lambda x: x.to("meta"), "destination is on meta"),
    ],
)
def test_what_copy_refuses(torch, pairs, change, message):
    from minipaged.attention.triton.copy import copy_blocks

    pool, whole = random_pool(torch, 4)
    before = whole.clone()
    with pytest.raises(ValueError, match=message):
        copy_blocks(pool, change(pool), pairs)
    assert torch.equal(whole, before)


def test_the_cache_of_the_engine_is_the_same_as_the_plain_one(torch):
    """Poison, copies and writes in turn, on both."""
    from kernel_cases import DEVICE

    from minipaged.attention.kv_cache import KVCache
    from minipaged.attention.triton.backend import TritonKVCache

    caches = [kind(2, 5, 4, 2, 8, device=DEVICE, poison=True) for kind in (KVCache, TritonKVCache)]
    generator = torch.Generator().manual_seed(0)
    k, v = (torch.randn(6, 2, 8, generator=generator).to(DEVICE) for _ in range(2))
    for cache in caches:
        for layer in range(2):
            cache.write(layer, k + layer, v - layer, torch.tensor([0, 1, 2, 3, -1, 9], dtype=torch.int32))
        cache.copy_blocks([(0, 4), (4, 2)])
        cache.poison_blocks([1])
    for one, other in zip(caches[0].tensors, caches[1].tensors):
        assert torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0)) and other.isnan().any()
    for cache in caches:
        with pytest.raises(ValueError, match="slots from 20 to 20: must lie between -1 and 19"):
            cache.write(0, k[:1], v[:1], torch.tensor([20], dtype=torch.int32))
        with pytest.raises(ValueError, match="block 5 is not in this cache"):
            cache.copy_blocks([(5, 0)])
