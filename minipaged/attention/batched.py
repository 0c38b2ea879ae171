"""Attention through block tables in batched torch operations: the same sum as attention/reference.py, fast on a CPU.

A few sequences at a time are gathered, block by block, into one dense workspace, and torch's own attention reads that.
What the layers of a step have in common (who is attended with whom, their tables, their masks) is prepared once a step.
The cache itself is never changed here. Lesson 05 shows what the gathering costs.
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from minipaged.attention.kv_codec import decode
from minipaged.attention.reference import check_arguments

WORKSPACE_TOKENS = 16384  # K and V of so many tokens are gathered at a time: 4 MB each for the tiny model
MANY = 16  # from so many sequences on, padding queries saves more than it costs
SHORT = 64  # so many tokens of padding cost less than one more group


class Layout(NamedTuple):
    """What is to be known of a cache to gather from it."""

    shape: torch.Size  # [num_blocks, block_size, num_kv_heads, head_dim]
    dtype: torch.dtype  # in which is summed, whatever is stored
    device: torch.device


class Group(NamedTuple):
    """Sequences attended together: each has one query, or all have the same numbers of queries and of keys.

    Their blocks are copied into `gathered`: K and V, each [num_seqs * max_blocks, numbers in a block]. `dense` is the
    same memory, cut to the longest sequence: K and V, each [num_seqs, num_kv_heads, num_keys, head_dim].
    """

    rows: slice | torch.Tensor  # which rows of q and of the output are theirs
    blocks: torch.Tensor  # [num_seqs * max_blocks] int32: the tables, one after the other
    mask: torch.Tensor | None  # added to the scores, 0 or -inf: [num_seqs, 1, 1, num_keys] or [num_queries, num_keys]
    unwritten: torch.Tensor | None  # which of the num_seqs * max_blocks * block_size gathered tokens nobody may read
    gathered: list
    dense: list


class BatchedAttention:
    """The fast backend of the model: plan once a step, then run once a layer.

    workspace_tokens bounds what is gathered at a time; a longer sequence is gathered alone. (FlashInfer's wrappers have
    these two verbs: flashinfer/decode.py, BatchDecodeWithPagedKVCacheWrapper.)
    """

    def __init__(self, workspace_tokens=WORKSPACE_TOKENS):
        if workspace_tokens < 1:
            raise ValueError(f"workspace_tokens={workspace_tokens}: must be at least 1")
        self.workspace_tokens = workspace_tokens
        self._workspaces = {}

    def plan(self, block_tables, seq_lens, query_start_loc):
        """Returns run(q, k_cache, v_cache, scale, k_scale=None, v_scale=None) -> out. Shapes and meaning are those of
        reference.paged_attention."""
        groups = None

        def run(q, k_cache, v_cache, scale, k_scale=None, v_scale=None):
            nonlocal groups
            if groups is None:  # the first layer's call: only the cache knows the block size
                check_arguments(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, k_scale, v_scale)
                tables = block_tables.cpu().numpy()  # numpy is faster than torch on so few numbers
                cache = Layout(k_cache.shape, q.dtype, q.device)
                groups = self._groups(cache, tables, seq_lens.tolist(), query_start_loc.tolist())
            stored = (k_cache, k_scale), (v_cache, v_scale)
            if len(groups) == 1 and groups[0].rows == slice(0, q.shape[0]):  # nearly every step: all of them together
                return attend(q, stored, groups[0], scale)
            out = torch.zeros_like(q)
            for group in groups:
                out[group.rows] = attend(q[group.rows], stored, group, scale)
            return out

        return run

    def _groups(self, cache, tables, lengths, starts):
        """Who is attended with whom. Sequences without keys or without queries are in no group: their output is zeros.

        Sequences with several queries (chunks of prompts) share a group if they have as many queries and keys. Those
        with one query are sorted by length, and one joins a group whose longest is at most twice its own length, or at
        most SHORT tokens longer: everyone in a group costs as much as its longest.
        """
        groups, decodes, chunks = [], [], defaultdict(list)
        for i, length in enumerate(lengths):
            num_queries = starts[i + 1] - starts[i]
            if length and num_queries == 1:
                decodes.append(i)
            elif length and num_queries:
                chunks[num_queries, length].append(i)
        for (num_queries, length), alike in chunks.items():
            room = self._room(cache, length)
            for members in (alike[j : j + room] for j in range(0, len(alike), room)):
                rows = [row for i in members for row in range(starts[i], starts[i + 1])]
                groups.append(self._chunks(cache, tables[members], length, num_queries, rows))
        decodes.sort(key=lambda i: lengths[i], reverse=True)
        while decodes:
            longest = lengths[decodes[0]]
            shortest = min((longest + 1) // 2, longest - SHORT)
            members = sorted(i for i in decodes[: self._room(cache, longest)] if lengths[i] >= shortest)
            decodes = decodes[len(members) :]
            rows = [starts[i] for i in members]
            groups.append(self._decodes(cache, tables[members], [lengths[i] for i in members], rows))
        return groups

    def _room(self, cache, length):
        """How many sequences of this length can be gathered together."""
        block_size = cache.shape[1]
        return max(1, self.workspace_tokens // (math.ceil(length / block_size) * block_size))

    def _chunks(self, cache, tables, length, num_queries, rows):
        """Sequences whose last positions are the queries: each sees the keys up to its own position."""
        position = np.arange(length)
        visible = position <= position[length - num_queries :, None]  # [num_queries, num_keys]
        return self._group(cache, rows, tables, length, visible)

    def _decodes(self, cache, tables, lengths, rows):
        """Sequences with one query each, which sees every key: only what fills up the shorter ones has to be hidden."""
        block_size, longest = cache.shape[1], max(lengths)
        if min(lengths) == longest:
            return self._group(cache, rows, tables, longest)
        max_blocks = math.ceil(longest / block_size)
        visible = np.arange(max_blocks * block_size) < np.array(lengths)[:, None]
        # Past a sequence's end its table may hold anything: block 0 stands in, since some block must be gathered there.
        tables = np.where(visible[:, ::block_size], tables[:, :max_blocks], 0)
        unwritten = torch.from_numpy(np.flatnonzero(~visible)).to(cache.device)
        return self._group(cache, rows, tables, longest, visible[:, None, None, :longest], unwritten)

    def _group(self, cache, rows, tables, num_keys, visible=None, unwritten=None):
        """A Group of these tables. visible: which keys a query sees, None for all. Raises ValueError for a block that
        isn't in the cache."""
        num_blocks, block_size, *per_token = cache.shape
        adjacent = rows[-1] - rows[0] == len(rows) - 1
        rows = slice(rows[0], rows[-1] + 1) if adjacent else torch.tensor(rows, device=cache.device)
        tables = tables[:, : math.ceil(num_keys / block_size)]
        if tables.min() < 0 or tables.max() >= num_blocks:
            wrong = f"{tables.min()} to {tables.max()}"
            raise ValueError(f"a table names blocks {wrong}: ids in this cache run from 0 to {num_blocks - 1}")
        blocks = torch.from_numpy(tables.ravel()).to(cache.device)
        gathered = [workspace[: len(blocks)] for workspace in self._workspace(cache, len(blocks))]
        dense = [tokens.view(len(tables), -1, *per_token)[:, :num_keys].transpose(1, 2) for tokens in gathered]
        mask = None
        if visible is not None:  # torch takes booleans too, but turns them into this again in every layer
            mask = torch.from_numpy(visible).to(cache.device)
            mask = torch.where(mask, 0.0, float("-inf")).to(cache.dtype)
        return Group(rows, blocks, mask, unwritten, gathered, dense)

    def _workspace(self, cache, num_blocks):
        """Room to gather num_blocks blocks of K and of V: two tensors, kept from step to step, larger when needed.

        Why not cache[table], which is a line: indexing takes up to four times as long as index_select on a CPU, and
        tensors that stay need no new memory and no new views in every layer.
        """
        key = cache.dtype, cache.device, cache.shape[1:]
        pair = self._workspaces.get(key)
        if pair is None or len(pair[0]) < num_blocks:
            size = max(num_blocks, 2 * len(pair[0])) if pair else num_blocks  # doubled, so that growing is rare
            with torch.inference_mode(False):  # made inside inference mode, they could not be written outside it
                pair = [torch.empty(size, cache.shape[1:].numel(), dtype=key[0], device=key[1]) for _ in range(2)]
            self._workspaces[key] = pair
        return pair


