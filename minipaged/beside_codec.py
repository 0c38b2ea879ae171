"""A learner's encode and decode, with minipaged's own beside them: what is stored must be read as nearly as theirs.

Their codes may be others where two are equally near. Otherwise a text would be spoilt, and nobody would know why.
"""

import torch

from minipaged.attention import kv_codec
from minipaged.learner import WrongAnswer


def beside_codec(encode, decode):
    """A learner's functions, each answer of which is held against minipaged's. Raises WrongAnswer."""

    def their_encode(x, cache_dtype="int8"):
        codes, scale = encode(x, cache_dtype)
        must_be("encode", "codes", codes, x.shape, kv_codec.code_type(cache_dtype))
        must_be("encode", "scale", scale, x.shape[:-1], torch.float32)
        right, read = kv_codec.decode(*kv_codec.encode(x, cache_dtype)), kv_codec.decode(codes, scale)
        spare = 1e-4 * x.abs().amax(-1, keepdim=True)
        is_near = ((read - x).abs() <= (right - x).abs() + spare) | (read.isnan() & right.isnan())
        if not is_near.all():
            heads = f"{int((~is_near.all(-1)).sum())} of {is_near[..., 0].numel()} heads"
            raise WrongAnswer(
                f"encode({list(x.shape)}, {cache_dtype!r}): {heads} are read less exactly than minipaged's"
            )
        return codes, scale

    def their_decode(codes, scale):
        out, right = decode(codes, scale), kv_codec.decode(codes, scale)
        must_be("decode", "the answer", out, codes.shape, torch.float32)
        if not out.isclose(right, rtol=1e-5, atol=0, equal_nan=True).all():
            error = (out - right).nan_to_num(torch.inf).abs().max().item()
            raise WrongAnswer(f"decode({list(codes.shape)}) is {error:.2g} away from minipaged's answer")
        return out

    return {"encode": their_encode, "decode": their_decode}


def must_be(function, name, found, shape, dtype):
    if not isinstance(found, torch.Tensor) or found.shape != shape or found.dtype != dtype:
        is_tensor = isinstance(found, torch.Tensor)
        told = f"{list(found.shape)} {found.dtype}" if is_tensor else type(found).__name__
        raise WrongAnswer(f"{function}: {name} is {told}, and it must be {list(shape)} {dtype}")
