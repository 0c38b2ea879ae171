# Right: each hash has an object with its list of blocks; a hit takes block after block off the text.

from array import array
from hashlib import sha256

from minipaged.memory.prefix_cache import ROOT


class Node:
    def __init__(self):
        self.blocks = []


def block_hashes(token_ids, block_size, parent=ROOT):
    hashes = []
    for end in range(block_size, len(token_ids) + 1, block_size):
        parent = sha256(parent + array("Q", token_ids[end - block_size : end]).tobytes()).digest()
        hashes.append(parent)
    return hashes


class PrefixCache:
    def __init__(self, block_size):
        self.block_size = block_size
        self.nodes = {}
        self.node_of = {}

    def remember(self, block, block_hash):
        node = self.nodes.setdefault(block_hash, Node())
        if self.node_of.get(block, (None, None))[1] is node:
            return
        self.forget(block)
        node.blocks.append(block)
        self.node_of[block] = block_hash, node

    def forget(self, block):
        _, node = self.node_of.pop(block, (None, None))
        if node:
            node.blocks.remove(block)

    def hash_of(self, block):
        block_hash, _ = self.node_of.get(block, (None, None))
        return block_hash

    def longest_hit(self, token_ids):
        hit, left, parent = [], list(token_ids), ROOT
        while len(left) > self.block_size:
            [parent] = block_hashes(left[: self.block_size], self.block_size, parent)
            left = left[self.block_size :]
            node = self.nodes.get(parent)
            if node is None or not node.blocks:
                return hit
            hit += node.blocks[:1]
        return hit

    def clear(self):
        for block in list(self.node_of):
            self.forget(block)
