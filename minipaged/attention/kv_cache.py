"""The bytes of the cache: K and V of every layer, in blocks.

It is told which slots to write and which blocks to copy or swap, and does only that: it never decides which block
belongs to whom, and it never reads on anyone's behalf. Attention reads `k[layer]` and `v[layer]` through a block table.
Lesson 05 builds it.
"""

import torch

from minipaged.attention import kv_codec


class KVCache:
    """`k[layer]` and `v[layer]`: [num_blocks, block_size, num_kv_heads, head_dim].

    Slot s is at offset s % block_size in block s // block_size. All layers share the block ids: a block is a row of
    every tensor. `tensors` lists them all, and what is done to whole blocks loops over it, so that none can be
    forgotten; `host_tensors` are their counterparts in the host's memory, of num_host_blocks blocks.

    cache_dtype: how numbers are stored, a name that kv_codec knows. Where these are codes, `k_scale[layer]` and
    `v_scale[layer]`, [num_blocks, block_size, num_kv_heads] float32, belong to them; else they are None. codec: whose
    `encode` makes codes and scales, the module kv_codec or something like it; without scales nobody is asked.

    poison: for tests. Whatever nobody has written yet is NaN, or its scale is, which spreads to the output of whoever
    reads it. Raises ValueError for a size below 1 or a type that isn't known. (Paper: section 5.1, the first and the
    third of its kernels. vLLM: reshape_and_cache_flash in cache_kernels.cu writes.)
    """

    def __init__(
        self,
        num_layers,
        num_blocks,
        block_size,
        num_kv_heads,
        head_dim,
        cache_dtype="float32",
        device="cpu",
        poison=False,
        num_host_blocks=0,
        codec=kv_codec,
    ):
        if min(num_layers, num_blocks, block_size, num_kv_heads, head_dim) < 1:
            raise ValueError(
                f"num_layers={num_layers}, num_blocks={num_blocks}, block_size={block_size}, "
                f"num_kv_heads={num_kv_heads}, head_dim={head_dim}: each must be at least 1"
            )
        if num_host_blocks < 0:
            raise ValueError(f"num_host_blocks={num_host_blocks}: must be 0 or more")
        dtype, is_coded = kv_codec.code_type(cache_dtype), kv_codec.has_scales(cache_dtype)
        self.num_blocks, self.block_size, self.poison = num_blocks, block_size, poison
        self.num_host_blocks, self.cache_dtype, self._codec = num_host_blocks, cache_dtype, codec
        stored = torch.uint8 if is_coded else dtype  # index_copy_ knows bytes, but not fp8
        per_slot = [((num_kv_heads, head_dim), stored)] * 2 * num_layers  # K of every layer, then V of every layer
        if is_coded:
            per_slot += [((num_kv_heads,), torch.float32)] * 2 * num_layers

        def pool(num_blocks, device):
            made = []
            for shape, dtype in per_slot:
                fill = float("nan") if poison and dtype.is_floating_point else 0
                made.append(torch.full((num_blocks, block_size, *shape), fill, dtype=dtype, device=device))
            return made

        self.tensors, self.host_tensors = pool(num_blocks, device), pool(num_host_blocks, "cpu")
        sides = [self.tensors[i : i + num_layers] for i in range(0, len(self.tensors), num_layers)]
        self.k, self.v = ([tensor.view(dtype) for tensor in side] for side in sides[:2])
        self.k_scale, self.v_scale = sides[2:] or ([None] * num_layers, [None] * num_layers)
        # The same memory slot by slot, by layers: [num_slots, num_kv_heads, head_dim], scales without head_dim.
        self._slots = [[tensor.flatten(0, 1) for tensor in self.tensors[i::num_layers]] for i in range(num_layers)]

    @property
    def num_slots(self):
        return self.num_blocks * self.block_size

    @property
    def bytes_per_block(self):
        """What one block costs, all layers together."""
        return sum(tensor[0].nbytes for tensor in self.tensors)

    def write(self, layer, k, v, slot_mapping):
        """Put each token's K and V into its slot.

        k, v: [num_tokens, num_kv_heads, head_dim]. slot_mapping: [num_tokens] int32, where -1 writes nothing.
        Raises ValueError for a shape that doesn't fit or a slot that doesn't exist, with nothing written.
        """
        self.writer(slot_mapping)(layer, k, v)

    def writer(self, slot_mapping):
        """Returns write(layer, k, v) for these slots: they are the same in all layers, so they are checked once a step.

        slot_mapping: [num_tokens] int32. Raises ValueError for a slot that doesn't exist; the function it returns does
        for a shape that doesn't fit.
        """
        num_tokens = len(slot_mapping)
        array = slot_mapping.cpu().numpy()  # numpy is faster than torch on so few numbers
        lowest, highest = (int(array.min()), int(array.max())) if num_tokens else (0, -1)
        if lowest < -1 or highest >= self.num_slots:
            raise ValueError(f"slots from {lowest} to {highest}: must lie between -1 and {self.num_slots - 1}")
        used = slot_mapping >= 0 if lowest == -1 else None  # padding is left out: index_copy_ knows no -1
        slots = (slot_mapping if used is None else slot_mapping[used]).long()  # nor int32
        slots = slots.to(self.tensors[0].device)
        expected = (num_tokens, *self.k[0].shape[2:])

        def write(layer, k, v):
            if k.shape != expected or v.shape != expected:
                raise ValueError(f"k {tuple(k.shape)} and v {tuple(v.shape)}: both must be {expected} for these slots")
            if used is not None:
                k, v = k[used], v[used]
            (k, k_scale), (v, v_scale) = self.encode(k), self.encode(v)
            for stored, numbers in zip(self._slots[layer], (k, v, k_scale, v_scale)):
                stored.index_copy_(0, slots, numbers.view(stored.dtype))

        return write

    def encode(self, x):
        """What is stored for these numbers: codes, and their scales or None."""
        codec = self._codec if kv_codec.has_scales(self.cache_dtype) else kv_codec
        return codec.encode(x.detach(), self.cache_dtype)  # detached: the cache keeps no history

    def apply(self, plan):
        """Do what a step asks of whole blocks before anything is computed: swap out, poison, swap in, copy.

        In that order: what is swapped out is saved before its block is another's, and a block that was just handed out
        is poisoned before anything is put into it. (A step that swaps out lets nobody in, so host blocks can't clash.)
        """
        self.swap_out(plan.swap_out)
        if self.poison:
            self.poison_blocks([*plan.handed_out, *plan.released])
        self.swap_in(plan.swap_in)
        self.copy_blocks(plan.copies)

    def copy_blocks(self, pairs):
        """pairs: (source block, destination block). All sources are read before a destination is written.

        So (a, b) and (b, c) in one call give b what a held, and c what b held. Raises ValueError for a block that isn't
        there or is the destination of two pairs, with nothing copied.
        """
        self._move(pairs, self.tensors, self.tensors)

    def swap_out(self, pairs):
        """pairs: (device block, host block). Copies device blocks to the host. Raises ValueError as copy_blocks."""
        self._move(pairs, self.tensors, self.host_tensors)

    def swap_in(self, pairs):
        """pairs: (host block, device block). The way back."""
        self._move(pairs, self.host_tensors, self.tensors)

    def _move(self, pairs, from_tensors, to_tensors):
        """One batched copy a tensor, whatever the number of blocks."""
        if not pairs:
            return
        sources, destinations = zip(*pairs)
        if len(set(destinations)) < len(pairs):
            raise ValueError(f"copies {list(pairs)}: a block can be the destination of only one")
        sources, destinations = _index(sources, from_tensors[0]), _index(destinations, to_tensors[0])
        for source, destination in zip(from_tensors, to_tensors, strict=True):
            moved = source.index_select(0, sources).to(destination.device)
            destination.index_copy_(0, destinations, moved)  # not destination[index].copy_: that fills a copy

    def poison_blocks(self, ids):
        """Make every number in these blocks NaN: itself, or its scale."""
        index = _index(ids, self.tensors[0])
        for tensor in self.tensors:
            if tensor.is_floating_point():
                tensor.index_fill_(0, index, float("nan"))


def _index(ids, tensor):
    """Block ids as an index of this tensor, [len(ids)] int64. Raises ValueError for one that it doesn't have."""
    for block in ids:
        if not 0 <= block < len(tensor):
            raise ValueError(f"block {block} is not in this cache: ids run from 0 to {len(tensor) - 1}")
    return torch.tensor(ids, dtype=torch.long, device=tensor.device)
