"""The kernels as parts of an engine: an attention backend of the model, and a cache that is written and copied by them.

A step's numbers are checked once, in its first layer; the others check only the shapes of what they write.
"""

from minipaged.attention.kv_cache import KVCache
from minipaged.attention.triton import checks, copy, decode, prefill, write
from minipaged.attention.triton.tile import raw


class TritonAttention:
    """Plan once a step, then run once a layer, as BatchedAttention."""

    def plan(self, block_tables, seq_lens, query_start_loc):
        """Returns run(q, k_cache, v_cache, scale, k_scale=None, v_scale=None) -> out, as reference.paged_attention.

        The three tensors may be on the host; a step copies them to the GPU once. A step in which every sequence has
        one query is decode's, any other prefill's.
        """
        step = None

        def run(q, k_cache, v_cache, scale, k_scale=None, v_scale=None):
            nonlocal step
            if step is None:  # the first layer's call: only the cache knows the block size
                tables = block_tables, seq_lens, query_start_loc
                step = self._prepare(q, k_cache, v_cache, *tables, k_scale, v_scale)
            return step(q, k_cache, v_cache, scale, k_scale, v_scale)

        return run

    def _prepare(self, q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, k_scale, v_scale):
        """Check a step's arguments and move them to the device. Returns what runs a layer, as plan does."""
        longest = int(seq_lens.max()) if len(seq_lens) else 0
        tables = [tensor.to(q.device) for tensor in (block_tables, seq_lens, query_start_loc)]
        checks.check_attention(q, k_cache, v_cache, *tables, k_scale, v_scale)
        if len(q) == len(seq_lens) and (query_start_loc.diff() == 1).all():
            num_splits = decode.choose_num_splits(q, k_cache, longest)
            return lambda q, k, v, *scales: decode.launch(q, k, v, *tables[:2], *scales, num_splits)[0]
        tiles = prefill.tiles_of(q, k_cache, query_start_loc)
        return lambda q, k, v, *scales: prefill.launch(q, k, v, tiles, *tables, *scales)


def paged_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, scale, k_scale=None, v_scale=None):
    """Plan and run once. Arguments and result are those of reference.paged_attention, all on one device."""
    tables = {"block_tables": block_tables, "seq_lens": seq_lens, "query_start_loc": query_start_loc}
    checks.check_one_device(q=q, **tables)  # a plan would move the tables, where they must not be elsewhere
    run = TritonAttention().plan(block_tables, seq_lens, query_start_loc)
    return run(q, k_cache, v_cache, scale, k_scale, v_scale)


class TritonKVCache(KVCache):
    """A KVCache whose slots are written and whose blocks are copied by kernels."""

    def writer(self, slot_mapping):
        checks.check_indices(slot_mapping=slot_mapping)
        write.check_slots(slot_mapping, self.num_slots)
        slots = slot_mapping.to(self.tensors[0].device)

        def put(layer, k, v):
            (k, k_scale), (v, v_scale) = self.encode(k), self.encode(v)
            write.check_shapes(k, v, self.k[layer], self.v[layer], slots)
            write.launch(raw(k), raw(v), raw(self.k[layer]), raw(self.v[layer]), slots)
            if k_scale is not None:
                scales = k_scale, v_scale, self.k_scale[layer], self.v_scale[layer]
                write.launch(*map(as_heads, scales), slots)

        return put

    def copy_blocks(self, pairs):
        for tensor in self.tensors:
            pool = tensor if tensor.dim() == 4 else as_heads(tensor)
            copy.copy_blocks(pool, pool, pairs)


def as_heads(scales):
    """To the kernels that move numbers, scales are heads of one number."""
    return scales.unsqueeze(-1)
