"""K and V in fewer bytes: encode and decode, and the cache that keeps codes and scales together."""

import math

import pytest


@pytest.fixture(scope="module", autouse=True)
def torch():
    return pytest.importorskip("torch")


CODES = ("int8", "fp8")
NAMES = ("float32", "float16", "bfloat16", *CODES)
every_code = pytest.mark.parametrize("cache_dtype", CODES)


def test_h1_a_vector_by_hand(torch):
    from minipaged.attention.kv_codec import decode, encode

    codes, scale = encode(torch.tensor([0, 1.27, -0.635]))
    assert codes.dtype == torch.int8 and codes.tolist() in ([0, 127, -64], [0, 127, -63])
    assert scale.dtype == torch.float32 and scale.item() == pytest.approx(0.01)
    error = (decode(codes, scale) - torch.tensor([0, 1.27, -0.635])).abs().max()
    assert error <= 0.005 * (1 + 1e-5)


@every_code
def test_h1_zeros_stay_zeros(torch, cache_dtype):
    from minipaged.attention.kv_codec import decode, encode

    codes, scale = encode(torch.zeros(3, 2, 8), cache_dtype)
    assert torch.equal(decode(codes, scale), torch.zeros(3, 2, 8)) and not codes.float().any() and scale.shape == (3, 2)


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
def test_an_int8_is_off_by_at_most_half_a_scale(torch, bits, size):
    from minipaged.attention.kv_codec import decode, encode

    generator = torch.Generator().manual_seed(0)
    x = size * torch.randn(50, 4, 64, generator=generator).to(getattr(torch, f"float{bits}"))
    codes, scale = encode(x, "int8")
    assert codes.shape == x.shape and scale.shape == x.shape[:-1]
    assert codes.abs().amax(-1).eq(127).all()  # each head uses all of its codes, whatever its neighbours hold
    error = (decode(codes, scale).double() - x.double()).abs()
    assert (error <= scale.double().unsqueeze(-1) * 0.5 * (1 + 1e-5)).all()


def test_an_fp8_is_off_by_at_most_a_sixteenth(torch):
    """3 bits of fraction: half of an eighth. Below 2**-6 codes have a fixed step, 2**-9."""
    from minipaged.attention.kv_codec import decode, encode

    x = torch.randn(200, 4, 64, generator=torch.Generator().manual_seed(0))
    codes, scale = encode(x, "fp8")
    assert codes.dtype == torch.float8_e4m3fn and codes.float().abs().amax(-1).eq(448).all()
    error = (decode(codes, scale) - x).abs() / scale.unsqueeze(-1)
    allowed = torch.maximum(codes.float().abs() / 16, torch.tensor(2.0**-10))
    assert (error <= allowed * (1 + 1e-4)).all()


@every_code
def test_a_head_has_its_own_scale(torch, cache_dtype):
    """An outlier makes no other head coarser, neither of the same token nor of another one."""
    from minipaged.attention.kv_codec import decode, encode

    x = torch.randn(3, 2, 16, generator=torch.Generator().manual_seed(1))
    alone = decode(*encode(x, cache_dtype))
    x[1, 0, 5] = 1000.0
    spoilt = decode(*encode(x, cache_dtype))
    changed = (alone != spoilt).any(-1)
    assert changed.tolist() == [[False, False], [True, False], [False, False]]


@every_code
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_never_becomes_a_number(torch, cache_dtype, wrong):
    from minipaged.attention.kv_codec import decode, encode

    x = torch.ones(2, 2, 8)
    x[0, 1, 3] = wrong
    out = decode(*encode(x, cache_dtype))
    assert out[0, 1].isnan().all() and out[0, 0].isfinite().all() and out[1].isfinite().all()


@every_code
def test_small_halves_are_not_lost(torch, cache_dtype):
    """The largest of them divided by the largest code would be 0 as a half."""
    from minipaged.attention.kv_codec import decode, encode

    x = torch.tensor([1e-6, -5e-7], dtype=torch.float16)
    codes, scale = encode(x, cache_dtype)
    assert scale > 0 and ((decode(codes, scale) - x.float()).abs() <= x.float().abs().max() / 16).all()


@every_code
def test_numbers_at_the_ends_of_their_range(torch, cache_dtype):
    from minipaged.attention.kv_codec import decode, encode

    assert decode(*encode(torch.full((4,), 1e-45), cache_dtype)).tolist() == [0] * 4  # its scale would be 0
    assert decode(*encode(torch.tensor([1e-38, -1e-38]), cache_dtype)).isfinite().all()
    assert decode(*encode(torch.tensor([3e38, -3e38]), cache_dtype)).isfinite().all()
    assert decode(*encode(torch.full((4,), 1e300, dtype=torch.float64), cache_dtype)).isnan().all()  # no float32


@pytest.mark.parametrize("cache_dtype", ["float32", "float16", "bfloat16"])
def test_floats_have_no_scale(torch, cache_dtype):
    from minipaged.attention.kv_codec import decode, encode

    x = torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(2))
    codes, scale = encode(x, cache_dtype)
    assert scale is None and codes.dtype == getattr(torch, cache_dtype)
    assert torch.equal(decode(codes, scale), x.to(codes.dtype))


