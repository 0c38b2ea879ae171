# Right: every block has a number that says when it came; tokens are told as text, with a comma after each.

import hashlib
from itertools import count, takewhile

from minipaged.memory.prefix_cache import ROOT


def block_hashes(token_ids, block_size, parent=ROOT):
    hashes, start = [parent], 0
    while start + block_size <= len(token_ids):
        digest = hashlib.sha256(hashes[-1])
        for token in token_ids[start : start + block_size]:
            digest.update(b"%d," % token)
        hashes.append(digest.digest())
        start += block_size
    return hashes[1:]


class PrefixCache:
    def __init__(self, block_size):
        self.block_size = block_size
        self.clock = count()
        self.known = {}  # block -> (hash, when)

    def remember(self, block, block_hash):
        if self.hash_of(block) != block_hash:
            self.known[block] = block_hash, next(self.clock)

    def forget(self, block):
        self.known = {each: entry for each, entry in self.known.items() if each != block}

    def hash_of(self, block):
        return self.known.get(block, (None, 0))[0]

    def oldest(self, block_hash):
        ages = [(when, block) for block, (known, when) in self.known.items() if known == block_hash]
        return min(ages)[1] if ages else None

    def longest_hit(self, token_ids):
        found = map(self.oldest, block_hashes(token_ids[: max(0, len(token_ids) - 1)], self.block_size))
        return list(takewhile(lambda block: block is not None, found))

    def clear(self):
        self.known = {}
