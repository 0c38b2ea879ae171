# Right: two dicts, of which one keeps the copies in a dict too; the most blocks are counted by a division.

from hashlib import sha256
from struct import pack

from minipaged.memory.prefix_cache import ROOT


def block_hashes(token_ids, block_size, parent=ROOT):
    hashes = []
    for number in range(len(token_ids) // block_size):
        own = token_ids[number * block_size :][:block_size]
        hashes.append(sha256((hashes[-1] if hashes else parent) + pack(f">{block_size}Q", *own)).digest())
    return hashes


class PrefixCache:
    def __init__(self, block_size):
        self.block_size, self.hash_by_block, self.copies = block_size, {}, {}

    def remember(self, block, block_hash):
        if self.hash_of(block) != block_hash:
            self.forget(block)
            self.hash_by_block[block] = block_hash
            self.copies.setdefault(block_hash, {})[block] = True

    def forget(self, block):
        if block in self.hash_by_block:
            del self.copies[self.hash_by_block.pop(block)][block]  # an empty dict may be left: it is never hit

    def hash_of(self, block):
        return self.hash_by_block.get(block)

    def longest_hit(self, token_ids):
        hit, most = [], (len(token_ids) - 1) // self.block_size
        for block_hash in block_hashes(token_ids, self.block_size)[: max(0, most)]:
            for block in self.copies.get(block_hash, ()):
                hit.append(block)
                break
            else:
                return hit
        return hit

    def clear(self):
        self.__init__(self.block_size)