def attend(q, stored, group, scale):
    """The group's queries over their keys. q: [num_seqs * num_queries, num_heads, head_dim] -> the same shape.

    stored: (k_cache, k_scale), (v_cache, v_scale).
    """
    for (cache, scales), gathered in zip(stored, group.gathered):
        if cache.dtype == q.dtype:
            torch.index_select(cache.flatten(1), 0, group.blocks, out=gathered)
        else:
            scales = None if scales is None else scales.index_select(0, group.blocks)
            gathered.copy_(decode(cache.index_select(0, group.blocks), scales).flatten(1))
        if group.unwritten is not None:  # hiding them is not enough: 0 times a stale NaN is NaN
            gathered.view(-1, cache[0, 0].numel()).index_fill_(0, group.unwritten, 0)
    k, v = group.dense
    num_seqs, num_kv_heads, _, head_dim = k.shape
    if num_seqs == q.shape[0]:
        # One query each. The query heads that read the same KV head stand as rows of one head, so that its keys are
        # read once for all of them: [num_seqs, num_kv_heads, num_heads // num_kv_heads, head_dim].
        folded = q.view(num_seqs, num_kv_heads, -1, head_dim)
        if padded := folded.shape[2] % 4 == 3 and num_seqs >= MANY:
            folded = F.pad(folded, (0, 0, 0, 1))  # on a CPU, products with 4 rows are faster than those with 3
        out = F.scaled_dot_product_attention(folded, k, v, attn_mask=group.mask, scale=scale)
        return (out[:, :, :-1] if padded else out).flatten(1, 2)
    heads_first = q.unflatten(0, (num_seqs, -1)).transpose(1, 2)  # [num_seqs, num_heads, num_queries, head_dim]
    out = F.scaled_dot_product_attention(heads_first, k, v, attn_mask=group.mask, scale=scale, enable_gqa=True)
    return out.transpose(1, 2).flatten(0, 1)


def paged_attention(q, k_cache, v_cache, block_tables, seq_lens, query_start_loc, scale, k_scale=None, v_scale=None):
    """Plan and run once. Arguments and result are those of reference.paged_attention."""
    run = BatchedAttention().plan(block_tables, seq_lens, query_start_loc)
    return run(q, k_cache, v_cache, scale, k_scale, v_scale)
