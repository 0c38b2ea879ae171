"""minipaged: a paged KV cache for a small GPT, written to be read.

The public names, in the order in which the lessons meet them. They are imported when first used, so that the memory
side needs no torch.
"""

from importlib import import_module

_HOME = {
    "BlockAllocator": "minipaged.memory.allocator",
    "OutOfBlocks": "minipaged.memory.allocator",
    "DoubleFree": "minipaged.memory.allocator",
    "BlockTable": "minipaged.memory.block_table",
    "PagedMemory": "minipaged.memory.paged",
    "check": "minipaged.memory.check",
    "KVCache": "minipaged.attention.kv_cache",
    "paged_attention": "minipaged.attention.reference",
    "GPT": "minipaged.model.gpt",
    "Scheduler": "minipaged.serving.scheduler",
    "Engine": "minipaged.serving.engine",
    "SamplingParams": "minipaged.serving.sequence",
    "BeamSearchParams": "minipaged.serving.sequence",
    "LLM": "minipaged.serving.llm",
    "RequestOutput": "minipaged.serving.outputs",
    "CompletionOutput": "minipaged.serving.outputs",
    "BeamSearchOutput": "minipaged.serving.outputs",
    "BeamSearchSequence": "minipaged.serving.outputs",
}
__all__ = list(_HOME)
__version__ = "0.1.0"


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module 'minipaged' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__():
    return [*globals(), *_HOME]
