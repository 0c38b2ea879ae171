"""KVCache: writing tokens into slots, and what is done to whole blocks."""

from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def make_cache(torch):
    """KVCache of 2 layers, 5 blocks of 4, 2 KV heads of 3, where every number is different."""
    from minipaged.attention.kv_cache import KVCache

    def make(**options):
        cache = KVCache(num_layers=2, num_blocks=5, block_size=4, num_kv_heads=2, head_dim=3, **options)
        for i, tensor in enumerate(cache.tensors):
            tensor.copy_(torch.arange(tensor.numel()).view(tensor.shape) + 1000 * i)
        return cache

    return make


def copies(cache):
    return [tensor.clone() for tensor in cache.tensors]


def new_tokens(torch, n):
    """k, v: [n, 2, 3], numbers that no cache above holds."""
    k = -torch.arange(1.0, n * 6 + 1).view(n, 2, 3)
    return k, k - 1000


def slots(torch, *numbers):
    return torch.tensor(numbers, dtype=torch.int32)


NAMES = ("copies", "handed_out", "released", "swap_out", "swap_in")  # what a Plan says of whole blocks


def plan(**lists):
    return SimpleNamespace(**{name: lists.get(name, []) for name in NAMES})


def test_shapes_and_sizes(torch):
    from minipaged.attention.kv_cache import KVCache

    cache = KVCache(3, 7, 16, 2, 32, cache_dtype="float16")
    assert len(cache.k) == len(cache.v) == 3 and len(cache.tensors) == 6
    assert {tensor.shape for tensor in cache.tensors} == {(7, 16, 2, 32)}
    assert {tensor.dtype for tensor in cache.tensors} == {torch.float16}
    assert len({tensor.data_ptr() for tensor in cache.tensors}) == 6
    assert {tensor.data_ptr() for tensor in cache.tensors} == {tensor.data_ptr() for tensor in cache.k + cache.v}
    assert cache.num_slots == 112
    assert cache.bytes_per_block == 2 * 3 * 16 * 2 * 32 * 2  # K and V, layers, slots, heads, channels, bytes


def test_wrong_sizes_are_refused(torch):
    from minipaged.attention.kv_cache import KVCache

    for wrong in range(5):
        sizes = [1] * 5
        sizes[wrong] = 0
        with pytest.raises(ValueError, match="=0"):
            KVCache(*sizes)
    with pytest.raises(
        ValueError, match=r"cache_dtype=torch\.int8: must be one of float32, float16, bfloat16, int8, fp8"
    ):
        KVCache(1, 1, 1, 1, 1, cache_dtype=torch.int8)


def test_write_changes_its_slots_in_its_layer_and_nothing_else(make_cache, torch):
    cache = make_cache()
    expected = copies(cache)
    k, v = new_tokens(torch, 3)
    for token, (block, offset) in enumerate([(4, 3), (0, 0), (2, 1)]):
        expected[1][block, offset], expected[3][block, offset] = k[token], v[token]  # tensors: k, k, v, v
    cache.write(1, k, v, slots(torch, 19, 0, 9))
    assert all(torch.equal(tensor, wanted) for tensor, wanted in zip(cache.tensors, expected))


def test_g1_positions_to_slots_and_padding(make_cache, torch):
    """Block size 4, table [7, 2]: positions 0 to 5 are slots 28, 29, 30, 31, 8, 9. Slot -1 writes nothing."""
    from minipaged.attention.kv_cache import KVCache
    from minipaged.memory.block_table import BlockTable

    table = BlockTable(4)
    table.append_blocks([7, 2])
    assert table.slots(0, 6) == [28, 29, 30, 31, 8, 9]
    cache = KVCache(1, 8, 4, 2, 3, poison=True)
    k, v = new_tokens(torch, 8)
    cache.write(0, k, v, slots(torch, -1, *table.slots(0, 6), -1))
    for tensor, written in ((cache.k[0], k), (cache.v[0], v)):
        assert torch.equal(tensor[7], written[1:5]) and torch.equal(tensor[2, :2], written[5:7])
        assert tensor.isnan().sum() == (32 - 6) * 6

    cache = make_cache()
    before = copies(cache)
    cache.write(0, *new_tokens(torch, 2), slots(torch, -1, -1))
    cache.write(0, *new_tokens(torch, 0), slots(torch))
    assert all(torch.equal(tensor, old) for tensor, old in zip(cache.tensors, before))


