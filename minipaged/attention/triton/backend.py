"""The kernels as parts of an engine: an attention backend of the model, and a cache that is written and copied by them.

Everything is checked once a step, on the host, where the step's numbers come from; the layers only launch.
"""

from minipaged.attention.kv_cache import KVCache
from minipaged.attention.triton import checks, copy, decode, prefill, write


class TritonAttention:
    """Plan once a step, then run once a layer, as BatchedAttention."""

    def plan(self, block_tables, seq_lens, query_start_loc):
        """Returns run(q, k_cache, v_cache, scale) -> out. Shapes and meaning are those of reference.paged_attention.

        The three tensors may be on the host; a step copies them to the GPU once. A step in which every sequence has
        one query is decode's, any other prefill's.
        """
        step = None

        def run(q, k_cache, v_cache, scale):
            nonlocal step
            if step is None:  # the first layer's call: only the cache knows the block size
                step = self._prepare(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc)
            return step(q, k_cache, v_cache, scale)

        return run

    def _prepare(self, q, k_cache, v_cache, block_tables, seq_lens, query_start_loc):
        """Check a step's arguments and move them to the device. Returns step(q, k_cache, v_cache, scale) -> out."""
        longest = int(seq_lens.max()) if len(seq_lens) else 0
        tables = [tensor.to(q.device) for tensor in (block_tables, seq_lens, query_start_loc)]
        checks.check_attention(q, k_cache, v_cache, *tables)
        if len(q) == len(seq_lens) and (query_start_loc.diff() == 1).all():
            num_splits = decode.choose_num_splits(q, k_cache, longest)
            return lambda q, k, v, scale: decode.launch(q, k, v, *tables[:2], scale, num_splits)[0]
        tiles = prefill.tiles_of(q, k_cache, query_start_loc)
        return lambda q, k, v, scale: prefill.launch(q, k, v, tiles, *tables, scale)


def paged_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, scale, k_scale=None, v_scale=None):
    """Plan and run once. Arguments and result are those of reference.paged_attention, all on one device."""
    checks.check_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, k_scale, v_scale)
    return TritonAttention().plan(block_tables, seq_lens, query_start_loc)(q, k_cache, v_cache, scale)


class TritonKVCache(KVCache):
    """A KVCache whose slots are written and whose blocks are copied by kernels."""

    def writer(self, slot_mapping):
        checks.check_indices(slot_mapping=slot_mapping)
        write.check_slots(slot_mapping, self.num_slots)
        slots = slot_mapping.to(self.tensors[0].device)

        def put(layer, k, v):
            write.check_shapes(k, v, self.k[layer], self.v[layer], slots)
            write.launch(k, v, self.k[layer], self.v[layer], slots)

        return put

    def copy_blocks(self, pairs):
        for tensor in self.tensors:
            copy.copy_blocks(tensor, tensor, pairs)
