"""ContiguousMemory: what paging replaces. The verbs of PagedMemory, over one long run of blocks for each sequence.

The run is reserved at admission, for all tokens that the sequence may come to have: whoever got in never runs out of
memory, and few get in. Reservations are counted in slots and runs in blocks, so each sequence has a block table, a
trivial one (neighbouring ids), and the same attention reads both memories. Lesson 02 compares the two. (Paper: section
6.1, the baselines Orca (Max), Orca (Pow2) and Orca (Oracle).)
"""

from dataclasses import dataclass

from minipaged.arguments import whole
from minipaged.events import BlocksReleased, NoRun, Reserved
from minipaged.memory.block_memory import BlockMemory
from minipaged.memory.block_table import BlockTable, blocks_for
from minipaged.memory.buddy import Buddy, power_of_two
from minipaged.memory.reservations import Layout, Run, waste
from minipaged.memory.usage import Usage

POLICIES = ("max", "pow2", "oracle")


@dataclass(frozen=True)
class ContiguousUsage(Usage):
    """The pool's slots, by use. states + reserved + internal + rounding + external == total_slots, at every moment.

    For a sequence that stores t tokens now and f when it ends, with s slots reserved, in blocks of b slots:

    states     t, as used_slots          hold a token's K and V
    reserved   f - t                     wait for later tokens of the same sequence
    internal   s - f                     are reserved, and no token will ever come
    rounding   ceil(s / b) * b - s       are reserved because runs are cut into blocks, which the paper's were not
    external   all others                what the buddy adds to make ceil(s / b) a power of two, and the free blocks

    f is prompt + max_new_tokens - 1: nothing is computed after the last token. (Paper: Figure 2.)
    """

    reserved: int
    internal: int
    rounding: int
    external: int

    @property
    def states(self):
        return self.used_slots


