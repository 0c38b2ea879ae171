"""The walk through the decode kernel: what it reads is what the table says, what it sums is attention."""

import itertools
import math
import random
import sys

import pytest
from harness import some_slow

from minipaged.attention.triton import geometry
from visualize.walk_sizes import Sizes

TABLE = [5, 0, 7, 2, 9, 1, 3]
CASES = [
    {},
    {"num_splits": 2},
    {"num_splits": 3, "seq_len": 20},  # two tiles for three
    {"block_size": 16, "seq_len": 33, "num_splits": 2},
    {"block_size": 1, "seq_len": 31, "heads": (3, 1)},
    {"block_size": 3, "seq_len": 49, "heads": (6, 3), "num_splits": 3},
    {"block_size": 64, "seq_len": 70, "tile_size": 32, "heads": (2, 2)},
    {"seq_len": 0, "num_splits": 2},
    {"seq_len": 0},
    {"seq_len": 1, "num_splits": 64, "heads": (1, 1)},
]


def random_sizes(seed):
    """Sizes around every edge of a block and of a tile, and a table of one's own."""
    draw = random.Random(seed)
    block_size, tile_size = draw.choice([1, 2, 3, 4, 16]), draw.choice([16, 32])
    edge = draw.choice([block_size, tile_size, 2 * tile_size, 3 * tile_size])
    seq_len = max(0, edge + draw.choice([-1, 0, 1]))
    num_kv_heads = draw.choice([1, 2])
    table = draw.sample(range(200), math.ceil(seq_len / block_size)) + [-1] * draw.choice([0, 2])
    heads = (num_kv_heads * draw.choice([1, 2, 3]), num_kv_heads)
    return Sizes(block_size, seq_len, tile_size, draw.choice([1, 2, 3, 7]), heads, table, seed)


def walked(sizes):
    pytest.importorskip("torch")
    from visualize.walk_moments import moments

    return list(moments(sizes))


def dense(sizes):
    """torch's own attention, [num_heads, head_dim] float64, over the keys in the order of the text."""
    import torch

    from visualize.walk_moments import numbers_of

    q, k_cache, v_cache = numbers_of(sizes)
    slots = [sizes.slot(position) for position in range(sizes.seq_len)]
    k, v = (cache.flatten(0, 1)[slots].transpose(0, 1) for cache in (k_cache, v_cache))  # [num_kv_heads, seq_len, dim]
    k, v = (x.repeat_interleave(sizes.group, dim=0) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q[:, None], k, v)[:, 0]


ALL_SIZES = [Sizes(**case) for case in CASES] + [random_sizes(seed) for seed in range(60)]


