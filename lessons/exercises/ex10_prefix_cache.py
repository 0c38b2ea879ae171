"""Exercise 10: the prefix cache.

Goal: find the blocks that hold the beginning of a new prompt already, so that it needn't be computed again.

    token_ids     a list of token ids, each a whole number from 0 to 2**63 - 1; only to be read
    block_size    how many tokens a full block holds
    block         a block id, a whole number from 0
    hash          32 bytes that name what a full block holds: its tokens and all tokens before it
    parent        the hash of the block before; ROOT, which is given, for the first block of a text
    copies        blocks with the same hash: the same text was computed twice, say by two sequences in one step

The cache knows nothing of owners, nor of which block is free: it is told of every change by remember and forget.

Edit below the line, not the tests. About 30 lines, 30 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex10 --impl yours -x

Hints: python -m minipaged.exercises hint ex10
"""

from hashlib import sha256  # noqa: F401 (for you to use)

from minipaged.memory.prefix_cache import ROOT  # ROOT is bytes(32)

# ------------------------------------------------------------------------------------------------ edit below this line


def block_hashes(token_ids, block_size, parent=ROOT):
    """The hash of every full block of these tokens, in order: a list of bytes, 32 each.

    The first block comes after a block with the hash `parent`, each other after the one before it. A block's hash is
    the SHA-256 of its parent's hash and its own tokens, 8 bytes each: the same tokens after the same parent give the
    same hash, anything else another. How a token becomes 8 bytes is yours (`number.to_bytes(8, "little")` is one way),
    and so is whatever else keeps different tokens apart. Tokens at the end that fill no block have no hash.
    """
    raise NotImplementedError("ex10: block_hashes is yours to write")


class PrefixCache:
    """Which blocks can be hit. Hashes are those of block_hashes above, with this block_size."""

    def __init__(self, block_size):  # given, but you may keep other state than these two
        self.block_size = block_size
        self._hashes = {}  # block -> its hash
        self._blocks = {}  # hash -> the list of all blocks that have it, the oldest first

    def remember(self, block, block_hash):
        """From now on, and until it is forgotten, a block holds what this hash names.

        A block that had another hash has only the new one, and is the newest of the copies there. A block that has this
        very hash already stays as it is: it keeps its age.
        """
        raise NotImplementedError("ex10: PrefixCache.remember is yours to write")

    def forget(self, block):
        """A block is about to be written: it can't be hit any more. Its copies still can.

        Nothing happens if the cache doesn't know the block.
        """
        raise NotImplementedError("ex10: PrefixCache.forget is yours to write")

    def hash_of(self, block):
        """The hash of a block, or None if the cache doesn't know the block."""
        raise NotImplementedError("ex10: PrefixCache.hash_of is yours to write")

    def longest_hit(self, token_ids):
        """The blocks that hold the beginning of these tokens, in order, a new list: as many as there are with no gap.

        Of several copies the oldest is taken: the one remembered first. Never all of the tokens: at least the last one
        is left to be computed, so there are at most (len(token_ids) - 1) // block_size blocks. Changes nothing.
        """
        raise NotImplementedError("ex10: PrefixCache.longest_hit is yours to write")

    def clear(self):
        """Forget all blocks."""
        raise NotImplementedError("ex10: PrefixCache.clear is yours to write")
