"""The kernels over caches of fewer bytes: the scales are factors of scores and weights, found by their own strides."""

import pytest
from harness import some_slow

SIZES = [
    ((4, 2), 16, 4, "int8"),
    ((4, 4), 64, 16, "fp8"),
    ((5, 1), 80, 3, "int8"),
    ((6, 2), 24, 1, "fp8"),
    ((8, 2), 32, 2, "float16"),
    ((1, 1), 128, 32, "bfloat16"),
    ((16, 2), 96, 16, "int8"),
]
SLOW = SIZES[2:]


@pytest.fixture(scope="module", autouse=True)
def kernels():
    """Skips where kernels can't run, and says why."""
    pytest.importorskip("torch")
    from minipaged.attention.triton import loader

    try:
        loader.load()
    except ValueError as error:
        pytest.skip(str(error))


def make(heads, head_dim, block_size, cache_dtype, lengths, num_queries=None, **options):
    from kernel_cases import kernel_case

    sizes = {"heads": heads, "head_dim": head_dim, "block_size": block_size, "cache_dtype": cache_dtype}
    return kernel_case(lengths, num_queries, **sizes, **options)


@pytest.mark.parametrize("sizes", some_slow(SIZES, SLOW), ids=str)
def test_decode(sizes):
    from minipaged.attention.triton.decode import decode

    case = make(*sizes, [33, 1, 0, 17, 16])
    for num_splits in (1, 3):
        out, lse = decode(**case.decode_arguments(), num_splits=num_splits, tile_size=16)
        case.check(out)
        case.check_lse(lse)


@pytest.mark.parametrize("sizes", some_slow(SIZES, SLOW), ids=str)
def test_prefill(sizes):
    from minipaged.attention.triton.prefill import prefill

    case = make(*sizes, [19, 5, 1, 0], [4, 5, 1, 0])
    case.check(prefill(**case.arguments, tile_size=16))


def test_every_byte_of_fp8_that_is_a_number():
    import torch
    from kernel_cases import DEVICE
    from kernel_probe import fp8_kernel

    codes = torch.arange(256, dtype=torch.uint8, device=DEVICE)
    out, expected = torch.empty(256, device=DEVICE), codes.view(torch.float8_e4m3fn).float()
    fp8_kernel[1,](codes, out, SIZE=256)
    is_number = expected.isfinite()
    assert is_number.sum() == 254 and torch.equal(out[is_number], expected[is_number])


@pytest.mark.parametrize("cache_dtype", ["int8", "fp8", "float16"])
def test_the_cache_of_the_engine_is_the_same_as_the_plain_one(cache_dtype):
    """Poison, copies and writes in turn, on both: codes and scales."""
    import torch
    from kernel_cases import DEVICE

    from minipaged.attention.kv_cache import KVCache
    from minipaged.attention.triton.backend import TritonKVCache

    caches = [kind(2, 5, 4, 3, 8, cache_dtype, DEVICE, poison=True) for kind in (KVCache, TritonKVCache)]
    k, v = torch.randn(2, 6, 3, 8, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    for cache in caches:
        for layer in range(2):
            cache.write(layer, k + layer, v - layer, torch.tensor([0, 1, 2, 3, -1, 9], dtype=torch.int32))
        cache.copy_blocks([(0, 4), (4, 2)])
        cache.poison_blocks([1])
    for one, other in zip(caches[0].tensors, caches[1].tensors, strict=True):
        assert torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))
