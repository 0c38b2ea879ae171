"""For the checks of exercise 01: arguments, the answers to them, and what differs, in words."""

import math
from numbers import Integral

EXACT = 1e-12  # of float64
FLOAT32 = 4e-6  # ten times the reference's own error against float64
HEADS = [(4, 4), (4, 2), (6, 2), (6, 3), (5, 1)]  # (num_heads, num_kv_heads)
LENGTHS = [0, 1, 2, 7, 33, 130]


def cost_of(impl, *sizes):
    """bytes_per_token, held against the type it must have."""
    cost = impl.bytes_per_token(*sizes)
    is_whole = isinstance(cost, Integral) and not isinstance(cost, bool)
    assert is_whole, f"bytes_per_token{sizes} returned {shown(cost)}: an int was expected"
    return int(cost)


def shown(value):
    """A wrong result in a few words."""
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}: {', '.join(type(each).__name__ for each in value)}"
    named = f"a {type(value).__name__}"
    return f"{value!r}, {named}" if isinstance(value, (int, float, str)) else named


def arguments(num_heads, num_kv_heads, num_tokens, head_dim=8, seed=0, dtype=None):
    """Random arguments for attend_with_cache, by name. dtype: float64 if none is given."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    one, cached = (num_kv_heads, head_dim), (num_tokens, num_kv_heads, head_dim)
    shapes = {"q": (num_heads, head_dim), "k_new": one, "v_new": one, "k_cache": cached, "v_cache": cached}
    dtype = dtype or torch.float64
    return {name: torch.randn(*shape, generator=generator, dtype=dtype) for name, shape in shapes.items()}


def call_of(given):
    """The call as the learner knows it, with shapes in the place of numbers."""
    return f"attend_with_cache({', '.join(f'{name} {list(value.shape)}' for name, value in given.items())})"


def attend(impl, given):
    """attend_with_cache's three tensors, held against the types and shapes that they must have."""
    import torch

    call, dtype = call_of(given), given["q"].dtype
    longer = (len(given["k_cache"]) + 1, *given["k_cache"].shape[1:])
    shapes = {"out": tuple(given["q"].shape), "k_cache": longer, "v_cache": longer}
    result = impl.attend_with_cache(**given)
    is_right = isinstance(result, (tuple, list)) and len(result) == 3
    assert is_right and all(isinstance(each, torch.Tensor) for each in result), (
        f"{call} returned {shown(result)}: three tensors were expected, (out, k_cache, v_cache)"
    )
    for each, (name, shape) in zip(result, shapes.items()):
        assert tuple(each.shape) == shape, (
            f"{call} returned {name} of shape {list(each.shape)}: {list(shape)} was expected"
        )
        assert each.dtype == dtype, f"{call} returned {name} as {each.dtype}: all was given as {dtype}"
    return result


def answer(given):
    """What attend_with_cache must return as `out` for these arguments: torch's own attention, in float64."""
    import torch

    keys = torch.cat([given["k_cache"], given["k_new"][None]]).double().transpose(0, 1)
    values = torch.cat([given["v_cache"], given["v_new"][None]]).double().transpose(0, 1)
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(given["q"].double()[None, :, None], keys[None], values[None], enable_gqa=True)[0, :, 0]


def difference(out, expected, tolerance):
    """The largest difference in words, "" if it is within the tolerance."""
    error = (out.double() - expected).abs().nan_to_num(nan=math.inf)
    if float(error.max()) <= tolerance:
        return ""
    head, channel = divmod(int(error.argmax()), out.shape[1])
    got, wanted = float(out[head, channel]), float(expected[head, channel])
    close = f", off by {float(error.max()):.1g}" if f"{got:.4g}" == f"{wanted:.4g}" else ""
    return f"out[{head}, {channel}] is {got:.4g}{close}, expected {wanted:.4g}"