@pytest.mark.parametrize(
    "sizes", some_slow(ALL_SIZES, ALL_SIZES[20:]), ids=lambda sizes: f"{sizes.seq_len} in {sizes.block_size}s"
)
def test_every_key_is_read_once_and_the_sum_is_attention(sizes):
    import torch

    moments = walked(sizes)
    tiles = {}
    for moment in moments:
        if moment.kind == "tile":
            tiles.setdefault(moment.program, []).append(moment.tile)
    for kv_head in range(sizes.num_kv_heads):
        read = [
            position
            for (head, _), own in tiles.items()
            if head == kv_head
            for tile in own
            for position in tile.positions
        ]
        assert read == list(range(sizes.seq_len))
    for tile in itertools.chain(*tiles.values()):
        assert tile.positions.start == tile.number * sizes.tile_size
        assert [*tile.positions, *tile.masked] == list(
            range(tile.positions.start, tile.positions.start + sizes.tile_size)
        )
        assert not tile.masked or tile.masked.start == sizes.seq_len
        blocks = [position // sizes.block_size for position in tile.positions]
        assert tile.entries == tuple((block, sizes.table[block]) for block in sorted(set(blocks)))
        places = [(sizes.table[block], position % sizes.block_size) for block, position in zip(blocks, tile.positions)]
        assert tile.slots == tuple(block * sizes.block_size + offset for block, offset in places)
    outputs = torch.tensor([state.output for state in moments[-1].outputs], dtype=torch.float64)
    expected = dense(sizes) if sizes.seq_len else torch.zeros_like(outputs)
    assert outputs.shape == expected.shape and (outputs - expected).abs().max() <= 1e-12


def test_the_kinds_of_moments_and_their_order():
    moments = walked(Sizes(num_splits=3, seq_len=20))
    assert [moment.step for moment in moments] == list(range(len(moments)))
    each_head = ["tile", "tile", "empty"]
    assert [moment.kind for moment in moments] == ["start", *each_head * 2, *["merge"] * 4, "end"]
    programs = [moment.program for moment in moments[1:7]]
    assert programs == Sizes(num_splits=3).programs
    assert [len(moment.written) for moment in moments[:8]] == [0, 1, 2, 3, 4, 5, 6, 6]
    assert [len(moment.merged) for moment in moments[6:]] == [0, 1, 2, 3, 4, 4]
    assert [moment.kind for moment in walked(Sizes())] == ["start", *["tile"] * 6, "end"]


def test_what_is_summed_after_each_tile():
    """Against the softmax over all keys so far, computed anew for each tile."""
    import torch

    from visualize.walk_moments import numbers_of

    sizes = Sizes()
    moments, (q, k_cache, v_cache) = walked(sizes), numbers_of(sizes)
    rises = 0
    for moment in moments[1:-1]:
        (kv_head, _), stop = moment.program, moment.tile.positions.stop
        slots = [sizes.slot(position) for position in range(stop)]
        keys, values = (cache.flatten(0, 1)[slots, kv_head] for cache in (k_cache, v_cache))
        for head, old, new, weights in zip(sizes.heads_of(kv_head), moment.before, moment.after, moment.tile.weights):
            scores = keys @ q[head] / 2  # the root of head_dim
            assert new.running_max == pytest.approx(float(scores.max()), abs=1e-12)
            assert new.log_sum_exp == pytest.approx(float(scores.logsumexp(0)), abs=1e-12)
            assert torch.allclose(
                torch.tensor(new.output, dtype=torch.float64), scores.softmax(0) @ values, rtol=0, atol=1e-12
            )
            # The rule of the online softmax, on the numbers that are shown.
            correction = math.exp(old.running_max - new.running_max)
            assert new.running_sum == pytest.approx(old.running_sum * correction + sum(weights), abs=1e-12)
            rises += 0 < correction < 1
        assert moment.tile.positions.start == 0 or moment.before == moments[moment.step - 1].after
    assert 0 < rises < 8  # there is something to see: a maximum that rises, and one that stays


@pytest.mark.parametrize("num_splits", [2, 3, 4, 64])
def test_merged_parts_are_what_one_program_has(num_splits):
    whole, parts = walked(Sizes())[-1], walked(Sizes(num_splits=num_splits))[-1]
    for one, other, merge in zip(whole.outputs, parts.outputs, parts.merged):
        assert other.output == pytest.approx(one.output, abs=1e-12)
        assert other.log_sum_exp == pytest.approx(one.log_sum_exp, abs=1e-12)
        assert sum(merge.shares) == pytest.approx(1, abs=1e-12) and len(merge.shares) == num_splits
        assert [share > 0 for share in merge.shares] == [part.running_sum > 0 for part in merge.parts]


@pytest.mark.parametrize(
    "sizes", some_slow(ALL_SIZES, ALL_SIZES[3:]), ids=lambda sizes: f"{sizes.seq_len} in {sizes.block_size}s"
)
def test_the_kernel_gives_the_same(sizes):
    import torch

    from visualize.walk_kernel import compare
    from visualize.walk_moments import numbers_of

    pytest.importorskip("triton")
    end = walked(sizes)[-1]
    kernel = compare(numbers_of(sizes), sizes, end.outputs)
    given = torch.tensor(kernel.output, dtype=torch.float64)
    assert not kernel.missing and given.shape == (sizes.num_heads, 4)
    difference = (given - torch.tensor([state.output for state in end.outputs], dtype=torch.float64)).abs().max()
    assert kernel.difference == float(difference) <= 1e-5


def test_a_kernel_that_gives_something_else_is_found_out():
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from visualize import walk_kernel
    from visualize.walk_moments import moments

    def compare(numbers, sizes, outputs):
        q, k_cache, v_cache = numbers
        return walk_kernel.compare((q, k_cache, v_cache + 0.01), sizes, outputs)

    *_, end = moments(Sizes(), compare)
    assert end.kernel.difference == pytest.approx(0.01, abs=1e-5)
    assert "gives something else: the largest difference is 1.0e-02" in end.to_json()


def test_without_triton_everything_else_is_there(monkeypatch):
    pytest.importorskip("torch")
    from visualize.walk_kernel import compare
    from visualize.walk_moments import moments

    for name in [name for name in sys.modules if name.startswith("minipaged.attention.triton.decode")]:
        monkeypatch.delitem(sys.modules, name)
    from minipaged.attention.triton import loader

    def refuse():
        raise ValueError("Triton's kernels need triton, and it can't be imported here: No module named 'triton'")

    monkeypatch.setattr(loader, "load", refuse)
    import minipaged.attention.triton as package

    monkeypatch.delattr(package, "decode", raising=False)
    *_, end = moments(Sizes(), compare)
    assert end.kernel.output == () and end.kernel.difference is None
    [why] = [event.why for event in end.events if "not compared" in event.why]
    assert why.endswith("it can't be imported here: No module named 'triton'") and "\n" not in why


def test_only_what_is_read_has_numbers():
    import torch

    from visualize.walk_moments import numbers_of

    sizes = Sizes()
    _, k_cache, v_cache = numbers_of(sizes)
    used = [sizes.slot(position) for position in range(sizes.seq_len)]
    for cache in (k_cache, v_cache):
        numbers = ~cache.flatten(0, 1).isnan().all(-1).all(-1)
        assert torch.nonzero(numbers).flatten().tolist() == sorted(used) and numbers.sum() < len(numbers)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"block_size": 0}, "block_size=0: must be a whole number, from 1 to 64"),
        ({"seq_len": -1}, "seq_len=-1: must be a whole number, from 0 to 1024"),
        ({"seq_len": 2.5}, "seq_len=2.5: must be a whole number"),
        ({"tile_size": 8}, "tile_size=8: must be a whole number, from 16 to 256"),
        ({"tile_size": 24}, "tile_size=24: must be a power of two"),
        ({"num_splits": 65}, "num_splits=65: must be a whole number, from 1 to 64"),
        ({"heads": (4, 3)}, "heads=(4, 3): query heads must be a multiple"),
        ({"heads": 4}, "heads=4: must be two numbers"),
        ({"heads": (0, 1)}, "query heads=0: must be a whole number, from 1 to 64"),
        ({"table": [7, 1]}, "41 keys in blocks of 4 need 11 entries, and it has 2"),
        ({"table": 7}, "table=7: must be a list of block ids"),
        ({"table": TABLE, "seq_len": 30}, "30 keys in blocks of 4 need 8 entries, and it has 7"),
        ({"table": [3, 3], "seq_len": 8}, "table=[3, 3]: the entries that are read must be 0 or more, and none twice"),
        ({"table": [3, -1], "seq_len": 8}, "table=[3, -1]: the entries that are read"),
        ({"table": ["a"], "seq_len": 1}, "an entry of table='a': must be a whole number"),
        ({"seed": -1}, "seed=-1: must be a whole number"),
    ],
)
def test_sizes_that_cannot_be(sizes, said):
    with pytest.raises(ValueError) as error:
        Sizes(**sizes)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_the_default_shows_what_there_is_to_see():
    sizes = Sizes()
    assert sizes.table[:3] == (7, 1, 3) and len(set(sizes.table)) == len(sizes.table) == 11
    assert sizes.tile_size % sizes.block_size == 0 < sizes.seq_len % sizes.tile_size  # the last tile is masked
    assert sizes.seq_len % sizes.block_size  # and so is a part of its last block
    assert sizes.tiles_of(0) == range(0, 41, geometry.LEAST)
