"""Which physical blocks are free, and how many owners each of the others has.

The allocator hands out block ids and counts owners. It never knows which sequence owns a block, what is stored in it,
or how large it is. Lesson 03 builds it.
"""

from collections import Counter, OrderedDict

from minipaged.arguments import whole


class OutOfBlocks(Exception):
    """More blocks were asked for than are free. Nothing was changed."""


class DoubleFree(Exception):
    """A block was released more often than it has owners. Nothing was changed."""


class FreeQueue:
    """Block ids in the order in which they will be handed out, front first.

    Why not a list or a deque: a prefix hit takes a block out of the middle. An ordered dict pops at both ends and
    removes from the middle in O(1). (vLLM writes a doubly linked list for the same reason: v1/core/kv_cache_utils.py,
    FreeKVCacheBlockQueue.)
    """

    def __init__(self, ids=()):
        self._ids = OrderedDict.fromkeys(ids)

    def pop_front(self, n=1):
        """Take the first n ids. Raises ValueError for n < 0 and OutOfBlocks if fewer than n are there."""
        n = whole("n", n, least=0)
        if n > len(self._ids):
            raise OutOfBlocks(f"{n} blocks asked for, {len(self._ids)} free")
        return [self._ids.popitem(last=False)[0] for _ in range(n)]

    def push_front(self, ids):
        """Put ids before all others, as a list: the first of them will be handed out first."""
        for block in reversed(ids):
            self._ids[block] = None
            self._ids.move_to_end(block, last=False)

    def push_back(self, ids):
        """Put ids behind all others, in their order."""
        for block in ids:
            self._ids[block] = None

    def remove(self, block):
        """Take one id out, wherever it stands. Raises KeyError if it isn't there."""
        del self._ids[block]

    def __len__(self):
        return len(self._ids)

    def __iter__(self):
        return iter(self._ids)


class BlockAllocator:
    """Hands out and takes back the physical blocks 0 .. num_blocks - 1, and counts their owners.

    A block's ref_count is the number of block tables that name it. At zero it is in the free queue. (vLLM:
    v1/core/block_pool.py, BlockPool.)

    free_order: the order in which a fresh pool hands blocks out; ids left out follow in ascending order. Raises
    ValueError for num_blocks < 1 and for a free_order with an id twice or outside the pool.
    """

    def __init__(self, num_blocks, free_order=None):
        num_blocks = whole("num_blocks", num_blocks, least=1)
        first = [whole("an id in free_order", block, least=0) for block in free_order or ()]
        if len(set(first)) < len(first) or max(first, default=0) >= num_blocks:
            raise ValueError(f"free_order={first}: ids must be distinct and between 0 and {num_blocks - 1}")
        self.num_blocks = num_blocks
        self._ref_counts = [0] * num_blocks
        self._free = FreeQueue([*first, *range(num_blocks)])  # an id that is there already keeps its place

    def allocate(self, n=1):
        """Take n blocks from the front of the free queue; each has one owner then. Returns their ids.

        Raises OutOfBlocks if fewer than n are free and ValueError for n < 0, with nothing changed.
        """
        ids = self._free.pop_front(n)
        for block in ids:
            self._ref_counts[block] = 1
        return ids

    def release(self, ids, keep=()):
        """Give up one ownership of each id; ids stand in the order of a block table.

        Blocks that nobody owns any more are freed from the last to the first and returned in that order. Those in
        `keep` have content that can still be hit: they go to the back of the queue. The others are worth nothing and go
        to the front, to be used again first. So a sequence's tail is always reused before its head, and a cached prefix
        is eaten from its end.

        Raises DoubleFree if an id is given more often than it has owners, and ValueError for an id that isn't in the
        pool, with nothing changed.
        """
        ids = list(ids)
        for block, times in Counter(ids).items():
            if times > self.ref_count(block):
                raise DoubleFree(f"block {block}: {times} to be released, and its ref_count is {self.ref_count(block)}")
        kept = {block for block in ids if block in keep}  # asked first: a wrong `keep` raises with nothing changed
        freed = []
        for block in reversed(ids):
            self._ref_counts[block] -= 1
            if self._ref_counts[block] == 0:
                freed.append(block)
        self._free.push_front([block for block in freed if block not in kept])
        self._free.push_back([block for block in freed if block in kept])
        return freed

    def share(self, ids):
        """Add one owner to each id. A block that has none leaves the free queue, wherever it stands.

        Raises ValueError for an id that isn't in the pool, with nothing changed.
        """
        ids = list(ids)
        for block in ids:
            self.ref_count(block)  # a wrong id raises before anything is changed
        for block in ids:
            if self._ref_counts[block] == 0:
                self._free.remove(block)
            self._ref_counts[block] += 1

    def ref_count(self, block):
        """How many owners a block has. Raises ValueError for an id that isn't in the pool."""
        if not 0 <= block < self.num_blocks:
            raise ValueError(f"block {block} is not in this pool: ids run from 0 to {self.num_blocks - 1}")
        return self._ref_counts[block]

    @property
    def num_free(self):
        """Blocks that nobody owns; those whose content can still be hit are included."""
        return len(self._free)

    def free_order(self):
        """The free blocks' ids, the next to be handed out first."""
        return list(self._free)
