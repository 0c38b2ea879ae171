# Right: torch's own attention over the gathered keys.

import torch.nn.functional as F


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    num_blocks = (seq_len + k_cache.shape[1] - 1) // k_cache.shape[1]
    blocks = block_table[:num_blocks]

    def gather(cache):
        heads_first = cache.index_select(0, blocks).flatten(0, 1)[:seq_len].transpose(0, 1)
        return heads_first.repeat_interleave(len(q) // len(heads_first), dim=0)

    out = F.scaled_dot_product_attention(q[:, None], gather(k_cache), gather(v_cache), scale=scale)
    return out[:, 0]
