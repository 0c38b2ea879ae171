"""The real engine under load: what each way to keep K and V makes of the same memory, in bytes, and the same requests.

Before paging, each request reserved a run: for the model's whole context (max), for its output rounded up to a power of
two (pow2), or for its output as it will be, which only an oracle knows (oracle). Residency, how many requests run at
once, is what paging changes everywhere. What throughput that buys depends on the machine's batch curve: the tokens per
second at each number of running sequences.
"""

import json
import math
import os

from minipaged.arguments import real, size
from minipaged.bench import metrics, trace_file, workload
from minipaged.bench.measure import progress, table, whole_option
from minipaged.commandline import Parser, number

OFF = {"enable_prefix_caching": False}
LINES = {
    "max": {"memory": "max"},
    "pow2": {"memory": "pow2"},
    "oracle": {"memory": "oracle"},
    "paged": {**OFF},
    "paged+prefix": {},
    "paged+int8": {**OFF, "cache_dtype": "int8"},
    "all": {"cache_dtype": "int8"},
}
MAX_TOKENS = 2_000_000  # of all requests together
AT_ONCE, GIVEN = "all-at-once", "given"
CONTEXT, VOCAB_SIZE = 1024, 1024  # of the tiny GPT
SLOTS = 7864  # for Max 7.68 contexts of 1,024, as the paper's 15,728 slots are for 2,048


def line_of(name, asked, prompts, num_bytes, block_size, dtype="float32"):
    """A service.Line on an LLM of its own. Raises ValueError for a memory that can't be had."""
    from minipaged.bench.service import Line
    from minipaged.serving.llm import LLM

    settings = {"max_num_seqs": 256, "max_num_batched_tokens": 512, "events": False, **LINES[name]}
    llm = LLM(kv_memory=f"{num_bytes}B", block_size=block_size, dtype=dtype, **settings)
    return Line(name, llm.engine, asked, prompts)


def result_of(line):
    """What came of a line, as a dict that JSON knows. busy: the time in which somebody waits, when the batch is as big
    as memory allows; means over it are weighted by time."""
    requests, moments = line.requests(), line.moments
    busy = [each for each in moments if each.num_waiting] or moments
    seconds = math.fsum(each.end - each.start for each in busy)

    def mean(value):
        return math.fsum(value(each) * (each.end - each.start) for each in busy) / seconds if seconds else None

    shares = {name: mean(lambda each, name=name: each.slots[name] / each.total_slots) for name in moments[0].slots}
    return {
        "line": line.name,
        "num_blocks": line.engine.memory.num_blocks,
        "block_size": line.engine.memory.block_size,
        "refused": len(line.refused),
        "busy_s": seconds,
        "running": mean(lambda each: each.num_running),
        "kv": shares,
        "saved": mean(lambda each: each.saved_slots / each.total_slots),
        "steps": len(moments),
        "computed_tokens": sum(each.num_tokens for each in moments),
        **metrics.summary(requests),
    }


def stream(options):
    """The requests that the options ask for: (those that the model's context can hold, those that are too long)."""
    if options.workload in workload.SOURCES:
        asked = workload.draw(options.workload, options.requests, options.rate, options.seed)
    elif not os.path.exists(options.workload):
        known = ", ".join(workload.SOURCES)
        raise ValueError(f"--workload {options.workload}: No such file: must be one of {known}, or the path of a file")
    else:
        asked = trace_file.read(options.workload, most=options.requests)
        if options.rate != GIVEN:
            asked = workload.retimed(asked, options.rate, options.seed)
    fit, too_long = workload.split_by_length(workload.scaled(asked, length=options.scale), CONTEXT)
    if not fit:
        least = min(each.num_tokens for each in too_long)
        raise ValueError(f"--workload {options.workload}: all have more than {CONTEXT:,} tokens, at least {least:,}")
    if (num_tokens := sum(each.num_tokens for each in fit)) > MAX_TOKENS:
        raise ValueError(f"--requests {options.requests}: {num_tokens:,} tokens, at most {MAX_TOKENS:,} are allowed")
    return fit, too_long


