"""For the checks of exercise 11: numbers to encode, and what must be true of their codes and scales.

A head is one row of head_dim numbers. All is judged in float64, by the list of all codes that there are.
"""

import math

LARGEST = {"int8": 127, "fp8": 448}
SPARE = 5e-7  # of a scale, relative: a few roundings of float32


def drawn(*shape, bits=32, size=1.0, kind="float"):
    """Numbers from a normal distribution, always the same."""
    import torch

    x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)
    return (size * x).to(getattr(torch, f"{kind}{bits}"))


def code_type(cache_dtype):
    import torch

    return torch.int8 if cache_dtype == "int8" else torch.float8_e4m3fn


def all_codes(cache_dtype):
    """Every code that may be used, as a number, in order: [num_codes] float64."""
    import torch

    if cache_dtype == "int8":
        return torch.arange(-127, 128, dtype=torch.float64)
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    return codes[codes.isfinite()].sort().values


def shown(x):
    """A tensor for a message: a few numbers as they are, more of them by their shape."""
    dtype = str(x.dtype).removeprefix("torch.")
    if x.numel() <= 4 and x.dim() < 3:
        told = [f"{each:.4g}" for each in x.double().flatten().tolist()]
        return f"[{', '.join(told)}]" if x.dim() == 1 else f"{list(x.shape)} of {', '.join(told)}"
    return f"{list(x.shape)} {dtype}"


def call_of(x, cache_dtype):
    return f'encode({shown(x)}, "{cache_dtype}")'


def where(flat, shape):
    """The index of one of so many numbers: "at [1, 0]", or nothing where there is only one."""
    index = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.insert(0, place)
    return f" at {index}" if index else ""


def is_same(one, other):
    """Bit for bit, with NaN equal to NaN."""
    one, other = one.double(), other.double()
    return one.shape == other.shape and ((one == other) | ((one != one) & (other != other))).all()


def must_be(told, name, found, shape, dtype, why):
    import torch

    assert isinstance(found, torch.Tensor), f"{told}: {name} is {found!r:.40} ({type(found).__name__}), not a tensor"
    expected = f"expected {list(shape)}. {why}"
    assert found.shape == shape, f"{told}: {name} has the shape {list(found.shape)}: {expected}"
    assert found.dtype == dtype, f"{told}: {name} is {found.dtype}: expected {dtype}"


def encode(impl, x, cache_dtype):
    """Call encode -> (codes, scale), tensors of the right kinds; what was given has not changed."""
    import torch

    told, before = call_of(x, cache_dtype), x.clone()
    result = impl.encode(x, cache_dtype)
    assert is_same(x, before), f"{told} changed x: it must only read what it is given"
    found = f"{result!r:.40} ({type(result).__name__})"
    assert isinstance(result, tuple) and len(result) == 2, f"{told} gave {found}: expected (codes, scale)"
    must_be(told, "codes", result[0], x.shape, code_type(cache_dtype), "There is a code for each number")
    must_be(told, "scale", result[1], x.shape[:-1], torch.float32, "There is one scale for each token and head")
    return result


def check_encode(impl, x, cache_dtype, why):
    """Call encode on numbers that are all finite, and look at its scales and its codes -> (codes, scale)."""
    codes, scale = encode(impl, x, cache_dtype)
    check_scale(x, cache_dtype, scale, why)
    check_codes(x, cache_dtype, codes, scale, why)
    return codes, scale


def check_scale(x, cache_dtype, scale, why):
    """Is each scale the largest |x| of its head, divided by the largest code? Of a head of zeros it may be anything."""
    largest, code = x.double().abs().amax(-1), LARGEST[cache_dtype]
    expected = largest / code
    wrong = ~((scale.double() - expected).abs() <= SPARE * expected) & (largest > 0)  # NaN is not
    if wrong.any():
        flat = wrong.flatten().int().argmax().item()
        got, right, top = (each.flatten()[flat].item() for each in (scale, expected, largest))
        is_near = math.isclose(got, right, rel_tol=2e-3)
        told = f"{got:.9g}" if is_near else f"{got:.4g}"
        numbers = f"{told}{where(flat, scale.shape)}: expected {right:.4g}, which is {top:.4g} / {code}"
        if is_near:
            why = f"It is off by {abs(got / right - 1):.1g} of itself: float32 is more exact. {why}"
        raise AssertionError(f"{call_of(x, cache_dtype)} gave the scale {numbers}. {why}")


