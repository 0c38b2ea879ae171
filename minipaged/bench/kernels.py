"""What decode's kernel takes on a GPU, as a part of what the GPU can copy, beside torch's attention on dense K and V.

Decode reads every key and value once and computes little, so the best it can do is the speed of the memory. That is
measured too, by copying a large tensor. On a CPU nothing is timed: Triton's interpreter takes a thousand times as long.
"""

import json
import math
import statistics

import torch

from minipaged.bench.measure import progress, table, whole_list, whole_option
from minipaged.commandline import Parser

NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE = 32, 8, 128, 16
DTYPE = torch.bfloat16
WARM_UP = 5
NO_GPU = "torch finds no GPU here, and kernels that are interpreted aren't timed: it would say nothing about them"
NO_FLASHINFER = "FlashInfer's kernel is missing here: it isn't installed"


def median_ms(calls, runs):
    """The median time of a call, by CUDA events. calls: functions that do the same with other inputs, taken in turn."""
    for i in range(max(WARM_UP, len(calls))):
        calls[i % len(calls)]()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for i, (start, stop) in enumerate(events):
        start.record()
        calls[i % len(calls)]()
        stop.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in events)


def copy_bandwidth(runs):
    """Bytes per second that the GPU reads and writes while it copies 2 GiB, which no cache holds."""
    source = torch.zeros(2**30, dtype=torch.bfloat16, device="cuda")
    destination = torch.empty_like(source)
    return 2 * source.nbytes / (1e-3 * median_ms([lambda: destination.copy_(source)], runs))


def inputs(num_seqs, context):
    """q, K and V in blocks scattered over a pool, tables, lengths."""
    per_seq = math.ceil(context / BLOCK_SIZE)
    shape = (num_seqs * per_seq, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM)
    q = torch.randn(num_seqs, NUM_HEADS, HEAD_DIM, dtype=DTYPE, device="cuda")
    k_cache, v_cache = (torch.randn(shape, dtype=DTYPE, device="cuda") for _ in range(2))
    tables = torch.randperm(len(k_cache), device="cuda").to(torch.int32).view(num_seqs, per_seq)
    return q, k_cache, v_cache, tables, torch.full((num_seqs,), context, dtype=torch.int32, device="cuda")


def measure(num_seqs, context, runs, bandwidth):
    """Times of one batch, and what they mean. Returns a dict."""
    from minipaged.attention.triton import decode

    num_bytes = 2 * num_seqs * context * NUM_KV_HEADS * HEAD_DIM * DTYPE.itemsize
    l2 = torch.cuda.get_device_properties("cuda").L2_cache_size
    # So many sets of inputs that, when one has its turn again, nothing of it is left in the L2 cache.
    sets = [inputs(num_seqs, context) for _ in range(1 + math.ceil(2 * l2 / num_bytes))]
    scale = HEAD_DIM**-0.5
    num_splits = decode.choose_num_splits(sets[0][0], sets[0][1], context)

    def ours(splits):
        return [lambda given=given: decode.launch(*given, scale, splits) for given in sets]

    row = {"batch": num_seqs, "context": context, "num_splits": num_splits}
    row["ms"] = median_ms(ours(num_splits), runs)
    row["unsplit_ms"] = median_ms(ours(1), runs) if num_splits > 1 else row["ms"]
    row["bytes_per_second"] = num_bytes / (1e-3 * row["ms"])
    row["of_copy"] = row["bytes_per_second"] / bandwidth
    if wrappers := flashinfer(sets, context, scale):
        row["flashinfer_ms"] = median_ms(wrappers, runs)
    row["sdpa_ms"] = median_ms([sdpa(given, scale) for given in sets], runs)
    return row


def sdpa(given, scale):
    """torch's attention on K and V that were gathered before: what decode would take if nothing were paged."""
    q, k_cache, v_cache, tables, lengths = given
    k, v = (cache[tables.long()].flatten(1, 2)[:, : int(lengths[0])] for cache in (k_cache, v_cache))
    k, v = (dense.transpose(1, 2).contiguous() for dense in (k, v))
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(q[:, :, None], k, v, scale=scale, enable_gqa=True)


