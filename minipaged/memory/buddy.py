"""The buddy allocator: runs of neighbouring blocks whose lengths are powers of two. ContiguousMemory reserves with it.

It hands out numbers and knows nothing of sequences. Lesson 02 looks at what it rounds up.
"""

from minipaged.arguments import whole


class Buddy:
    """Hands out runs of neighbouring blocks. Each is a power of two long and begins at a multiple of its length.

    A shorter run is half of a longer one; the halves are buddies, and become one run again when both are free. A pool
    is at first a row of such runs, the longest first: 13 blocks are 8 + 4 + 1. Why not first fit, which rounds nothing
    up: the paper's baselines have a buddy allocator. A buddy is found by arithmetic where first fit has to search, so
    that allocate and free take O(log num_blocks).
    """

    def __init__(self, num_blocks):
        self.num_blocks = num_blocks = whole("num_blocks", num_blocks, least=1)
        self._orders = {}  # start -> order, for each run handed out; a run of order k is 2**k blocks long
        self._free = [{} for _ in range(num_blocks.bit_length())]  # by order: starts; a dict, to remove one in O(1)
        start = 0
        for order in reversed(range(len(self._free))):
            if num_blocks >> order & 1:
                self._free[order][start] = None
                start += 1 << order

    def allocate(self, size):
        """Take a run of `size` blocks, rounded up to a power of two. Returns its first block.

        Returns None, with nothing changed, if no free run is long enough. Raises ValueError for size < 1.
        """
        wanted = (whole("size", size, least=1) - 1).bit_length()
        order = next((k for k in range(wanted, len(self._free)) if self._free[k]), None)
        if order is None:
            return None
        start, _ = self._free[order].popitem()
        while order > wanted:  # keep the front half
            order -= 1
            self._free[order][start + (1 << order)] = None
        self._orders[start] = order
        return start

    def free(self, start):
        """Give back the run that begins at `start`; it is merged with its buddy, and the two with theirs, while free.

        Returns the ids of its blocks. Raises ValueError, with nothing changed, if no run in use begins there.
        """
        blocks = self.run(start)  # raises
        order = self._orders.pop(start)
        while (buddy := start ^ (1 << order)) in self._free[order]:  # buddies' starts differ in this one bit
            del self._free[order][buddy]
            start = min(start, buddy)
            order += 1
        self._free[order][start] = None
        return blocks

    def run(self, start):
        """The ids of all blocks of the run in use that begins at `start`: what `free` would give back."""
        if start not in self._orders:
            raise ValueError(f"block {start!r} is not the first of a run in use")
        return range(start, start + (1 << self._orders[start]))

    @property
    def longest(self):
        """The length of the longest free run, 0 if there is none: what `allocate` can serve at most."""
        return max((1 << order for order, starts in enumerate(self._free) if starts), default=0)

    @property
    def num_free(self):
        """Blocks that are in no run in use."""
        return sum(len(starts) << order for order, starts in enumerate(self._free))

    def free_order(self):
        """The free blocks' ids, in the order in which they would be handed out one by one."""
        runs = [(start, 1 << order) for order, starts in enumerate(self._free) for start in reversed(starts)]
        return [block for start, length in runs for block in range(start, start + length)]

    def ref_count(self, block):
        """1 for a block of a run in use, filled or not, else 0. Raises ValueError for an id that isn't in the pool."""
        block = whole("block", block, least=0, most=self.num_blocks - 1)
        return 0 if any(block >> k << k in starts for k, starts in enumerate(self._free)) else 1


def power_of_two(n):
    """The smallest power of two that is at least n; 0 for 0."""
    return 1 << (n - 1).bit_length() if n else 0
