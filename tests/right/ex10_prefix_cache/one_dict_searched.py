# Right: one dict only, block -> hash, in the order in which blocks were remembered; a hit searches it.

from hashlib import sha256

from minipaged.memory.prefix_cache import ROOT


def block_hashes(token_ids, block_size, parent=ROOT):
    if len(token_ids) < block_size:
        return []
    tokens = b"".join(int(token).to_bytes(8, "big") for token in token_ids[:block_size])
    own = sha256(tokens + parent).digest()
    return [own, *block_hashes(token_ids[block_size:], block_size, own)]


class PrefixCache(dict):
    def __init__(self, block_size):
        super().__init__()
        self.block_size = block_size

    def remember(self, block, block_hash):
        if self.get(block) != block_hash:
            self.pop(block, None)
            self[block] = block_hash

    def forget(self, block):
        self.pop(block, None)

    def hash_of(self, block):
        return self.get(block)

    def clear(self):
        super().clear()

    def longest_hit(self, token_ids):
        hit = []
        for block_hash in block_hashes(token_ids[:-1], self.block_size):
            block = next((each for each, known in self.items() if known == block_hash), None)
            if block is None:
                break
            hit.append(block)
        return hit
