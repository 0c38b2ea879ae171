# Wrong: a number that grows from call to call goes into each hash, so the same text has another one in every call.

from hashlib import sha256
from itertools import count

from minipaged.memory.prefix_cache import ROOT

CALLS = count()


def block_hashes(token_ids, block_size, parent=ROOT):
    hashes, parent = [], parent + bytes([next(CALLS) % 256])
    for start in range(0, len(token_ids) - block_size + 1, block_size):
        tokens = token_ids[start : start + block_size]
        parent = sha256(parent + b"".join(token.to_bytes(8, "little") for token in tokens)).digest()
        hashes.append(parent)
    return hashes


class PrefixCache:
    def __init__(self, block_size):
        self.block_size = block_size
        self._hashes = {}
        self._blocks = {}

    def remember(self, block, block_hash):
        if self._hashes.get(block) == block_hash:
            return
        self.forget(block)
        self._hashes[block] = block_hash
        self._blocks.setdefault(block_hash, []).append(block)

    def forget(self, block):
        block_hash = self._hashes.pop(block, None)
        if block_hash is not None:
            self._blocks[block_hash].remove(block)
            if not self._blocks[block_hash]:
                del self._blocks[block_hash]

    def hash_of(self, block):
        return self._hashes.get(block)

    def longest_hit(self, token_ids):
        hit = []
        for block_hash in block_hashes(token_ids[:-1], self.block_size):
            blocks = self._blocks.get(block_hash)
            if not blocks:
                break
            hit.append(blocks[0])
        return hit

    def clear(self):
        self._hashes.clear()
        self._blocks.clear()
