# Right: the free blocks lie in a heap by a rank; what has left the queue is skipped when it comes up.

import heapq

from minipaged.memory.allocator import DoubleFree, OutOfBlocks


class BlockAllocator:
    """Hands out and takes back the physical blocks 0 .. num_blocks - 1, and counts their owners."""

    def __init__(self, num_blocks, free_order=None):
        order = [*(free_order or ()), *(block for block in range(num_blocks) if block not in (free_order or ()))]
        self._counts = [0] * num_blocks
        self._rank = {block: rank for rank, block in enumerate(order)}  # of the free blocks, the lowest is the front
        self._heap = [(rank, block) for block, rank in self._rank.items()]
        self._lowest, self._highest = -1, num_blocks  # ranks for those who come before and behind all others
        self.num_free = num_blocks

    def allocate(self, n=1):
        if n < 0:
            raise ValueError(f"n={n}: must be 0 or more")
        if n > self.num_free:
            raise OutOfBlocks(f"{n} > {self.num_free}")
        ids = []
        while len(ids) < n:
            rank, block = heapq.heappop(self._heap)
            if self._rank.get(block) == rank:
                ids.append(block)
                self._own(block)
        return ids

    def _own(self, block):
        if self._counts[block] == 0:
            del self._rank[block]
            self.num_free -= 1
        self._counts[block] += 1

    def release(self, ids, keep=()):
        if any(block < 0 or block >= len(self._counts) for block in ids):
            raise ValueError(f"{ids}: ids must be from 0 to {len(self._counts) - 1}")
        before = list(self._counts)
        freed = []
        for block in reversed(ids):
            self._counts[block] -= 1
            if self._counts[block] < 0:
                self._counts = before
                raise DoubleFree(f"block {block}")
            if self._counts[block] == 0:
                freed.append(block)
        for block in reversed([block for block in freed if block not in keep]):
            self._put(block, self._lowest)
            self._lowest -= 1
        for block in [block for block in freed if block in keep]:
            self._put(block, self._highest)
            self._highest += 1
        return freed

    def _put(self, block, rank):
        self._rank[block] = rank
        heapq.heappush(self._heap, (rank, block))
        self.num_free += 1

    def share(self, ids):
        for block in ids:
            self._own(block)

    def ref_count(self, block):
        if block < 0 or block >= len(self._counts):
            raise ValueError(f"block {block} is outside the pool")
        return self._counts[block]

    def free_order(self):
        return sorted(self._rank, key=self._rank.get)
