# Wrong: release takes the ids out of the block table that it was given.

from minipaged.memory.allocator import DoubleFree, FreeQueue


class BlockAllocator:
    """Hands out and takes back the physical blocks 0 .. num_blocks - 1, and counts their owners."""

    def __init__(self, num_blocks, free_order=None):  # given
        self.num_blocks = num_blocks
        self._ref_counts = [0] * num_blocks
        self._free = FreeQueue([*(free_order or ()), *range(num_blocks)])

    def allocate(self, n=1):
        ids = self._free.pop_front(n)
        for block in ids:
            self._ref_counts[block] = 1
        return ids

    def release(self, ids, keep=()):
        for block in ids:
            if ids.count(block) > self.ref_count(block):
                raise DoubleFree(f"block {block} has {self.ref_count(block)} owners")
        freed = []
        while ids:
            block = ids.pop()
            self._ref_counts[block] -= 1
            if self._ref_counts[block] == 0:
                freed.append(block)
        self._take_back(freed, keep)
        return freed

    def ref_count(self, block):
        if not 0 <= block < self.num_blocks:
            raise ValueError(f"block {block} is not in this pool of {self.num_blocks}")
        return self._ref_counts[block]

    @property
    def num_free(self):
        return len(self._free)

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