def test_an_unknown_type_and_one_that_torch_lacks(torch, monkeypatch):
    from minipaged.attention.kv_codec import encode

    for wrong in ("int4", "FP8", "", None, 8, torch.int8):
        with pytest.raises(ValueError, match="must be one of float32, float16, bfloat16, int8, fp8"):
            encode(torch.zeros(4), wrong)
    monkeypatch.delattr(torch, "float8_e4m3fn")
    with pytest.raises(ValueError, match=r"cache_dtype='fp8': this torch, .*, has no float8_e4m3fn"):
        encode(torch.zeros(4), "fp8")
    from minipaged import LLM

    with pytest.raises(ValueError, match="cache_dtype='fp8': this torch") as error:
        LLM(cache_dtype="fp8")
    assert "\n" not in str(error.value)


def test_bytes_of_a_token():
    """At head_dim 64, scales included, int8 holds at least 1.8 times the tokens of float16."""
    from minipaged.attention.kv_cache import KVCache
    from minipaged.attention.kv_codec import bytes_per_token

    sizes = {"num_layers": 3, "num_kv_heads": 2, "head_dim": 64}
    assert bytes_per_token("float16", **sizes) / bytes_per_token("int8", **sizes) >= 1.8
    for cache_dtype in NAMES:
        cache = KVCache(3, 5, 4, 2, 64, cache_dtype)
        assert cache.bytes_per_block == 4 * bytes_per_token(cache_dtype, **sizes)
        assert cache.bytes_per_block == sum(tensor.nbytes for tensor in cache.tensors) / 5


@pytest.mark.parametrize("cache_dtype", NAMES)
def test_what_is_done_to_blocks_is_done_to_scales(torch, cache_dtype):
    """Write, copy, swap out, poison, swap in: after each what is read is what was written, or NaN."""
    from minipaged.attention.kv_cache import KVCache
    from minipaged.attention.kv_codec import decode, stored

    cache = KVCache(2, 6, 4, 2, 8, cache_dtype, poison=True, num_host_blocks=3)
    k, v = torch.randn(2, 5, 2, 8, generator=torch.Generator().manual_seed(3))
    cache.write(1, k, v, torch.tensor([4, 5, 6, -1, 7], dtype=torch.int32))
    kept = [stored(x[[0, 1, 2, 4]], cache_dtype) for x in (k, v)]

    def read(block):
        sides = (cache.k, cache.k_scale), (cache.v, cache.v_scale)
        return [
            decode(codes[1][block], scales[1] if scales[1] is None else scales[1][block]) for codes, scales in sides
        ]

    def holds(block):
        return all(torch.equal(one.float(), other.float()) for one, other in zip(read(block), kept))

    assert holds(1) and all(x.isnan().all() for x in read(0))
    cache.copy_blocks([(1, 4), (0, 5)])
    assert holds(1) and holds(4)
    cache.swap_out([(4, 2)])
    cache.poison_blocks([4, 1])
    assert all(x.isnan().all() for block in (1, 4) for x in read(block))
    cache.swap_in([(2, 3)])
    assert holds(3)


@every_code
@pytest.mark.parametrize("attention", ["batched", "reference"])
def test_h3_scales_are_found_by_their_strides(cache_dtype, attention):
    from importlib import import_module

    from kernel_cases import kernel_case

    paged_attention = import_module(f"minipaged.attention.{attention}").paged_attention
    for lengths, num_queries in (([9, 1, 0, 16], None), ([9, 6, 5], [2, 6, 0])):
        case = kernel_case(lengths, num_queries, head_dim=24, block_size=3, cache_dtype=cache_dtype)
        assert case.arguments["k_scale"].stride() != case.arguments["k_scale"].contiguous().stride()
        case.check(paged_attention(**case.arguments))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda ones: {"k_scale": None}, "k_scale is None: a cache of torch.int8 needs one scale a head"),
        (lambda ones: {"v_scale": ones(1)}, r"v_scale is \(1,\) torch.float32: .* torch.int8 needs .* \(8, 4, 2\)"),
        (lambda ones: {"v_scale": ones(8, 4, 2).double()}, r"v_scale is .* torch.float64.*torch.float32"),
        (lambda ones: dict.fromkeys(("k_cache", "v_cache"), ones(8, 4, 2, 16)), "only codes of a byte have scales"),
        (lambda ones: {"v_cache": ones(8, 4, 2, 16)}, r"k_cache torch.int8, v_cache torch.float32"),
    ],
)
def test_scales_that_do_not_fit_are_refused(torch, change, message):
    from kernel_cases import kernel_case

    from minipaged.attention import batched, reference

    case = kernel_case([9, 6], cache_dtype="int8")
    assert case.arguments["k_cache"].shape == (8, 4, 2, 16)
    for module in (batched, reference):
        with pytest.raises(ValueError, match=message):
            module.paged_attention(**case.arguments | change(torch.ones))
