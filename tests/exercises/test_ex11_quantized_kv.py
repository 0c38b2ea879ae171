"""The checks of exercise 11: first by hand, then encode by what its scales and codes must be, then decode.

Nothing is compared with minipaged's own codes: which way a half is rounded, and how a scale is computed, is free.
"""

import math

import pytest
from ex11_heads import LARGEST, check_decode, check_encode, check_not_finite, code_type, drawn, encode

both = pytest.mark.parametrize("cache_dtype", ["int8", "fp8"])
NAN, INF = math.nan, math.inf
OWN = "Each token and each KV head has a scale of its own: the largest |x| along the last dimension, no other"


def test_one_head_by_hand(impl):
    import torch

    x = torch.tensor([0, 1.27, -0.63])
    why = "The largest |x| is 1.27 and the largest code 127: a step is 0.01, and -0.63 is 63 steps down from 0"
    codes, scale = check_encode(impl, x, "int8", why)
    check_decode(impl, codes, scale, "A number is its code times the scale")
    check_encode(impl, x, "fp8", "The largest |x| is 1.27 and the largest code of fp8 is 448: 1.27 becomes 448")


def test_int8_where_no_type_is_named(impl):
    import torch

    codes, _ = impl.encode(torch.tensor([0, 1.27, -0.63]))
    assert codes.dtype == torch.int8, f"encode(x) gave {codes.dtype}: expected torch.int8, the default of cache_dtype"


def test_the_nearest_whole_number(impl):
    import torch

    x = torch.tensor([127, 0.6, -0.6, 0.4, -0.4, 1.7, -1.7, 100.9, -100.9, -126.9])
    check_encode(impl, x, "int8", "A code is rounded to the nearest: neither cut off towards 0 nor always down")


def test_a_half_may_go_either_way(impl):
    import torch

    x = torch.tensor([127, 0.5, -0.5, 1.5, 2.5, -63.5, 126.5])
    check_encode(impl, x, "int8", "Two codes are equally near to a half: either will do, and no other")


def test_the_nearest_fp8(impl):
    import torch

    x = torch.tensor([448, 0.3, -3.3, 1.07, -0.004, 431, -425, 17.9, 0.0])
    why = "fp8 is a float: `to` goes to the nearest, and near 0 its codes lie closer than whole numbers"
    check_encode(impl, x, "fp8", why)


@both
def test_the_largest_number_may_be_negative(impl, cache_dtype):
    import torch

    why = "The scale comes from the largest |x|, without its sign; 0 is always the code 0"
    for numbers in ([-127, 64, 0], [-2, -254, -20], [2, 254, 20], [-5], [5]):
        check_encode(impl, torch.tensor(numbers, dtype=torch.float32), cache_dtype, why)


@both
def test_the_ends_are_alike(impl, cache_dtype):
    import torch

    largest, names = LARGEST[cache_dtype], {"int8": "-128 has no counterpart: 128", "fp8": "above 448 fp8 has only NaN"}
    for top in (1.0, 0.1, 3.0, 1 / 3, 77.7, 1e-3):
        why = f"Codes run from -{largest} to {largest}; {names[cache_dtype]}"
        check_encode(impl, torch.tensor([top, -top, top / 2]), cache_dtype, why)


@both
def test_a_scale_for_each_token_and_head(impl, cache_dtype):
    for shape in ((3, 2, 8), (1, 2, 8), (3, 1, 8), (4, 4, 4)):
        check_encode(impl, drawn(*shape), cache_dtype, OWN)


@both
def test_an_outlier_spoils_nobody_else(impl, cache_dtype):
    for token, head in ((0, 0), (2, 1)):
        x = drawn(3, 2, 16)
        x[token, head, 5] = 1000
        check_encode(impl, x, cache_dtype, f"x[{token}, {head}, 5] is 1000, and the others are about 1. {OWN}")


@both
def test_any_shape(impl, cache_dtype):
    for shape in ((64,), (5, 24), (2, 3, 2, 7), (3, 2, 1), (40, 4, 64), (8, 8)):
        check_encode(impl, drawn(*shape), cache_dtype, f"head_dim is the last dimension, here {shape[-1]}. {OWN}")


@both
def test_no_tokens(impl, cache_dtype):
    import torch

    check_encode(impl, torch.zeros(0, 2, 8), cache_dtype, "With no tokens there are no codes")


@both
def test_a_head_of_zeros(impl, cache_dtype):
    import torch

    one_of_many = drawn(3, 2, 8)
    one_of_many[1, 0] = 0
    for x in (torch.zeros(8), torch.zeros(2, 2, 4), one_of_many):
        why = "A head of zeros must be read as zeros. Its largest |x| is 0, and 0 / 0 is NaN"
        codes, scale = encode(impl, x, cache_dtype)
        zeros = (x == 0).all(-1)
        told = f"encode of a head of {x.shape[-1]} zeros, {cache_dtype}"
        assert scale[zeros].isfinite().all(), f"{told}: the scale is {scale[zeros][0].item()}: expected a number. {why}"
        found = codes[zeros].float()
        assert (found == 0).all(), f"{told} gave codes like {found[found != 0][0].item():g}: expected 0. {why}"
        check_encode(impl, x, cache_dtype, why)


