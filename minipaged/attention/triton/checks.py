"""What a kernel can't check itself: whether the tensors it is given are what it takes them for.

A kernel gets bare addresses and strides. Where they are wrong it reads somebody else's memory, and says nothing.
"""

import torch

from minipaged.attention.reference import check_arguments
from minipaged.attention.triton.geometry import MAX_HEAD_DIM
from minipaged.attention.triton.loader import check_runs_on

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, k_scale=None, v_scale=None):
    """Raises ValueError, naming what is wrong, if decode or prefill can't run on these. It waits for the GPU, since
    lengths and tables are looked at on the host."""
    check_arguments(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, k_scale, v_scale)
    tables = {"block_tables": block_tables, "seq_lens": seq_lens, "query_start_loc": query_start_loc}
    scales = {} if k_scale is None else {"k_scale": k_scale, "v_scale": v_scale}
    check_one_device(q=q, k_cache=k_cache, v_cache=v_cache, **tables, **scales)
    check_numbers(q=q)
    if not scales:
        check_numbers(k_cache=k_cache, v_cache=v_cache)
    check_last_stride(q=q, k_cache=k_cache, v_cache=v_cache)
    check_indices(**tables)
    check_entries(block_tables, seq_lens, *k_cache.shape[:2])
    if q.shape[-1] > MAX_HEAD_DIM:
        raise ValueError(f"head_dim={q.shape[-1]}: the kernels take at most {MAX_HEAD_DIM}")


def check_one_device(**tensors):
    """Raises ValueError unless all are on one device, one where kernels run."""
    devices = {name: tensor.device for name, tensor in tensors.items()}
    if len(set(devices.values())) > 1:
        raise ValueError(f"{', '.join(f'{name} is on {at}' for name, at in devices.items())}: must be on one device")
    check_runs_on(next(iter(devices.values())))


def check_numbers(**tensors):
    """Raises ValueError unless these are of one type that kernels sum up."""
    dtypes = {tensor.dtype for tensor in tensors.values()}
    if len(dtypes) > 1 or not dtypes <= set(DTYPES):
        raise ValueError(f"{_types(tensors)}: must all be one of {', '.join(map(str, DTYPES))}")


def check_alike(**tensors):
    """Raises ValueError unless these are of one type, whichever it is."""
    if len({tensor.dtype for tensor in tensors.values()}) > 1:
        raise ValueError(f"{_types(tensors)}: must all be of one type")


def check_last_stride(**tensors):
    """Raises ValueError unless a head's numbers lie side by side."""
    for name, tensor in tensors.items():
        if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise ValueError(f"{name} has strides {tensor.stride()}: the last, that of head_dim, must be 1")


def _types(tensors):
    return ", ".join(f"{name} is {tensor.dtype}" for name, tensor in tensors.items())


def check_indices(**tensors):
    """Raises ValueError unless these are int32, with the numbers of a row side by side."""
    for name, tensor in tensors.items():
        if tensor.dtype != torch.int32:
            raise ValueError(f"{name} is {tensor.dtype}: must be torch.int32")
        if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise ValueError(f"{name} has strides {tensor.stride()}: the last must be 1")


def check_entries(block_tables, seq_lens, num_blocks, block_size):
    """Raises ValueError if a table names a block that isn't there; behind the sequence's end it may."""
    tables, lengths = block_tables.cpu(), seq_lens.cpu()
    looked_at = torch.arange(tables.shape[1]) * block_size < lengths[:, None]
    ids = tables[looked_at]
    if len(ids) and (ids.min() < 0 or ids.max() >= num_blocks):
        wrong = f"{int(ids.min())} to {int(ids.max())}"
        raise ValueError(f"a table names blocks {wrong}: ids in this cache run from 0 to {num_blocks - 1}")
