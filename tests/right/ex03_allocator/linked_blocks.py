# Right: blocks are objects in a doubly linked ring, as in vLLM; nothing is stored but the ring and the counts.

from dataclasses import dataclass, field

from minipaged.memory.allocator import DoubleFree, OutOfBlocks


@dataclass(eq=False)
class Block:
    id: int
    owners: int = 0
    before: "Block | None" = field(default=None, repr=False)
    behind: "Block | None" = field(default=None, repr=False)

    def leave(self):
        self.before.behind, self.behind.before = self.behind, self.before

    def enter(self, behind):
        self.before, self.behind = behind, behind.behind
        self.before.behind = self.behind.before = self


class BlockAllocator:
    """Hands out and takes back the physical blocks 0 .. num_blocks - 1, and counts their owners."""

    def __init__(self, num_blocks, free_order=None):
        self._blocks = [Block(block) for block in range(num_blocks)]
        self._end = Block(-1)  # both ends of the ring
        self._end.before = self._end.behind = self._end
        for block in dict.fromkeys([*(free_order or ()), *range(num_blocks)]):
            self._blocks[block].enter(self._end.before)

    def allocate(self, n=1):
        if n < 0:
            raise ValueError(f"n={n}")
        if n > self.num_free:
            raise OutOfBlocks(f"{n} blocks asked for, {self.num_free} free")
        return [self._take(self._end.behind) for _ in range(n)]

    def _take(self, block):
        if block.owners == 0:
            block.leave()
        block.owners += 1
        return block.id

    def release(self, ids, keep=()):
        blocks = [self._block(block) for block in ids]
        for block in blocks:
            if blocks.count(block) > block.owners:
                raise DoubleFree(f"{block} is given {blocks.count(block)} times")
        freed = [block for block in reversed(blocks) if self._give_up(block) == 0]
        place = self._end
        for block in freed:
            if block.id in keep:
                block.enter(self._end.before)
            else:
                block.enter(place)
                place = block
        return [block.id for block in freed]

    def _give_up(self, block):
        block.owners -= 1
        return block.owners

    def share(self, ids):
        for block in [self._block(block) for block in ids]:
            self._take(block)

    def _block(self, block):
        if not 0 <= block <= len(self._blocks) - 1:
            raise ValueError(f"block {block}: the last one is {len(self._blocks) - 1}")
        return self._blocks[block]

    def ref_count(self, block):
        return self._block(block).owners

    @property
    def num_free(self):
        return len(self.free_order())

    def free_order(self):
        order, block = [], self._end.behind
        while block is not self._end:
            order.append(block.id)
            block = block.behind
        return order