@both
def test_numbers_of_any_size(impl, cache_dtype):
    why = "However small or large the numbers are, the scale is that quotient and nothing besides"
    for size in (1e-3, 100.0, 1e-9, 1e-30, 1e30):
        check_encode(impl, drawn(4, 2, 8, size=size), cache_dtype, f"x is about {size:g}. {why}")


@both
def test_halves(impl, cache_dtype):
    for kind, bits, size in (("float", 16, 1.0), ("bfloat", 16, 1.0), ("float", 16, 300.0), ("float", 16, 1e-6)):
        x = drawn(6, 2, 16, kind=kind, bits=bits, size=size)
        why = f"x is {x.dtype}, about {size:g}: divide in float32, where the quotient is exact enough and not 0"
        check_encode(impl, x, cache_dtype, why)
    x = drawn(16, kind="float", bits=16)
    check_encode(impl, x, cache_dtype, "x is one head of torch.float16: divide in float32")


@both
def test_doubles(impl, cache_dtype):
    check_encode(impl, drawn(6, 2, 16, bits=64), cache_dtype, "x is torch.float64; the scale is float32 all the same")


@both
@pytest.mark.parametrize("number", [NAN, INF, -INF])
def test_what_is_not_finite_stays_visible(impl, cache_dtype, number):
    for bits in (32, 16):
        for token, head in ((0, 1), (2, 0)):
            x = drawn(3, 2, 8, bits=bits)
            x[token, head, 3] = number
            why = f"x[{token}, {head}, 3] is {number}: all of that head is read as NaN, and nothing of the others"
            check_not_finite(impl, x, cache_dtype, why)


@both
def test_parts_of_larger_tensors(impl, cache_dtype):
    import torch

    why = "x is a part of a larger tensor, and not contiguous"
    check_encode(impl, drawn(5, 2, 3, 8)[:, 1], cache_dtype, why)
    check_encode(impl, drawn(2, 8, 5).transpose(1, 2), cache_dtype, why)
    check_encode(impl, torch.full((1, 1, 1), 0.3).expand(3, 2, 8), cache_dtype, "x is one number, expanded")


@both
def test_decode_multiplies_by_the_scale_of_the_head(impl, cache_dtype):
    import torch

    for shape in ((4, 4, 4), (3, 2, 8), (24,), (5, 6), (2, 3, 2, 7), (0, 2, 8)):
        codes = drawn(*shape, size=LARGEST[cache_dtype] / 4).clamp(-LARGEST[cache_dtype], LARGEST[cache_dtype])
        codes, scale = codes.round().to(code_type(cache_dtype)), drawn(*shape[:-1], 1)[..., 0].abs() / 50
        check_decode(impl, codes, scale, "All numbers of a head are multiplied by its scale, and by no other")
    ends = torch.tensor([[-1.0, 1, 0], [-1, 0, 1]]) * LARGEST[cache_dtype]
    scale = torch.tensor([0.25, 1e-30])
    check_decode(impl, ends.to(code_type(cache_dtype)), scale, "The largest codes are codes like all others")


@both
def test_decode_shows_nan(impl, cache_dtype):
    import torch

    codes, scale = drawn(3, 2, 8, size=30).to(code_type(cache_dtype)), torch.ones(3, 2)
    codes[1, 0] = torch.zeros(8).to(codes.dtype)
    scale[1, 0] = NAN
    check_decode(impl, codes, scale, "The scale at [1, 0] is NaN: so is the whole head, even where a code is 0")


@both
def test_decode_reads_what_lies_in_blocks(impl, cache_dtype):
    """As attention finds them: rows of K and V side by side, scales apart by more than their shape says."""
    import torch

    codes = torch.stack([drawn(4, 4, 2, 8, size=30), drawn(4, 4, 2, 8, size=9)], 1).to(code_type(cache_dtype))
    scale = torch.stack([drawn(2, 4, 4), drawn(2, 4, 4) + 1], 1).abs().permute(2, 1, 3, 0)
    check_decode(impl, codes[:, 1], scale[:, 1], "codes and scale are parts of larger tensors, and not contiguous")


@both
def test_one_call_does_not_depend_on_another(impl, cache_dtype):
    x, other = drawn(3, 2, 8), drawn(3, 2, 8, size=50)
    codes, scale = check_encode(impl, x, cache_dtype, OWN)
    kept = codes.float(), scale.clone()
    check_encode(impl, other, cache_dtype, "It is the second call, with other numbers of the same shape")
    out = check_decode(impl, codes, scale, "These are codes of the first call")
    copy = out.clone()
    check_decode(impl, codes, 2 * scale, "It is the second call, with twice the scale")
    told = "changed the answer of the call before: each needs memory of its own"
    assert (codes.float() == kept[0]).all() and (scale == kept[1]).all(), f"the second encode {told}"
    assert (out == copy).all(), f"the second decode {told}"
