"""The real engine under load: what each way to keep K and V makes of the same memory, in bytes, and the same requests.

Before paging, each request reserved a run: for the model's whole context (max), for its output rounded up to a power of
two (pow2), or for its output as it will be, which only an oracle knows (oracle). Residency, how many requests run at
once, is what paging changes everywhere. What throughput that buys depends on the machine's batch curve
(batch_curve.py), which is measured in turn with the rest.
"""

import json
import os

from minipaged.arguments import real, size
from minipaged.bench import metrics, trace_file, workload
from minipaged.bench.measure import whole_list, whole_option
from minipaged.bench.serve_lines import CONTEXT, LINES, SLOTS
from minipaged.bench.serve_report import report
from minipaged.commandline import Parser, number

MAX_TOKENS = 2_000_000  # of all requests together
AT_ONCE, GIVEN = "all-at-once", "given"
PARTS = ("lines", "curve", "blocks", "indirection")


def stream(options, rate):
    """The requests that the options ask for: (those that the model's context can hold, those that are too long)."""
    if options.workload in workload.SOURCES:
        asked = workload.draw(options.workload, options.requests, rate, options.seed)
    elif not os.path.exists(options.workload):
        known = ", ".join(workload.SOURCES)
        raise ValueError(f"--workload {options.workload}: No such file: must be one of {known}, or the path of a file")
    else:
        asked = trace_file.read(options.workload, most=options.requests)
        if rate != GIVEN:
            asked = workload.retimed(asked, rate, options.seed)
    scaled = workload.scaled(asked, length=options.scale, rate=options.rate_scale)
    fit, too_long = workload.split_by_length(scaled, CONTEXT)
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
    parser.add_argument("--requests", default="150", help="how many (default: %(default)s)")
    parser.add_argument("--scale", type=a_float, default=0.5, help="of the lengths (default: %(default)s)")
    rates = "requests a second, a Poisson process, or several such rates; all-at-once (default), or given: a file's own"
    parser.add_argument("--rate", default=AT_ONCE, help=rates)
    parser.add_argument("--rate-scale", type=a_float, default=1.0, help="so many times the rate (default: 1)")
    parser.add_argument("--shared", type=a_float, default=0.5, help="part of each prompt that all share (default: 0.5)")
    parser.add_argument("--kv-memory", default=f"{SLOTS * 2048}B", help="of every line (default: %(default)s)")
    parser.add_argument("--block-size", default="16", help="tokens in a block (default: %(default)s)")
    parser.add_argument("--lines", default=",".join(LINES), help="which to compare (default: %(default)s)")
    parts = "what to measure: the lines, the batch curve, other block sizes, what a block table costs"
    parser.add_argument("--parts", default=",".join(PARTS), help=f"{parts} (default: %(default)s)")
    parser.add_argument("--batches", default="1,4,8,16,32,64,96", help="of the curve (default: %(default)s)")
    parser.add_argument("--block-sizes", default="1,4,16,64,128", help="to compare (default: %(default)s)")
    parser.add_argument("--goodput", default="", help="limits in seconds, such as ttft:1,normalized:0.05")
    parser.add_argument("--seed", type=number(int, "a whole number"), default=0, help="default: 0")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = checked(parser.parse_args(argv))
    streams = [stream(options, rate) for rate in options.rates]  # before torch is imported: seconds
    from minipaged.bench.serve_run import run

    told, interrupted = run(options, streams)
    print(json.dumps(told) if options.json else report(told))
    if interrupted:
        raise interrupted


def checked(options):
    """The options as numbers and lists. Raises ValueError for a value that isn't allowed."""
    options.requests = whole_option("--requests", options.requests)
    options.block_size = whole_option("--block-size", options.block_size)
    options.batches = whole_list("--batches", options.batches, most=256)
    options.block_sizes = whole_list("--block-sizes", options.block_sizes, most=CONTEXT)
    options.kv_memory = size("--kv-memory", options.kv_memory)
    real("--shared", options.shared, lambda share: 0 <= share <= 1, "a part, from 0 to 1")
    options.rates = [rate_of(text.strip(), options.workload) for text in options.rate.split(",")]
    options.lines = some_of("--lines", options.lines, LINES)
    options.parts = some_of("--parts", options.parts, PARTS)
    options.goodput = limits_of(options.goodput)
    return options


def some_of(option, text, allowed):
    """ "a,b" -> ["a", "b"]. Raises ValueError for a name that isn't allowed."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in allowed:
            raise ValueError(f"{option} {name!r:.40}: must be some of {', '.join(allowed)}")
    return list(dict.fromkeys(names))


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


def limits_of(text):
    """ "ttft:1,e2e:9" -> {"ttft": 1.0, "e2e": 9.0}. Raises ValueError for another name, and for no positive number."""
    limits = {}
    for part in filter(None, text.split(",")):
        name, _, seconds = part.strip().partition(":")
        try:
            if name not in metrics.LIMITS:
                raise ValueError
            limits[name] = real("--goodput", float(seconds), lambda number: number > 0, "a number above 0")
        except ValueError:
            names = ", ".join(metrics.LIMITS)
            raise ValueError(f"--goodput {part!r:.40}: must be one of {names}, a colon, and seconds above 0") from None
    return limits
