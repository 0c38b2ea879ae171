# Right: each half of the blocks gives an output and a log-sum-exp, and two such pairs are merged into one.

import torch


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    block_size, num_kv_heads = k_cache.shape[1:3]

    def state(first, last):
        """(output, log-sum-exp) over the logical blocks first .. last - 1."""
        if last - first > 1:
            middle = (first + last) // 2
            (out_a, lse_a), (out_b, lse_b) = state(first, middle), state(middle, last)
            lse = torch.logaddexp(lse_a, lse_b)
            return (lse_a - lse).exp()[:, None] * out_a + (lse_b - lse).exp()[:, None] * out_b, lse
        block, count = block_table[first], min(block_size, seq_len - first * block_size)
        keys, values = (
            cache[block][:count].repeat_interleave(len(q) // num_kv_heads, 1) for cache in (k_cache, v_cache)
        )
        scores = torch.einsum("hd,nhd->hn", q * scale, keys)
        return torch.einsum("hn,nhd->hd", scores.softmax(1), values), scores.logsumexp(1)

    num_blocks = -(-seq_len // block_size)
    return state(0, num_blocks)[0] if num_blocks else q.new_zeros(q.shape)