@pytest.mark.parametrize("wrong", [20, 21, 10**9, -2, -20])
def test_a_slot_that_does_not_exist_is_refused(make_cache, torch, wrong):
    cache = make_cache()
    before = copies(cache)
    with pytest.raises(ValueError, match=str(wrong)):
        cache.write(0, *new_tokens(torch, 3), slots(torch, 1, wrong, -1))
    assert all(torch.equal(tensor, old) for tensor, old in zip(cache.tensors, before))


def test_shapes_that_do_not_fit_are_refused(make_cache, torch):
    cache, (k, v) = make_cache(), new_tokens(torch, 3)
    for wrong_k, wrong_v in ((k[:2], v[:2]), (k, v[:2]), (k[:, :1], v), (k, v[..., :2]), (k[:1], v[:1])):
        with pytest.raises(ValueError, match=r"must be \(3, 2, 3\)"):
            cache.write(0, wrong_k, wrong_v, slots(torch, 1, 2, 3))


def test_what_is_written_may_be_a_view_and_carry_gradients(make_cache, torch):
    cache = make_cache()
    k, v = new_tokens(torch, 2)
    both = torch.cat([k, v], dim=1).requires_grad_()  # [2, 4, 3]
    cache.write(0, *(both * 1).split(2, dim=1), slots(torch, 4, 5))
    assert torch.equal(cache.k[0][1, :2], k) and torch.equal(cache.v[0][1, :2], v)
    assert not any(tensor.requires_grad for tensor in cache.tensors)


@pytest.mark.parametrize("pairs", [[(0, 1), (1, 2)], [(1, 2), (0, 1)], [(3, 4), (4, 3)], [(2, 0), (2, 1)], []])
def test_copies_read_every_source_before_they_write(make_cache, torch, pairs):
    cache = make_cache()
    before = copies(cache)
    cache.copy_blocks(pairs)
    for tensor, old in zip(cache.tensors, before):
        expected = old.clone()
        for source, destination in pairs:
            expected[destination] = old[source]
        assert torch.equal(tensor, expected)


def test_whole_block_moves_reach_every_tensor_of_the_list(make_cache, torch):
    """A codec will add scales to the list: they are copied and poisoned like all others."""
    cache = make_cache(poison=True)
    cache.tensors.append(torch.arange(40.0).view(5, 4, 2))
    cache.apply(plan(copies=[(0, 1)], released=[3]))
    for tensor in cache.tensors:
        assert torch.equal(tensor[0], tensor[1])
        assert tensor[3].isnan().all() and tensor.isnan().sum() == tensor[3].numel()


@pytest.mark.parametrize(
    "pairs, message", [([(0, 5)], "block 5"), ([(-1, 2)], "block -1"), ([(0, 2), (1, 2)], "only one")]
)
def test_wrong_copies_are_refused_and_nothing_is_copied(make_cache, torch, pairs, message):
    cache = make_cache()
    before = copies(cache)
    with pytest.raises(ValueError, match=message):
        cache.copy_blocks([(3, 4), *pairs])
    assert all(torch.equal(tensor, old) for tensor, old in zip(cache.tensors, before))


def test_apply_poisons_before_it_copies(make_cache, torch):
    """Block 2 was handed out to be a copy's destination; block 4 was given up; block 0 is the source."""
    cache = make_cache(poison=True)
    before = copies(cache)
    cache.apply(plan(copies=[(0, 2)], handed_out=[2, 1], released=[4]))
    for tensor, old in zip(cache.tensors, before):
        assert torch.equal(tensor[[0, 2, 3]], old[[0, 0, 3]])
        assert tensor[[1, 4]].isnan().all()


def test_a_fresh_poisoned_cache_is_nan_all_over(torch):
    from minipaged.attention.kv_cache import KVCache

    assert all(tensor.isnan().all() for tensor in KVCache(2, 5, 4, 2, 3, poison=True).tensors)
    assert not any(tensor.isnan().any() for tensor in KVCache(2, 5, 4, 2, 3).tensors)


def test_without_poison_apply_only_copies(make_cache, torch):
    cache = make_cache()
    before = copies(cache)
    cache.apply(plan(copies=[(0, 2)], handed_out=[2, 1], released=[4]))
    assert all(torch.equal(tensor, old[[0, 1, 0, 3, 4]]) for tensor, old in zip(cache.tensors, before))


def test_a_plan_of_the_scheduler_is_understood(make_cache):
    from minipaged.serving.plan import Plan

    cache = make_cache(poison=True)
    cache.apply(Plan())
    cache.apply(Plan(copies=[(1, 3)], handed_out=[3], released=[2]))
    assert [int(cache.k[0][block].isnan().any()) for block in range(5)] == [0, 0, 1, 0, 0]
