"""Engines: a scenario becomes a run, with one engine or, where it compares two types of cache, with two."""

from minipaged.serving.llm import LLM
from visualize.halves import Halves
from visualize.options import MAX_BLOCKS
from visualize.scenarios import Run


def run_of(scenario, seed=0, parts=None):
    """parts: a learner's (minipaged.mine.Mine), or None. Raises ValueError for settings that LLM refuses, and for a
    memory of more blocks than are drawn."""
    told = scenario.of(parts) if parts else scenario
    if scenario.cache_dtypes:
        kinds = [{**scenario.settings, "cache_dtype": name} for name in scenario.cache_dtypes]
        return Halves(told, [engine_of(settings, seed, parts) for settings in kinds], seed)
    return Run(told, engine_of(scenario.settings, seed, parts), seed)


def engine_of(settings, seed, parts):
    engine = LLM(seed=seed, parts=parts, **settings).engine
    if engine.memory.num_blocks > MAX_BLOCKS:
        per_block = engine.cache.bytes_per_block
        made = f"makes {engine.memory.num_blocks:,} blocks of {engine.memory.block_size}"
        raise ValueError(
            f"--kv-memory {settings['kv_memory']} {made}: at most {MAX_BLOCKS:,}, of {per_block:,} bytes, can be drawn"
        )
    return engine
