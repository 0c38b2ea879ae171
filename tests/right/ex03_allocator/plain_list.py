# Right: the free queue is a plain list, the owners of the other blocks are counted in a dict.

from minipaged.memory.allocator import DoubleFree, OutOfBlocks


class BlockAllocator:
    """Hands out and takes back the physical blocks 0 .. num_blocks - 1, and counts their owners."""

    def __init__(self, num_blocks, free_order=None):
        first = list(free_order or [])
        self.size = num_blocks
        self.queue = first + [block for block in range(num_blocks) if block not in first]
        self.owners = {}  # no entry: the block is free

    def allocate(self, n=1):
        if n < 0:
            raise ValueError(f"{n} blocks asked for: at least 0 are needed")
        if n > self.num_free:
            raise OutOfBlocks(f"{n} blocks asked for, {self.num_free} are free")
        ids, self.queue = self.queue[:n], self.queue[n:]
        self.owners.update(dict.fromkeys(ids, 1))
        return ids

    def release(self, ids, keep=()):
        left = {block: self.ref_count(block) for block in ids}
        for block in ids:
            left[block] -= 1
            if left[block] < 0:
                raise DoubleFree(f"block {block} has only {self.ref_count(block)} owners")
        freed = []
        for block in ids:
            if left[block] == 0 and block not in freed:
                freed.insert(0, block)
                del self.owners[block]
            elif left[block]:
                self.owners[block] = left[block]
        worthless = [block for block in freed if block not in keep]
        self.queue = worthless + self.queue + [block for block in freed if block in keep]
        return freed

    def share(self, ids):
        ids = list(ids)
        for block in ids:
            self.ref_count(block)
        for block in ids:
            if block not in self.owners:
                self.queue.remove(block)
            self.owners[block] = self.owners.get(block, 0) + 1

    def ref_count(self, block):
        if block not in range(self.size):
            raise ValueError(f"block {block}: must be one of 0 to {self.size - 1}")
        return self.owners.get(block, 0)

    @property
    def num_free(self):
        return len(self.queue)

    def free_order(self):
        return self.queue[:]
