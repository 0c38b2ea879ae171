"""The command line of `python -m minipaged`: which options there are, and which can't be given together."""

import argparse

from minipaged import cli
from minipaged.arguments import MAX_SLOTS, PREEMPTION, size, whole
from minipaged.commandline import Parser, number
from minipaged.memory.contiguous import POLICIES
from minipaged.serving.sequence import BeamSearchParams, SamplingParams

BENCHMARKS = ("decode", "bookkeeping", "prefix", "cost-model", "kernels", "quality", "serve")
BENCHMARKS_TELL = (
    "tokens per second of the whole engine (minutes); a step of scheduler and memory alone (seconds); the time to the "
    "first token with prefix caching and without, or the hits in a trace (a minute); the formula for a step's time, "
    "fitted to this machine (a minute); the attention kernels on a GPU; what a cache of fewer bytes costs in quality "
    "(a minute); requests under load, by how memory is kept (minutes)"
)
MEMORIES = ("paged", *POLICIES)
MEMORIES_TELL = (
    "paged (default), or one run of blocks for each request, reserved when it enters: for the longest that the model "
    "allows, for the output rounded up to a power of two, or for the output as it is"
)
ATTENTION = ("auto", "batched", "reference", "triton")  # attention.backends has them too, and imports torch
CACHE_DTYPES = ("auto", "float32", "float16", "bfloat16", "int8", "fp8")  # likewise attention.kv_codec
CACHE_DTYPES_TELL = "how K and V are stored: auto is as they are computed, int8 and fp8 are a byte a number, and scales"
SAMPLING_ONLY = ("temperature", "top_k", "top_p", "stop", "n")
CACHE_ONLY = (
    "attention", "block_size", "num_blocks", "kv_memory", "cache_dtype", "max_num_seqs", "max_num_batched_tokens",
    "memory", "enable_prefix_caching", "preemption", "swap_blocks", "watermark",
)  # fmt: skip


def some_text(text):
    """A type for argparse: a text that isn't empty. Bytes that aren't UTF-8 reach Python as lone surrogates."""
    if not text:
        raise argparse.ArgumentTypeError("'' must have at least 1 character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r} must be UTF-8") from None
    return cli.unescaped(text)


def parse_args(argv):
    parser = Parser(prog="python -m minipaged", description="A paged KV cache for a small GPT.")
    commands = parser.add_subparsers(dest="command", metavar="generate|bench", required=True)
    about = "complete prompts"
    generate = commands.add_parser("generate", help=about, description=about.capitalize() + ".")
    add_generate(generate)
    about = f"measure: {', '.join(BENCHMARKS[:-1])} or {BENCHMARKS[-1]}"
    bench = commands.add_parser("bench", help=about, description=about.capitalize() + ".")
    bench.add_argument("name", metavar="|".join(BENCHMARKS), choices=BENCHMARKS, help=BENCHMARKS_TELL)
    bench.add_argument("argv", nargs=argparse.REMAINDER, metavar="...", help="its own options; --help lists them")
    args = parser.parse_args(argv)
    if args.command == "generate":
        check_together(parser, args)
    return args


def add_generate(parser):
    """The options of `generate`. Those that LLM, SamplingParams or BeamSearchParams have a default for are left out of
    args where they aren't given."""
    default = SamplingParams()
    an_int, a_float = number(int, "a whole number"), number(float, "a number")
    unset = {"default": argparse.SUPPRESS}

    prompts = parser.add_argument_group("prompts")
    prompts.add_argument("--prompt", action="append", default=[], type=some_text, metavar="TEXT",
                         help=r"repeatable; \n stands for the end of a line")  # fmt: skip
    prompts.add_argument("--prompts-file", metavar="FILE",
                         help=r"one prompt a line, UTF-8, blank lines skipped; \n as in --prompt")  # fmt: skip

    sampling = parser.add_argument_group("sampling and stopping")
    sampling.add_argument("--max-tokens", type=an_int, default=default.max_tokens, metavar="N",
                          help="the most to generate, if the context allows (default %(default)s)")  # fmt: skip
    sampling.add_argument("--temperature", type=a_float, metavar="T", **unset,
                          help=f"0 takes the likeliest token (default {default.temperature})")  # fmt: skip
    sampling.add_argument("--top-k", type=an_int, metavar="N", **unset,
                          help=f"draw from the N likeliest tokens; 0: from all (default {default.top_k})")  # fmt: skip
    sampling.add_argument("--top-p", type=a_float, metavar="P", **unset,
                          help=f"draw from the likeliest tokens that make up P (default {default.top_p})")  # fmt: skip
    sampling.add_argument("--n", type=an_int, metavar="N", **unset,
                          help=f"answers to each prompt, which is computed once (default {default.n})")  # fmt: skip
    sampling.add_argument("--stop", action="append", type=some_text, metavar="TEXT", **unset,
                          help=r"end before this text; repeatable; \n as in --prompt")  # fmt: skip
    sampling.add_argument("--ignore-eos", action="store_true", help="go on after the end of text")

    beams = parser.add_argument_group("beam search, in the place of sampling")
    beams.add_argument("--beam-width", type=an_int, metavar="N", **unset,
                       help="follow the N likeliest beginnings; the answers are N too, the best first")  # fmt: skip
    beams.add_argument("--length-penalty", type=a_float, metavar="P", **unset,
                       help="best is the sum of the log-probabilities / length ** P (default 1.0)")  # fmt: skip

    engine = parser.add_argument_group("engine")
    engine.add_argument("--model", metavar="NAME", **unset, help='"tiny" (default) or a folder')
    engine.add_argument("--seed", type=an_int, default=0, metavar="N",
                        help="LLM's: each prompt gets one of its own from it (default %(default)s)")  # fmt: skip
    engine.add_argument("--dtype", choices=("float32", "float64"), **unset, help="default float32")
    engine.add_argument("--block-size", type=an_int, metavar="N", **unset, help="tokens in a block (default 16)")
    engine.add_argument("--num-blocks", type=an_int, metavar="N", **unset, help="blocks in the pool (default 256)")
    engine.add_argument("--kv-memory", metavar="SIZE", **unset,
                        help="the pool's size in bytes, such as 2MiB, in the place of --num-blocks")  # fmt: skip
    engine.add_argument("--cache-dtype", choices=CACHE_DTYPES, **unset, help=CACHE_DTYPES_TELL)
    engine.add_argument("--max-num-seqs", type=an_int, metavar="N", **unset, help="sequences in a step (default 64)")
    engine.add_argument("--max-num-batched-tokens", type=an_int, metavar="N", **unset,
                        help="tokens in a step (default 512, or --max-num-seqs if that is more)")  # fmt: skip
    engine.add_argument("--memory", choices=MEMORIES, **unset, help=MEMORIES_TELL)
    engine.add_argument("--no-prefix-caching", action="store_const", const=False, dest="enable_prefix_caching",
                        help="compute every prompt from its start, however an earlier one began", **unset)  # fmt: skip
    engine.add_argument("--preemption", choices=PREEMPTION, **unset,
                        help="what becomes of the blocks of who must yield (default recompute)")  # fmt: skip
    engine.add_argument("--swap-blocks", type=an_int, metavar="N", **unset,
                        help="blocks in the host pool, for --preemption swap (default 0)")  # fmt: skip
    engine.add_argument("--watermark", type=a_float, metavar="W", **unset,
                        help="the share of the pool left free when a request enters (default 0)")  # fmt: skip
    engine.add_argument("--attention", choices=ATTENTION, **unset,
                        help="default auto: triton on a GPU, batched on a CPU")  # fmt: skip
    engine.add_argument("--device", choices=("cpu", "cuda"), **unset, help="default cpu")
    engine.add_argument("--mine", action="store_true", help="with your own parts, from the exercises you have solved")
    engine.add_argument("--dense", action="store_true",
                        help="no cache: every position computed anew, prompt by prompt; the oracle")  # fmt: skip
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one line of JSON for each answer: its prompt, its tokens, why it ended",
    )


