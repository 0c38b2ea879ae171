"""Write: each new token's K and V go into the token's slot.

One program serves one token, with all of its KV heads:

    slot_mapping   [ 9 | -1 | 4 ]       block_size 4
    program 0        '-> block 2, offset 1
    program 1             '-> padding: writes nothing
    program 2                  '-> block 1, offset 0

(vLLM: reshape_and_cache_flash in cache_kernels.cu.)
"""

from minipaged.attention.triton.checks import check_alike, check_indices, check_last_stride, check_one_device
from minipaged.attention.triton.geometry import padded
from minipaged.attention.triton.loader import load

triton, tl = load()


@triton.jit
def write_kernel(
    k_ptr, v_ptr, k_cache_ptr, v_cache_ptr, slot_mapping_ptr,
    k_stride_token, k_stride_head, v_stride_token, v_stride_head, k_stride_block, k_stride_slot, k_cache_stride_head,
    v_stride_block, v_stride_slot, v_cache_stride_head,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, PADDED_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
):  # fmt: skip
    """One token's K and V, [NUM_KV_HEADS, HEAD_DIM] each."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token).to(tl.int64)  # int64: times a stride it may pass 2**31
    block, offset = slot // BLOCK_SIZE, slot % BLOCK_SIZE
    heads, dims = tl.arange(0, PADDED_HEADS).to(tl.int64)[:, None], tl.arange(0, PADDED_DIM)[None, :]
    mask = (heads < NUM_KV_HEADS) & (dims < HEAD_DIM) & (slot >= 0)
    k = tl.load(k_ptr + token * k_stride_token + heads * k_stride_head + dims, mask=mask, other=0.0)
    v = tl.load(v_ptr + token * v_stride_token + heads * v_stride_head + dims, mask=mask, other=0.0)
    k_start = block * k_stride_block + offset * k_stride_slot
    v_start = block * v_stride_block + offset * v_stride_slot
    tl.store(k_cache_ptr + k_start + heads * k_cache_stride_head + dims, k, mask=mask)
    tl.store(v_cache_ptr + v_start + heads * v_cache_stride_head + dims, v, mask=mask)


def write(k, v, k_cache, v_cache, slot_mapping):
    """Put each token's K and V into its slot; slot -1 writes nothing.

    k, v: [num_tokens, num_kv_heads, head_dim]. k_cache, v_cache: [num_blocks, block_size, num_kv_heads, head_dim].
    slot_mapping: [num_tokens] int32; two tokens with one slot would race. Raises ValueError for arguments that don't
    fit, with nothing written.
    """
    check_indices(slot_mapping=slot_mapping)
    check_slots(slot_mapping, k_cache.shape[0] * k_cache.shape[1])
    check_shapes(k, v, k_cache, v_cache, slot_mapping)
    launch(k, v, k_cache, v_cache, slot_mapping)


def check_slots(slot_mapping, num_slots):
    """Raises ValueError for a slot that doesn't exist."""
    slots = slot_mapping.tolist()
    if slots and (min(slots) < -1 or max(slots) >= num_slots):
        raise ValueError(f"slots from {min(slots)} to {max(slots)}: must lie between -1 and {num_slots - 1}")


def check_shapes(k, v, k_cache, v_cache, slot_mapping):
    """Everything that can be checked without waiting for the GPU."""
    if k_cache.shape != v_cache.shape:
        raise ValueError(f"k_cache {tuple(k_cache.shape)} and v_cache {tuple(v_cache.shape)} must have the same shape")
    expected = (len(slot_mapping), *k_cache.shape[2:])
    if k.shape != expected or v.shape != expected:
        raise ValueError(f"k {tuple(k.shape)} and v {tuple(v.shape)}: both must be {expected} for these slots")
    check_alike(k=k, v=v, k_cache=k_cache, v_cache=v_cache)
    check_last_stride(k=k, v=v, k_cache=k_cache, v_cache=v_cache)
    check_one_device(k=k, v=v, k_cache=k_cache, v_cache=v_cache, slot_mapping=slot_mapping)


def launch(k, v, k_cache, v_cache, slot_mapping):
    """write, without the checks."""
    if len(slot_mapping) == 0:
        return
    write_kernel[len(slot_mapping),](
        k, v, k_cache, v_cache, slot_mapping,
        *k.stride()[:2], *v.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], **constants(k_cache),
    )  # fmt: skip


def constants(cache):
    """What the kernel is compiled for."""
    _, block_size, num_kv_heads, head_dim = cache.shape
    heads = {"NUM_KV_HEADS": num_kv_heads, "PADDED_HEADS": padded(num_kv_heads)}
    return {"BLOCK_SIZE": block_size, **heads, "HEAD_DIM": head_dim, "PADDED_DIM": padded(head_dim)}
