"""Which block holds the content that a new prompt begins with: a full block is found by a hash of all tokens up to its
end.

K and V of a token depend on every token before it. So equal tokens in a block are not enough: what a block's hash names
is its own tokens and the hash of the block before it, and so the whole text from the beginning. Two blocks have the
same hash only if they have the same past. Nothing here knows whether a block is free: that is the allocator's. Lesson
10 builds it. (vLLM: v1/core/kv_cache_utils.py, hash_block_tokens, and v1/core/block_pool.py.)
"""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from struct import Struct

from minipaged.arguments import whole

ROOT = bytes(32)  # the parent of a text's first block


def block_hashes(token_ids, block_size, parent=ROOT):
    """The hash of every full block of these tokens, in order: list[bytes], 32 bytes each.

    parent: the hash of the block before the first one. A block's hash is the SHA-256 of its parent's hash and its
    tokens, 8 bytes each, the lowest first. The rest, which fills no block, has none.
    """
    return list(chain(token_ids, whole("block_size", block_size, least=1), parent))


def chain(token_ids, block_size, parent=ROOT):
    """As block_hashes, but one at a time, for whoever may stop early."""
    pack = packer(block_size)
    for stop in range(block_size, len(token_ids) + 1, block_size):
        parent = sha256(parent + pack(*token_ids[stop - block_size : stop])).digest()
        yield parent


@lru_cache
def packer(block_size):
    """So many token ids -> bytes. q is 8 of them, so that no token id is cut and meets another one."""
    return Struct(f"<{block_size}q").pack


class PrefixCache:
    """What can be hit: block -> the hash of its content, and hash -> all blocks with that content.

    Several blocks can hold the same: two equal prompts in one step are both computed. A hit takes the one that has been
    here longest, and if that is forgotten there is still the other. Raises ValueError for block_size < 1.
    """

    def __init__(self, block_size):
        self.block_size = whole("block_size", block_size, least=1)
        self.clear()

    def longest_hit(self, token_ids):
        """The blocks that hold the beginning of these tokens, in order: as many as there are without a gap.

        Never all of the tokens: the last one is left to be computed, since the next token is read off its output. So a
        hit has at most (num_tokens - 1) // block_size blocks. Changes nothing.
        """
        most = max(0, len(token_ids) - 1) // self.block_size
        hit = []
        for block_hash in chain(token_ids[: most * self.block_size], self.block_size):
            blocks = self._blocks.get(block_hash)
            if not blocks:
                break
            hit.append(next(iter(blocks)))
        return hit

    def remember(self, block, block_hash):
        """A block holds the content that this hash names, from now on and until it is forgotten."""
        before = self._hashes.get(block)
        if before == block_hash:
            return  # and it keeps its place among the others
        if before is not None:
            self.forget(block)
        self._hashes[block] = block_hash
        self._blocks.setdefault(block_hash, {})[block] = None

    def forget(self, block):
        """A block is about to be written: whatever it held can't be hit any more. Nothing, if that is so already."""
        block_hash = self._hashes.pop(block, None)
        if block_hash is not None:
            del self._blocks[block_hash][block]
            if not self._blocks[block_hash]:
                del self._blocks[block_hash]

    def hash_of(self, block):
        """The hash of a block's content, or None if it can't be hit."""
        return self._hashes.get(block)

    def clear(self):
        """Forget all blocks."""
        self._hashes = {}  # block -> hash
        self._blocks = {}  # hash -> its blocks, the oldest first: a dict of None, as an ordered set


@dataclass
class PrefixStats:
    """What the hits have saved since the memory was made. (vLLM: v1/metrics/stats.py, PrefixCacheStats.)"""

    queries: int = 0  # admissions
    hits: int = 0  # those of them that found a block or more
    tokens_asked: int = 0  # that the admitted sequences had
    tokens_saved: int = 0  # of these, found: neither computed nor stored again
    evictions: int = 0  # blocks handed out although their content could still have been hit

    @property
    def hit_rate(self):
        """Tokens saved for each token asked for; 0 before the first."""
        return self.tokens_saved / max(1, self.tokens_asked)

    def count(self, num_tokens, num_cached):
        """A sequence of num_tokens tokens was admitted, num_cached of which were found."""
        self.queries += 1
        self.hits += num_cached > 0
        self.tokens_asked += num_tokens
        self.tokens_saved += num_cached


# What PagedMemory does with a prefix cache, or with None where there is none.


def known(cache, blocks):
    """Those of these blocks whose content can be hit, in the same order."""
    return [block for block in blocks if cache.hash_of(block) is not None] if cache is not None else []


def forget_all(cache, blocks):
    """Forget these blocks. Returns those that could have been hit."""
    evicted = known(cache, blocks)
    for block in evicted:
        cache.forget(block)
    return evicted


def remember_full(cache, block_hashes, table, token_ids, num_hashed):
    """Remember a table's full blocks, but for the first num_hashed tokens, whose blocks are known already.

    block_hashes: the function. Returns how many tokens lie in known blocks now. Raises ValueError, with nothing
    changed, for fewer token_ids than that.
    """
    size = table.block_size
    first, last = num_hashed // size, table.num_tokens // size
    if len(token_ids) < last * size:
        raise ValueError(f"{len(token_ids)} token ids for {last * size} tokens in full blocks: all of them are needed")
    parent = cache.hash_of(table.blocks[first - 1]) if first else ROOT
    hashes = block_hashes(token_ids[num_hashed : last * size], size, parent)
    for block, block_hash in zip(table.blocks[first:last], hashes):
        cache.remember(block, block_hash)
    return last * size
