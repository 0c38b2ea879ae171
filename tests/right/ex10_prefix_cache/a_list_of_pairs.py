# Right: the blocks are kept in the order in which they came; a prompt's hashes are looked for among theirs.

from hashlib import sha256

from minipaged.memory.prefix_cache import ROOT


def block_hashes(token_ids, block_size, parent=ROOT):
    full = len(token_ids) - len(token_ids) % block_size
    hashes = []
    for first in range(0, full, block_size):
        message = repr((parent, token_ids[first : first + block_size]))
        parent = sha256(message.encode()).digest()
        hashes += [parent]
    return hashes


class PrefixCache:
    def __init__(self, block_size):
        self.block_size = block_size
        self.clear()

    def clear(self):
        self.known = []

    def remember(self, block, block_hash):
        if (block, block_hash) not in self.known:
            self.forget(block)
            self.known.append((block, block_hash))

    def forget(self, block):
        self.known = [pair for pair in self.known if pair[0] != block]

    def hash_of(self, block):
        return dict(self.known).get(block)

    def longest_hit(self, token_ids):
        first = {block_hash: block for block, block_hash in reversed(self.known)}
        hit = []
        for block_hash in block_hashes(token_ids, self.block_size):
            if block_hash not in first or len(token_ids) <= (len(hit) + 1) * self.block_size:
                break
            hit.append(first[block_hash])
        return hit
