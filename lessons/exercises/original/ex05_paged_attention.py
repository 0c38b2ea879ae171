"""Exercise 05: attention through a block table.

Goal: one query attends over one sequence's keys, which lie in blocks anywhere in the pool. For each query head: the
softmax of scale * (q . k) over the keys at positions 0 .. seq_len - 1, then the sum of their values with these weights.

    q             [num_heads, head_dim] float32 or float64
    k_cache       [num_blocks, block_size, num_kv_heads, head_dim] of q's dtype; block_size is any number from 1
    v_cache       the same shape
    block_table   [max_blocks] int32: entry i is the physical block of positions i * block_size and those that follow
    seq_len       a plain number: how many keys the query sees; 0: none
    scale         what q . k is multiplied by; any positive number, not always head_dim ** -0.5
    returns       [num_heads, head_dim] of q's dtype

Query head h reads KV head h // (num_heads // num_kv_heads). Table entries past ceil(seq_len / block_size) may hold
anything: never look a block up by one. Slots past seq_len hold anything too, even NaN, and 0 * NaN is NaN. q, k_cache
and v_cache may be parts of larger tensors, and nothing that is given may be changed.

Walk over the blocks one after the other, as the lesson does. The checks look only at the answer.

Edit below the line, not the tests. About 15 lines, 40 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex05 --impl yours -x

Hints: python -m minipaged.exercises hint ex05
"""

import torch  # noqa: F401 (for you to use)

# ------------------------------------------------------------------------------------------------ edit below this line


def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
    """One query over the first seq_len positions of one sequence. Returns [num_heads, head_dim]; zeros if seq_len is 0.

    Scores may be large: exp(score) overflows unless the largest score is taken off first.
    """
    raise NotImplementedError("ex05: attend_one is yours to write")
