"""Exercise 03: the block allocator.

Goal: hand out the blocks of a pool, take them back, and know at every moment how many owners each of them has.

    num_blocks          how many blocks the pool has; their ids are 0 .. num_blocks - 1
    ids                 a list of block ids; on release in the order of a block table, so the sequence's head first
    free queue          the ids of all blocks that nobody owns, in the order in which they will be handed out
    _ref_counts[id]     how many owners a block has; 0: it is in the free queue
    _free               the free queue. pop_front(n) takes the first n ids and returns them; it raises OutOfBlocks if
                        fewer are there, ValueError for n < 0, and changes nothing then. push_front(ids) puts ids before
                        all others, ids[0] first of all; push_back(ids), remove(id), len and iteration exist too.

You write allocate, release, ref_count and num_free. What is marked "given" works as it is, on _ref_counts and _free.
You may keep other state than these two; then rewrite the given parts so that they still do what they say.

Edit below the line, not the tests. About 20 lines, 25 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex03 --impl yours -x

Hints: python -m minipaged.exercises hint ex03
"""

from minipaged.memory.allocator import DoubleFree, FreeQueue, OutOfBlocks  # noqa: F401 (for you to use)

# ------------------------------------------------------------------------------------------------ edit below this line


class BlockAllocator:
    """Hands out and takes back the physical blocks 0 .. num_blocks - 1, and counts their owners.

    free_order: the ids that a fresh pool hands out first, in this order; ids left out follow in ascending order.
    """

    def __init__(self, num_blocks, free_order=None):  # given
        self.num_blocks = num_blocks
        self._ref_counts = [0] * num_blocks
        self._free = FreeQueue([*(free_order or ()), *range(num_blocks)])  # an id that is there keeps its place

    def allocate(self, n=1):
        """Take n blocks from the front of the free queue; each has one owner then.

        Returns their ids, a list that the caller may change. All or nothing: raises OutOfBlocks if fewer than n are
        free, and ValueError for n < 0, with nothing changed. n = 0 gives [].
        """
        raise NotImplementedError("ex03: BlockAllocator.allocate is yours to write")

    def release(self, ids, keep=()):
        """Give up one ownership of each id. An id that has two owners may stand in `ids` twice.

        Blocks that nobody owns any more are freed, the last of `ids` first, and returned in that order, a list. They go
        to the front of the free queue: after release([5, 2]), allocate() gives 2, then 5. Those that are in `keep` too,
        a container of ids, go to the back of the queue instead. `_take_back` does both. `ids` itself stays as it is.

        Raises DoubleFree if an id is given more often than it has owners, and ValueError for an id outside the pool. If
        it raises, nothing was changed, whatever else is in `ids`.
        """
        raise NotImplementedError("ex03: BlockAllocator.release is yours to write")

    def ref_count(self, block):
        """How many owners a block has. Raises ValueError for an id outside the pool."""
        raise NotImplementedError("ex03: BlockAllocator.ref_count is yours to write")

    @property
    def num_free(self):
        """How many blocks nobody owns."""
        raise NotImplementedError("ex03: BlockAllocator.num_free is yours to write")

    def _take_back(self, freed, keep):  # given: the reason for `keep` comes in lesson 10
        """Put blocks that nobody owns now into the free queue, in the order of `freed`: those in `keep` behind all
        others, the rest before them."""
        self._free.push_front([block for block in freed if block not in keep])
        self._free.push_back([block for block in freed if block in keep])

    def share(self, ids):  # given: its reason comes in lesson 07
        """Add one owner to each id. A block that has none leaves the free queue, wherever it stands."""
        ids = list(ids)
        for block in ids:
            self.ref_count(block)  # raises for an id outside the pool, before anything is changed
        for block in ids:
            if self._ref_counts[block] == 0:
                self._free.remove(block)
            self._ref_counts[block] += 1

    def free_order(self):  # given
        """The free blocks' ids, the next to be handed out first."""
        return list(self._free)