def check_codes(x, cache_dtype, codes, scale, why):
    """Is each code as near to x / scale as a code can be? Which of two that are equally near is left open."""
    import torch

    can_be, told = all_codes(cache_dtype), call_of(x, cache_dtype)
    per_head = scale.double().unsqueeze(-1)
    wanted = (x.double() / per_head).masked_fill((x == 0) & (per_head == 0), 0)
    above = torch.searchsorted(can_be, wanted).clamp(1, len(can_be) - 1)
    low, high = can_be[above - 1], can_be[above]
    nearest = torch.minimum((wanted - low).abs(), (wanted - high).abs())
    found = codes.double()
    wrong = ~((found - wanted).abs() <= nearest + SPARE * LARGEST[cache_dtype])  # NaN is not
    if wrong.any():
        flat = wrong.flatten().int().argmax().item()
        got, right, number, lower, upper = (each.flatten()[flat].item() for each in (found, wanted, x, low, high))
        code = lower if abs(right - lower) <= abs(upper - right) else upper
        quotient = f"{number:.4g} / {per_head.expand_as(x).flatten()[flat].item():.4g} = {right:.4g}"
        at = where(flat, x.shape)
        raise AssertionError(f"{told} gave the code {got:g}{at}: expected {code:g}, the nearest to {quotient}. {why}")


def check_not_finite(impl, x, cache_dtype, why):
    """Call encode where some heads hold a number that isn't finite: these are read as NaN, and the others as ever."""
    codes, scale = encode(impl, x, cache_dtype)
    read = codes.double() * scale.double().unsqueeze(-1)
    told, spoilt = call_of(x, cache_dtype), ~x.isfinite().all(-1)
    silent = ~read.isnan() & spoilt.unsqueeze(-1)
    if silent.any():
        flat = silent.flatten().int().argmax().item()
        head = flat // x.shape[-1]
        of_head = f"of the head{where(head, scale.shape)}, whose scale is {scale.flatten()[head].item():.4g}"
        got = (
            f"the code {codes.double().flatten()[flat].item():g} {of_head}, is read as {read.flatten()[flat].item():g}"
        )
        raise AssertionError(f"{told}: {got}: expected NaN. {why}")
    whole = ~spoilt
    kept = call_of(x, cache_dtype) + ", looked at the heads whose numbers are all finite,"
    try:
        check_scale(x[whole], cache_dtype, scale[whole], why)
        check_codes(x[whole], cache_dtype, codes[whole], scale[whole], why)
    except AssertionError as error:
        raise AssertionError(str(error).replace(call_of(x[whole], cache_dtype), kept)) from None


def check_decode(impl, codes, scale, why):
    """Call decode and compare with the product in float64 -> what it gave."""
    import torch

    told = f"decode(codes {shown(codes)}, scale {shown(scale)})"
    before = codes.clone(), scale.clone()
    out = impl.decode(codes, scale)
    for name, old, new in zip(("codes", "scale"), before, (codes, scale)):
        assert is_same(new, old), f"{told} changed {name}: it must only read what it is given"
    must_be(told, "the answer", out, codes.shape, torch.float32, "There is a number for each code")
    expected = codes.double() * scale.double().unsqueeze(-1)
    right = ((out.double() - expected).abs() <= SPARE * expected.abs()) | (out.isnan() & expected.isnan())
    if not right.all():
        flat = (~right).flatten().int().argmax().item()
        got, wanted, code = (each.flatten()[flat].item() for each in (out.double(), expected, codes.double()))
        factor = scale.unsqueeze(-1).expand(codes.shape).flatten()[flat].item()
        product = f"expected {wanted:.4g}, which is {code:g} * {factor:.4g}"
        raise AssertionError(f"{told} gave {got:.4g}{where(flat, codes.shape)}: {product}. {why}")
    return out