def flashinfer(sets, context, scale):
    """The same by FlashInfer, or None where it isn't installed."""
    try:
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper
    except ImportError:
        return None
    calls = []
    for q, k_cache, v_cache, tables, _ in sets:
        num_seqs, per_seq = tables.shape
        wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(128 * 2**20, dtype=torch.uint8, device="cuda"), "NHD")
        starts = torch.arange(num_seqs + 1, dtype=torch.int32, device="cuda") * per_seq
        last = torch.full((num_seqs,), context - (per_seq - 1) * BLOCK_SIZE, dtype=torch.int32, device="cuda")
        sizes = (NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE)
        wrapper.plan(starts, tables.flatten(), last, *sizes, q_data_type=DTYPE, kv_data_type=DTYPE, sm_scale=scale)
        calls.append(lambda wrapper=wrapper, q=q, caches=(k_cache, v_cache): wrapper.run(q, caches))
    return calls


def main(argv=None):
    """Measure and print. Raises ValueError for a value that isn't allowed, or where nothing can be measured."""
    parser = Parser(prog="python -m minipaged bench kernels", description=__doc__)
    parser.add_argument("--batch", default="1,16,64", help="numbers of sequences, a list (default: %(default)s)")
    parser.add_argument("--context", default="1024,4096,32768", help="keys of each, a list (default: %(default)s)")
    parser.add_argument("--runs", default="50", help="calls measured of each kind (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(argv)
    batches, contexts = whole_list("--batch", options.batch), whole_list("--context", options.context)
    runs = whole_option("--runs", options.runs)
    if not torch.cuda.is_available():
        print(NO_GPU)
        return
    from minipaged.attention.triton import loader

    triton, _ = loader.load()
    if loader.wants_interpreter():
        raise ValueError("TRITON_INTERPRET is set: kernels would be interpreted, and interpreted ones aren't timed")
    bandwidth, rows = copy_bandwidth(runs), []
    for num_seqs in batches:
        for context in contexts:
            progress(f"{num_seqs} sequences of {context} keys")
            rows.append(measure(num_seqs, context, runs, bandwidth))
    progress()
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    about |= {"dtype": str(DTYPE), "block_size": BLOCK_SIZE, "copy_bytes_per_second": bandwidth, "runs": runs}
    print(json.dumps({**about, "rows": rows}) if options.json else report(about, rows))


def report(about, rows):
    """The rows as a table."""
    head = ["batch", "context", "splits", "us", "TB/s", "of copy", "unsplit / it", "SDPA / it"]
    lines = []
    for row in rows:
        line = [f"{row[name]:,}" for name in ("batch", "context", "num_splits")]
        line += [f"{1e3 * row['ms']:,.0f}", f"{1e-12 * row['bytes_per_second']:.2f}", f"{row['of_copy']:.0%}"]
        lines.append([*line, f"{row['unsplit_ms'] / row['ms']:.1f}", f"{row['sdpa_ms'] / row['ms']:.2f}"])
    last = NO_FLASHINFER
    if "flashinfer_ms" in rows[0]:
        head.append("FlashInfer / it")
        lines = [[*line, f"{row['flashinfer_ms'] / row['ms']:.2f}"] for line, row in zip(lines, rows)]
        last = "What is over 1 takes longer than decode's kernel."
    where = f"{about['device']}, torch {about['torch']}, triton {about['triton']}"
    copied = f"a copy reads and writes {1e-12 * about['copy_bytes_per_second']:.2f} TB/s"
    sizes = (
        f"{NUM_HEADS} query heads on {NUM_KV_HEADS} KV heads of {HEAD_DIM}, {about['dtype']}, blocks of {BLOCK_SIZE}"
    )
    return f"{table(head, lines)}\n\n{where}: {copied}. {sizes}. Medians of {about['runs']}.\n{last}"