def main(argv=None):
    """Measure and print. Raises ValueError for a value that isn't allowed."""
    a_float = number(float, "a number")
    parser = Parser(prog="python -m minipaged bench serve", description=__doc__.split("\n\n")[0])
    sources = ", ".join(workload.SOURCES)
    parser.add_argument("--workload", default="paper-sharegpt", help=f"{sources}, or a file (default: %(default)s)")
    parser.add_argument("--requests", default="100", help="how many (default: %(default)s)")
    parser.add_argument("--scale", type=a_float, default=0.5, help="of the lengths (default: %(default)s)")
    rates = "requests a second, a Poisson process; all-at-once (default), or given: a file's own times"
    parser.add_argument("--rate", default=AT_ONCE, help=rates)
    parser.add_argument("--shared", type=a_float, default=0.5, help="part of each prompt that all share (default: 0.5)")
    parser.add_argument("--kv-memory", default=f"{SLOTS * 2048}B", help="of every line (default: %(default)s)")
    parser.add_argument("--block-size", default="16", help="tokens in a block (default: %(default)s)")
    parser.add_argument("--lines", default=",".join(LINES), help="which to compare (default: %(default)s)")
    parser.add_argument("--seed", type=number(int, "a whole number"), default=0, help="default: 0")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = checked(parser.parse_args(argv))
    asked, too_long = stream(options)
    from minipaged.bench import service  # imports torch: seconds

    prompts = service.prompts_for(asked, VOCAB_SIZE, options.shared, options.seed)
    lines = [line_of(name, asked, prompts, options.kv_memory, options.block_size) for name in options.lines]
    interrupted = None
    try:
        service.serve(lines, lambda lines: show_progress(lines, len(asked)))
    except (KeyboardInterrupt, SystemExit) as signal:  # what is done is told, and that it isn't all
        interrupted = signal
    progress()
    results = [result_of(line) for line in lines if line.moments]
    about = {name: getattr(options, name) for name in ("workload", "scale", "rate", "shared", "kv_memory", "seed")}
    about |= {"requests": len(asked), "too_long": len(too_long), "partial": interrupted is not None}
    print(json.dumps({**about, "lines": results}) if options.json else report(about, results))
    if interrupted:
        raise interrupted


def checked(options):
    """The options as numbers. Raises ValueError for a value that isn't allowed."""
    options.requests = whole_option("--requests", options.requests)
    options.block_size = whole_option("--block-size", options.block_size)
    options.kv_memory = size("--kv-memory", options.kv_memory)
    real("--shared", options.shared, lambda share: 0 <= share <= 1, "a part, from 0 to 1")
    options.rate = rate_of(options.rate, options.workload)
    options.lines = [name.strip() for name in options.lines.split(",")]
    for name in options.lines:
        if name not in LINES:
            raise ValueError(f"--lines {name!r}: must be some of {', '.join(LINES)}")
    return options


def rate_of(text, source):
    """--rate as a number, None for all at once, or GIVEN. Raises ValueError for anything else."""
    if text == AT_ONCE:
        return None
    if text == GIVEN:
        if source in workload.SOURCES:
            raise ValueError(f"--rate {GIVEN} with --workload {source}: only a file has times, give a number")
        return GIVEN
    try:
        return real("--rate", float(text), lambda rate: rate > 0, "a number above 0")
    except ValueError:
        raise ValueError(f"--rate {text!r:.40}: must be {AT_ONCE}, {GIVEN}, or a number above 0") from None


def show_progress(lines, num_requests):
    """Every 20 steps of the longest line."""
    num_steps = max(len(line.moments) for line in lines)
    if num_steps % 20 == 0:
        done = min(line.num_finished for line in lines)
        progress(f"step {num_steps:,}: {done} of {num_requests} requests are done in every line")


def report(about, results):
    """The results as a table, and what it is about."""
    head = ["", "blocks", "running", "tokens/s", "states", "reserved", "internal", "external", "cached", "computed",
            "preempted", "TTFT s", "ITL ms", "s/token"]  # fmt: skip
    lines = []
    for row in results:
        percent = [f"{100 * row['kv'][name]:.1f}%" for name in ("states", "reserved", "internal")]
        external = f"{100 * (row['kv']['external'] + row['kv']['rounding']):.1f}%"
        speed = [row["output_tokens_per_s"], row["ttft_s"]["p50"], row["itl_s"]["p50"], row["normalized_s"]["mean"]]
        speed = [math.nan if each is None else each for each in speed]
        lines.append(
            [row["line"], f"{row['num_blocks']:,}", f"{row['running']:.2f}", f"{speed[0]:,.0f}", *percent, external,
             f"{100 * row['kv']['cached']:.1f}%", f"{row['computed_tokens']:,}", f"{row['preemptions']:,}",
             f"{speed[1]:.2f}", f"{1e3 * speed[2]:.1f}", f"{speed[3]:.4f}"]
        )  # fmt: skip
    told = f"{about['requests']:,} requests of {about['workload']}, lengths times {about['scale']:g}, "
    told += f"{about['kv_memory']:,} bytes of K and V for each line, {about['shared']:.0%} of each prompt shared."
    if about["too_long"]:
        told += f" {about['too_long']:,} more are longer than the context of {CONTEXT:,}, and were left out."
    partial = "PARTIAL: the run was interrupted.\n\n" * about["partial"]
    return (
        f"{partial}{table(head, lines)}\n\n{told}\nrunning, and the shares of the slots: while somebody waits, by time."
        "\nTTFT, ITL: medians. s/token: the paper's normalized latency, a mean."
    )