def check_together(parser, args):
    """What argparse can't say about options that meet."""
    if not args.prompt and args.prompts_file is None:
        parser.error("no prompt: give --prompt or --prompts-file")
    for name in SAMPLING_ONLY:
        if hasattr(args, "beam_width") and hasattr(args, name):
            parser.error(
                f"--beam-width with {option(name)}: that draws nothing, and finds one answer a beam; leave one out"
            )
    if hasattr(args, "length_penalty") and not hasattr(args, "beam_width"):
        parser.error("--length-penalty without --beam-width: it compares the answers of a beam search")
    if args.dense and args.mine:
        parser.error("--dense with --mine: --dense has no cache, so none of your parts; leave one of them out")
    if args.dense:
        for name in CACHE_ONLY:
            if hasattr(args, name):
                value = f" {getattr(args, name)}" * (name != "enable_prefix_caching")
                parser.error(f"--dense with {option(name)}{value}: it has no cache, leave one out")
        for name in ("n", "beam_width"):
            if getattr(args, name, 1) > 1:
                parser.error(f"--dense with {option(name)} {getattr(args, name)}: it computes one answer to a prompt")
    if getattr(args, "memory", "paged") != "paged":
        memory = f"--memory {args.memory}"
        if args.mine:
            parser.error(f"--mine with {memory}: your parts build paged memory only, leave one out")
        for name in ("n", "beam_width"):
            if getattr(args, name, 1) > 1:
                asked = f"{option(name)} {getattr(args, name)}"
                parser.error(f"{asked} with {memory}: answers share a prompt in paged memory only, leave one out")
    if hasattr(args, "kv_memory"):
        if hasattr(args, "num_blocks"):
            both = f"--num-blocks {args.num_blocks} with --kv-memory {args.kv_memory}"
            parser.error(f"{both}: each says how many blocks there are, leave one out")
        size("--kv-memory", args.kv_memory)
        return
    # LLM checks this too; here it is answered before torch is imported.
    num_blocks, block_size = getattr(args, "num_blocks", 256), getattr(args, "block_size", 16)
    slots = num_blocks * block_size
    if min(num_blocks, block_size) > 0 and slots > MAX_SLOTS:
        parser.error(f"--num-blocks times --block-size is {slots:,} slots: at most {MAX_SLOTS:,} are allowed")


def option(name):
    name = {"enable_prefix_caching": "no_prefix_caching"}.get(name, name)
    return "--" + name.replace("_", "-")


def params_of(args):
    """The SamplingParams or BeamSearchParams of `generate`'s options. Raises ValueError for a value that isn't
    allowed."""
    kind = BeamSearchParams if hasattr(args, "beam_width") else SamplingParams
    names = ("max_tokens", "ignore_eos", *SAMPLING_ONLY, "beam_width", "length_penalty")
    return kind(**{name: getattr(args, name) for name in names if hasattr(args, name)})


def settings_of(args):
    """The keyword arguments of LLM that `generate`'s options give."""
    names = ("model", "dtype", "device", *CACHE_ONLY)
    settings = {name: getattr(args, name) for name in names if hasattr(args, name)}
    return settings | {"seed": whole("seed", args.seed, least=0)}
