"""The bytes of the cache: K and V of every layer, in blocks.

It is told which slots to write and which blocks to copy, and does only that: it never decides which block belongs to
whom, and it never reads on anyone's behalf. Attention reads `k[layer]` and `v[layer]` through a block table. Lesson 05
builds it.
"""

import torch


class KVCache:
    """`k[layer]` and `v[layer]`: [num_blocks, block_size, num_kv_heads, head_dim].

    Slot s is place s % block_size in block s // block_size. All layers share the block ids: a block is a row of every
    tensor. `tensors` lists them all, and what is done to whole blocks loops over it, so that none can be forgotten.

    poison: for tests. Whatever nobody has written yet is NaN, which spreads to the output of whoever reads it. Raises
    ValueError for a size below 1 or a dtype that isn't floating point. (Paper: section 5.1, the first and the third of
    its kernels. vLLM: reshape_and_cache_flash in cache_kernels.cu writes.)
    """

    def __init__(
        self,
        num_layers,
        num_blocks,
        block_size,
        num_kv_heads,
        head_dim,
        dtype=torch.float32,
        device="cpu",
        poison=False,
    ):
        if min(num_layers, num_blocks, block_size, num_kv_heads, head_dim) < 1:
            raise ValueError(
                f"num_layers={num_layers}, num_blocks={num_blocks}, block_size={block_size}, "
                f"num_kv_heads={num_kv_heads}, head_dim={head_dim}: each must be at least 1"
            )
        if not dtype.is_floating_point:
            raise ValueError(f"dtype={dtype}: K and V are stored as floating point numbers")
        self.num_blocks, self.block_size, self.poison = num_blocks, block_size, poison
        shape = (num_blocks, block_size, num_kv_heads, head_dim)
        fill = float("nan") if poison else 0.0
        self.k = [torch.full(shape, fill, dtype=dtype, device=device) for _ in range(num_layers)]
        self.v = [torch.full(shape, fill, dtype=dtype, device=device) for _ in range(num_layers)]
        self.tensors = [*self.k, *self.v]
        # The same memory slot by slot: [num_slots, num_kv_heads, head_dim].
        self._k_slots, self._v_slots = ([tensor.flatten(0, 1) for tensor in side] for side in (self.k, self.v))

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
            self._k_slots[layer].index_copy_(0, slots, k.detach())  # detached: the cache keeps numbers, no history
            self._v_slots[layer].index_copy_(0, slots, v.detach())

        return write

    def apply(self, plan):
        """Do what a step asks of whole blocks before anything is computed: poison first, then copies.

        In that order, because a copy's destination is a block that was just handed out.
        """
        if self.poison:
            self.poison_blocks([*plan.handed_out, *plan.released])
        self.copy_blocks(plan.copies)

    def copy_blocks(self, pairs):
        """pairs: (source block, destination block). All sources are read before a destination is written.

        So (a, b) and (b, c) in one call give b what a held, and c what b held. Raises ValueError for a block that isn't
        there or is the destination of two pairs, with nothing copied.
        """
        if not pairs:
            return
        sources, destinations = map(self._block_index, zip(*pairs))
        if len(set(destinations.tolist())) < len(pairs):
            raise ValueError(f"copies {list(pairs)}: a block can be the destination of only one")
        for tensor in self.tensors:
            tensor.index_copy_(0, destinations, tensor.index_select(0, sources))

    def poison_blocks(self, ids):
        """Make every number in these blocks NaN."""
        index = self._block_index(ids)
        for tensor in self.tensors:
            tensor.index_fill_(0, index, float("nan"))

    def _block_index(self, ids):
        """Block ids as an index tensor. Raises ValueError for one that isn't in this cache."""
        for block in ids:
            if not 0 <= block < self.num_blocks:
                raise ValueError(f"block {block} is not in this cache: ids run from 0 to {self.num_blocks - 1}")
        return torch.tensor(ids, dtype=torch.long, device=self.tensors[0].device)