class ContiguousMemory(BlockMemory):
    """A pool of num_blocks blocks of block_size slots, in which each sequence has one run.

    policy says how many slots are reserved, never more than max_model_len, the longest that the model allows: "max" so
    many always; "pow2" for the prompt and for the output rounded up to a power of two; "oracle" for prompt and output,
    which only an oracle knows. max_new_tokens stands for the output's length. Raises ValueError for another policy and
    sizes below 1.
    """

    def __init__(self, num_blocks, block_size, policy, max_model_len):
        if policy not in POLICIES:
            raise ValueError(f"policy={policy!r}: must be one of {', '.join(map(repr, POLICIES))}")
        self.policy = policy
        self.max_model_len = whole("max_model_len", max_model_len, least=1)
        super().__init__(num_blocks, block_size)

    def clear(self):
        """Forget every sequence: a fresh pool. It holds even where a call was interrupted halfway."""
        super().clear()
        self.allocator = Buddy(self.num_blocks)
        self._runs = {}  # seq_id -> Run, as admitted: how many tokens it stores by now is in its table

    def fits_ever(self, num_prompt_tokens, max_tokens, n=1):
        """Could a request finish if it had the pool for itself? Raises ValueError for n other than 1."""
        fits_pool = self.blocks_at_most(num_prompt_tokens, max_tokens, n) <= self.num_blocks
        return fits_pool and num_prompt_tokens + max_tokens <= self.max_model_len

    def blocks_at_most(self, num_prompt_tokens, max_tokens, n=1):
        """The length of such a request's run, in blocks. Raises ValueError for n other than 1."""
        if n != 1:
            raise ValueError(f"n={n}: several sequences share one prompt in paged memory only; 1 is allowed here")
        return power_of_two(blocks_for(self._slots(num_prompt_tokens, max_tokens), self.block_size))

    def _slots(self, num_tokens, max_new_tokens):
        """How many slots the policy reserves for num_tokens tokens and max_new_tokens more."""
        if self.policy == "max":
            return self.max_model_len
        if self.policy == "pow2":
            # The output alone: the buddy rounds every sum up, so one that is rounded here already would be "oracle".
            max_new_tokens = power_of_two(max_new_tokens)
        return min(num_tokens + max_new_tokens, self.max_model_len)

    def admit(self, seq_id, token_ids, max_new_tokens=0, extra_blocks=0, num_generated=0):
        """Reserve a run for a sequence if there is one, with extra_blocks blocks free besides. Its table is empty yet.

        num_generated: how many of the tokens came after the prompt. Who comes back asks for the run that it had at
        first: "pow2" rounds up the whole output, or what was fitting once would become too long for the pool.

        Returns 0, the number of tokens cached already, or None where there is no room, with nothing changed: too few
        blocks are free, or they aren't side by side. Raises ValueError if the sequence is here already, has no tokens,
        or may become longer than max_model_len, and unless at least 1 token is the prompt's.
        """
        self._demand_new(seq_id, token_ids)
        num_tokens, max_new_tokens = len(token_ids), whole("max_new_tokens", max_new_tokens, least=0)
        extra_blocks = whole("extra_blocks", extra_blocks, least=0)
        num_generated = whole("num_generated", num_generated, least=0, most=num_tokens - 1)
        if num_tokens + max_new_tokens > self.max_model_len:
            facts = f"{num_tokens} tokens and max_new_tokens={max_new_tokens}"
            raise ValueError(f"sequence {seq_id!r}: {facts} are more than max_model_len={self.max_model_len}")
        num_slots = self._slots(num_tokens - num_generated, max_new_tokens + num_generated)
        num_blocks, num_free = power_of_two(blocks_for(num_slots, self.block_size)), self.allocator.num_free
        has_room = num_blocks + extra_blocks <= num_free
        first_block = self.allocator.allocate(num_blocks) if has_room else None
        if first_block is None:
            if self.log is not None:
                self.log.append(NoRun(seq_id, num_blocks, num_free, self.allocator.longest))
            return None
        if self.log is not None:
            self.log.append(Reserved(seq_id, self.policy, num_slots, first_block, num_blocks, num_free))
        num_final = num_tokens + max(max_new_tokens - 1, 0)
        self._runs[seq_id] = Run(first_block * self.block_size, num_slots, 0, num_final)
        self._tables[seq_id] = BlockTable(self.block_size)
        return 0

    def release(self, seq_id):
        """Close a sequence's table and give up its run. Raises ValueError for a sequence that has none."""
        self.table(seq_id)  # raises
        del self._tables[seq_id]
        freed = self.allocator.free(self._runs.pop(seq_id).start // self.block_size)
        self._released.update(freed)
        if self.log is not None:
            self.log.append(BlocksReleased(seq_id, tuple(reversed(freed)), self.allocator.num_free))

    def grow(self, requests):
        """Give slots of their runs to new tokens of several sequences: [(seq_id, num_new_tokens), ...].

        Returns the pairs of blocks to copy: none, since nothing is ever shared. Raises ValueError, with nothing
        changed, for a sequence that isn't here or is named twice, for less than 1 token, and for more than the sequence
        has slots reserved: a run can't be made longer, what follows it may belong to another.
        """
        if len({seq_id for seq_id, _ in requests}) < len(requests):
            raise ValueError(f"grow {requests}: a sequence may be named only once")
        lengths = {}
        for seq_id, num_new_tokens in requests:
            lengths[seq_id] = self.table(seq_id).num_tokens + whole("num_new_tokens", num_new_tokens, least=1)
            if lengths[seq_id] > self._runs[seq_id].size:
                reserved = f"{self._runs[seq_id].size} slots were reserved at admission"
                raise ValueError(f"sequence {seq_id!r}: {lengths[seq_id]} tokens need as many slots, {reserved}")
        for seq_id, num_tokens in lengths.items():
            table, first_block = self._tables[seq_id], self._runs[seq_id].start // self.block_size
            start, num_blocks = first_block + len(table.blocks), table.blocks_needed(num_tokens)
            if num_blocks:
                self._append(seq_id, table, range(start, start + num_blocks))
            table.num_tokens = num_tokens
        return []

    def fork(self, parent_id, child_id):
        """Raises ValueError: runs don't overlap, so nothing can be shared."""
        raise ValueError(f"fork of {parent_id!r} into {child_id!r}: sequences share blocks in paged memory only")

    def swap_out(self, seq_ids):
        """Raises ValueError: there is no host pool."""
        raise ValueError(f"swap_out of {seq_ids!r}: there is a host pool in paged memory only")

    def swap_in(self, seq_ids, extra_blocks=0):
        """Raises ValueError, as swap_out does."""
        raise ValueError(f"swap_in of {seq_ids!r}: there is a host pool in paged memory only")

    def reset_prefix_cache(self):
        """Forget what can be hit. That is nothing, so it is always done: True."""
        return True

    def runs(self):
        """Sequence -> the ids of the blocks of its run, a range. Those that are in its table come first."""
        return {seq_id: self.allocator.run(run.start // self.block_size) for seq_id, run in self._runs.items()}

    def layout(self):
        """The reservations as they stand, in slots. Blocks that the buddy adds are in none of them."""
        runs = []
        for seq_id, run in self._runs.items():
            stored = self._tables[seq_id].num_tokens
            runs.append(run._replace(num_tokens=stored, num_final=max(stored, run.num_final)))
        return Layout(self.num_blocks * self.block_size, runs)

    def usage(self):
        """How the pool's slots are used at this moment, and what the reservations waste."""
        layout = self.layout()
        states, reserved, internal, outside = waste(layout)
        rounding = sum(-run.size % self.block_size for run in layout.runs)
        allocated = sum(len(table.blocks) for table in self._tables.values()) * self.block_size
        return ContiguousUsage(states, allocated, 0, layout.num_slots, reserved, internal, rounding, outside - rounding)


def runs_of(memory):
    """Sequence -> the blocks of its run. Empty for a paged memory, where no block waits for anybody."""
    return memory.runs() if isinstance(memory, ContiguousMemory) else {}
