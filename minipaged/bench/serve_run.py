"""The parts of `bench serve`, one after the other. Within a part all lines take turns, step by step.

A run that is interrupted ends there: what is done is told, and that it isn't all.
"""

from minipaged.bench import indirection, results, service
from minipaged.bench.batch_curve import point_of, tokens_per_s
from minipaged.bench.measure import progress
from minipaged.bench.serve_lines import CONTEXT, VOCAB_SIZE, capped_line, line_of


def run(options, streams):
    """-> (a dict that JSON knows, what interrupted it or None). streams: for each rate what serve.stream returned."""
    told = {name: getattr(options, name) for name in ("workload", "scale", "shared", "kv_memory", "goodput", "seed")}
    (asked, too_long), *_ = streams
    told |= {"requests": len(asked), "too_long": len(too_long), "context": CONTEXT, "partial": False}
    told |= {"lines": [], "curve": [], "block_sizes": [], "indirection": []}
    try:
        for number, (rate, (asked, _)) in enumerate(zip(options.rates, streams)):
            measure_lines(told, options, asked, rate, with_curve=number == 0 and "curve" in options.parts)
        if "blocks" in options.parts:
            measure_block_sizes(told, options, streams[0][0])
        if "indirection" in options.parts:
            told["indirection"] = indirection.measure(options.block_size)
    except (KeyboardInterrupt, SystemExit) as signal:
        told["partial"], interrupted = True, signal
        return told, interrupted
    finally:
        progress()
    return told, None


def measure_lines(told, options, asked, rate, with_curve):
    """The lines at one rate and, with_curve, the batch curve in turn with them."""
    prompts = service.prompts_for(asked, VOCAB_SIZE, options.shared, options.seed)
    lines, capped = [], []
    if "lines" in options.parts:
        lines = [line_of(name, asked, prompts, options.kv_memory, options.block_size) for name in options.lines]
    if with_curve:
        capped = [capped_line(batch, asked, prompts, options.block_size) for batch in options.batches]
    what = "all at once" if rate is None else f"rate {rate}"
    try:
        service.serve([*lines, *capped], lambda served: show_progress(what, served))
    finally:
        told["curve"] += [point_of(line) for line in capped if line.moments]
        for line in lines:
            if line.moments:
                row = {"rate": rate, **results.result_of(line, options.goodput)}
                told["lines"].append({**row, "curve_tokens_per_s": tokens_per_s(told["curve"], row["running"])})


def measure_block_sizes(told, options, asked):
    """Paged memory of the same bytes with blocks of several sizes."""
    prompts = service.prompts_for(asked, VOCAB_SIZE, options.shared, options.seed)
    lines = [line_of("paged", asked, prompts, options.kv_memory, size) for size in options.block_sizes]
    try:
        service.serve(lines, lambda served: show_progress("block sizes", served))
    finally:
        for line in lines:
            if line.moments:
                row = results.result_of(line)
                by_lengths = results.filled_by_lengths(asked, row["block_size"])
                kept = ("block_size", "running", "filled", "output_tokens_per_s", "table_bytes", "preemptions")
                told["block_sizes"].append({**{name: row[name] for name in kept}, "filled_by_lengths": by_lengths})


def show_progress(what, lines):
    """Every 20 steps of the longest line."""
    num_steps = max(len(line.moments) for line in lines)
    if num_steps % 20 == 0:
        done, all_of_them = sum(line.num_finished for line in lines), sum(line.num_asked for line in lines)
        progress(f"{what}, step {num_steps:,}: {done:,} of {all_of_them:,} requests are done, all lines together")
