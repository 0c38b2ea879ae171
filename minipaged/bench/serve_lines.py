"""The lines of `bench serve`: each way to keep K and V, as an engine of its own with the same memory in bytes."""

OFF = {"enable_prefix_caching": False}
# A twentieth of the pool stays free when a request enters. Without it those that run soon find no block and one of them
# must yield: with 150 requests 182 times in place of 33, and 53,324 tokens are computed in place of 40,353.
PAGED = {"watermark": 0.05}
LINES = {
    "max": {"memory": "max"},
    "pow2": {"memory": "pow2"},
    "oracle": {"memory": "oracle"},
    "paged": {**PAGED, **OFF},
    "paged+prefix": PAGED,
    "paged+int8": {**PAGED, **OFF, "cache_dtype": "int8"},
    "all": {**PAGED, "cache_dtype": "int8"},
}
CONTEXT, VOCAB_SIZE = 1024, 1024  # of the tiny GPT
SLOTS = 7864  # for Max 7.68 contexts of 1,024, as the paper's 15,728 slots are for 2,048


def line_of(name, asked, prompts, num_bytes, block_size, dtype="float32"):
    """A service.Line on an LLM of its own. Raises ValueError for a memory that can't be had."""
    from minipaged.bench.service import Line
    from minipaged.serving.llm import LLM

    settings = {"max_num_seqs": 256, "max_num_batched_tokens": 512, "events": False, **LINES[name]}
    llm = LLM(kv_memory=f"{num_bytes}B", block_size=block_size, dtype=dtype, **settings)
    return Line(name, llm.engine, asked, prompts)


def capped_line(batch, asked, prompts, block_size):
    """A batch_curve line: no more than `batch` requests run, and there is memory for the longest."""
    from minipaged.bench.batch_curve import batch_line
    from minipaged.serving.llm import LLM

    num_blocks = batch * -(-CONTEXT // block_size)
    settings = {"max_num_seqs": batch, "max_num_batched_tokens": max(512, batch), "events": False, **OFF}
    return batch_line(batch, asked, prompts, LLM(block_size=block_size, num_blocks=num_blocks, **settings))
