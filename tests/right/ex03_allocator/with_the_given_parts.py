# Right: the given state and parts; Counter tells which id is given too often.

from collections import Counter

from minipaged.memory.allocator import DoubleFree, FreeQueue, OutOfBlocks


class BlockAllocator:
    """Hands out and takes back the physical blocks 0 .. num_blocks - 1, and counts their owners."""

    def __init__(self, num_blocks, free_order=None):  # given
        self.num_blocks = num_blocks
        self._ref_counts = [0] * num_blocks
        self._free = FreeQueue([*(free_order or ()), *range(num_blocks)])

    def allocate(self, n=1):
        if n < 0:
            raise ValueError(f"n={n}: must be 0 or more")
        if n > self.num_free:
            raise OutOfBlocks(f"{n} blocks asked for, {self.num_free} free")
        ids = []
        while len(ids) < n:
            ids += self._free.pop_front()
        self._ref_counts = [count + (block in ids) for block, count in enumerate(self._ref_counts)]
        return ids

    def release(self, ids, keep=()):
        times = Counter(ids)
        too_often = [block for block in times if times[block] > self.ref_count(block)]
        if too_often:
            raise DoubleFree(f"blocks {too_often} have fewer owners")
        last = {block for block in times if times[block] == self._ref_counts[block]}
        for block in ids:
            self._ref_counts[block] -= 1
        freed = list(dict.fromkeys(block for block in ids[::-1] if block in last))
        self._take_back(freed, keep)
        return freed

    def ref_count(self, block):
        if not 0 <= block < self.num_blocks:
            raise ValueError(f"block {block} is not in this pool of {self.num_blocks}")
        return self._ref_counts[block]

    @property
    def num_free(self):
        return self._ref_counts.count(0)

    def _take_back(self, freed, keep):  # given
        self._free.push_front([block for block in freed if block not in keep])
        self._free.push_back([block for block in freed if block in keep])

    def share(self, ids):  # given
        ids = list(ids)
        for block in ids:
            self.ref_count(block)
        for block in ids:
            if self._ref_counts[block] == 0:
                self._free.remove(block)
            self._ref_counts[block] += 1

    def free_order(self):  # given
        return list(self._free)
