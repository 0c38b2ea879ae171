"""Parts: what of an engine can be replaced, by a learner's own code (mine.py) or anything that fits.

Only LLM builds an engine from them.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from minipaged.memory.allocator import BlockAllocator
from minipaged.memory.block_table import BlockTable
from minipaged.memory.copy_on_write import fork, make_writable
from minipaged.memory.prefix_cache import PrefixCache, block_hashes
from minipaged.serving.asking import AskingScheduler
from minipaged.serving.engine import Engine
from minipaged.serving.preemption import choose_victim, preempt, resume


@dataclass(frozen=True)
class Parts:
    """minipaged's own parts, unless others are given.

    allocator, block_table, prefix_cache: called as BlockAllocator, BlockTable and PrefixCache. fork, make_writable: as
    in memory.copy_on_write. choose_victim, preempt, resume: as in serving.preemption; a request with several sequences
    is preempted and resumed by serving.group. block_hashes: as in memory.prefix_cache.
    schedule: as serving.ample.schedule; None: serving.scheduler's own, which knows of blocks.
    attend_one: as attention.reference.attend_one; None: LLM's own attention, which reads many queries at a time.
    """

    allocator: Callable = BlockAllocator
    block_table: Callable = BlockTable
    fork: Callable = fork
    make_writable: Callable = make_writable
    choose_victim: Callable = choose_victim
    preempt: Callable = preempt
    resume: Callable = resume
    block_hashes: Callable = block_hashes
    prefix_cache: Callable = PrefixCache
    schedule: Callable | None = None
    attend_one: Callable | None = None

    def engine(self, model, tokenizer, cache, scheduler, *others):
        """An Engine, whose memory and model are made of these parts already."""
        if self.schedule:
            scheduler = AskingScheduler(scheduler, self.schedule)
        return self.engine_of(model, tokenizer, cache, scheduler, *others)

    def engine_of(self, *arguments):
        """An Engine of these. mine.py overrides it, so that a learner's errors are told as theirs."""
        return Engine(*arguments)

    def blamed(self):
        """A context for code that runs these parts. Where they are somebody's, it says whose an error is."""
        return nullcontext()
