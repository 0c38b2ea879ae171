"""Which attention an engine uses, by name. What isn't asked for isn't imported: triton may not be installed."""

import torch

from minipaged.attention.batched import BatchedAttention
from minipaged.attention.kv_cache import KVCache
from minipaged.attention.reference import ReferenceAttention

NAMES = ("auto", "batched", "reference", "triton")


def backend(name, device, dtype):
    """An attention backend of the model, and the kind of KVCache it goes with.

    auto: triton on a GPU, batched on a CPU, and in float64, which the kernels don't read. Raises ValueError for triton
    where it can't run.
    """
    if name == "auto":
        name = "triton" if device == "cuda" and dtype != torch.float64 else "batched"
    if name != "triton":
        return {"batched": BatchedAttention, "reference": ReferenceAttention}[name](), KVCache
    from minipaged.attention.triton import loader

    loader.load()
    loader.check_runs_on(torch.device(device))
    if dtype == torch.float64:
        raise ValueError("attention='triton' with dtype='float64': the kernels sum in float32; leave one of them out")
    from minipaged.attention.triton.backend import TritonAttention, TritonKVCache

    return TritonAttention(), TritonKVCache
