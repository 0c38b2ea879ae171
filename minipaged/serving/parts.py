"""Parts: what of an engine can be replaced, by a learner's own code (mine.py) or anything that fits.

Only LLM builds an engine from them.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch

from minipaged.attention.kv_codec import decode, encode, has_scales
from minipaged.attention.reference import ReferenceAttention, attend_one
from minipaged.memory.allocator import BlockAllocator
from minipaged.memory.block_table import BlockTable, blocks_for
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
    encode, decode: as in attention.kv_codec; called only where the cache has scales, for int8 and fp8.
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
    encode: Callable = encode
    decode: Callable = decode

    def attention(self, cache_dtype):
        """An attention backend that reads with attend_one and decode, or None if neither is anything but LLM's own."""
        if self.attend_one or (self.decode is not decode and has_scales(cache_dtype)):
            return ReferenceAttention(decoding(self.attend_one or attend_one, self.decode))
        return None

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


def decoding(attend_one, decode):
    """attend_one for any cache. Where that isn't of q's type, it gets the sequence's own blocks, decoded."""

    def attend(q, k_cache, v_cache, block_table, seq_len, scale, k_scale=None, v_scale=None):
        if k_cache.dtype == q.dtype:
            return attend_one(q, k_cache, v_cache, block_table, seq_len, scale)
        blocks = block_table[: blocks_for(seq_len, k_cache.shape[1])].long()
        k, v = (
            (cache[blocks] if scales is None else decode(cache[blocks], scales[blocks])).to(q.dtype)
            for cache, scales in ((k_cache, k_scale), (v_cache, v_scale))
        )
        return attend_one(q, k, v, torch.arange(len(blocks), dtype=torch.int32), seq_len, scale)

    return attend
