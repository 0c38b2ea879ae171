"""The command line of `python -m visualize`: which options there are, which can't be given together, and what they ask
for."""

import argparse
import os
from dataclasses import replace

from minipaged import arguments
from minipaged.commandline import Parser, number
from minipaged.options import ATTENTION, CACHE_DTYPES, CACHE_DTYPES_TELL, MEMORIES, MEMORIES_TELL
from visualize import scenarios
from visualize.walk_sizes import MAX_BLOCK_SIZE

MAX_BLOCKS = 4096
MAX_SLOTS = 65_536  # of the pool
MAX_BYTES = 2**27  # which these take for the tiny model
MAX_FPS = 10
POOL = (
    "num_blocks",
    "kv_memory",
    "cache_dtype",
    "block_size",
    "memory",
    "preemption",
    "swap_blocks",
    "watermark",
)  # what can be asked for in every scenario


def whole(least, most):
    """A whole number in a range, as a type for argparse."""

    def parse(text):
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from {least:,} to {most:,}")
        return number

    return parse


def fps(text):
    try:
        number = float(text)
    except ValueError:
        number = None
    if number is None or not 0 < number <= MAX_FPS:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0 and at most {MAX_FPS}")
    return number


def parse_args(argv):
    about = "Watch requests share one paged KV cache, block by block."
    parser = Parser(prog="python -m visualize", description=about)
    what = parser.add_argument_group("what to watch")
    what.add_argument("prompts", nargs="*", metavar="PROMPT", help="your own prompts, in the place of a scenario")
    what.add_argument(
        "--max-tokens", type=whole(1, 1023), metavar="N", help="to generate for each of them (default 24)"
    )
    together = whole(1, scenarios.MOST_TOGETHER)
    what.add_argument("--n", type=together, metavar="N", help="so many answers to each of them (default 1)")
    what.add_argument("--beam-width", type=together, metavar="N", help="a beam search for each of them, so wide")
    what.add_argument("--scenario", metavar="NAME", help="a story (default mixed)")
    what.add_argument("--list", action="store_true", help="tell which scenarios there are")
    what.add_argument("--replay", metavar="FILE", help="a recording; needs no model")
    what.add_argument("--mine", action="store_true", help="run your own parts, from the exercises you have solved")
    what.add_argument("--seed", type=whole(0, 2**31), help="of the generated text (default 0)")
    what.add_argument("--num-blocks", type=whole(1, MAX_BLOCKS), metavar="N", help="blocks in the pool")
    what.add_argument("--kv-memory", metavar="SIZE", help="the pool's bytes, such as 128KiB, in place of --num-blocks")
    what.add_argument("--cache-dtype", choices=CACHE_DTYPES, help=CACHE_DTYPES_TELL)
    what.add_argument("--block-size", type=whole(1, 256), metavar="N", help="tokens in a block")
    what.add_argument("--memory", choices=MEMORIES, help=MEMORIES_TELL)
    what.add_argument("--no-prefix-caching", action="store_true", help="compute every prompt from its start")
    what.add_argument("--attention", choices=ATTENTION, help="auto (default) is triton on a GPU, batched on a CPU")
    what.add_argument("--preemption", choices=arguments.PREEMPTION, help="what becomes of the blocks of who must yield")
    what.add_argument(
        "--swap-blocks", type=number(int, "a whole number"), metavar="N", help="blocks in the host pool, to swap to"
    )
    what.add_argument(
        "--watermark", type=number(float, "a number"), metavar="W", help="share of the pool left free at an entry"
    )
    how = parser.add_argument_group("how to watch it")
    how.add_argument("--auto", action="store_true", help="play to the end and leave; no key is needed")
    how.add_argument("--fps", type=fps, metavar="N", help="play so many steps a second")
    how.add_argument("--frames", type=whole(1, 10**6), metavar="N", help="stop after N frames")
    how.add_argument("--once", type=whole(0, 10**6), metavar="STEP", help="print the frame of one step")
    how.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    mode = how.add_mutually_exclusive_group()
    mode.add_argument("--plain", action="store_true", help="no picture: one sentence a line, as for a screen reader")
    mode.add_argument("--json", action="store_true", help="no picture: each step's state as a line of JSON")
    mode.add_argument("--save-svg", metavar="FILE", help="draw the last frame, or that of --once, into a file")
    mode.add_argument("--save-animation", metavar="FILE", help="draw the whole run into a file, a picture that moves")
    how.add_argument("--record", metavar="FILE", help="write a recording as well, for --replay")
    args = parser.parse_args(argv)
    check_together(parser, args)
    return args


def check_together(parser, args):
    """What argparse can't say about options that meet."""
    sources = {"--scenario": args.scenario, "prompts": args.prompts or None, "--replay": args.replay}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        parser.error(f"{' and '.join(given)}: only one of them can be watched")
    for name in (
        (*POOL, "attention", "seed", "record", "max_tokens", "n", "beam_width") if args.replay is not None else ()
    ):
        if getattr(args, name) is not None:
            parser.error(f"--replay with --{name.replace('_', '-')}: a recording is what it is, leave one of them out")
    for name in ("mine", "no_prefix_caching") if args.replay is not None else ():
        if getattr(args, name):
            parser.error(f"--replay with --{name.replace('_', '-')}: a recording is what it is, leave one of them out")
    if args.num_blocks is not None and args.kv_memory is not None:
        both = f"--num-blocks {args.num_blocks} with --kv-memory {args.kv_memory}"
        parser.error(f"{both}: each says how many blocks there are, leave one out")
    if args.n is not None and args.beam_width is not None:
        parser.error("--n with --beam-width: answers are drawn or searched for, leave one of them out")
    for name in ("n", "beam_width"):
        if (getattr(args, name) or 1) > 1 and args.memory not in (None, "paged"):
            asked = f"--{name.replace('_', '-')} {getattr(args, name)} with --memory {args.memory}"
            parser.error(f"{asked}: answers share a prompt in paged memory only, leave one out")
    for name in ("max_tokens", "n", "beam_width"):
        if getattr(args, name) and not args.prompts:
            parser.error(f"--{name.replace('_', '-')} is for your own prompts, and none is given")
    if args.save_animation is not None and args.once is not None:
        parser.error("--save-animation with --once: a whole run or one step, leave one of them out")
    files = [(name, getattr(args, name)) for name in ("record", "replay", "save_svg", "save_animation")]
    files = [(name, os.path.realpath(file)) for name, file in files if file]
    for name, file in files:
        if [each for _, each in files].count(file) > 1:
            parser.error(f"--{name.replace('_', '-')} {file}: two options name the same file")
    if args.once is not None and (args.plain or args.json or args.frames or args.auto or args.fps):
        parser.error("--once prints one frame: leave out --plain, --json, --frames, --auto and --fps")
    for name in ("save_svg", "save_animation", "record", "replay"):
        if getattr(args, name) == "":
            parser.error(f"--{name.replace('_', '-')}: the file's name is empty")
    if "" in args.prompts:
        parser.error("a prompt is empty: at least 1 character is needed")


def walk_of(args):
    """The walk through the decode kernel. Raises ValueError for what has no meaning there."""
    without = [
        name for name in (*POOL, "attention", "record") if getattr(args, name) is not None and name != "block_size"
    ]
    without += [name for name in ("mine", "no_prefix_caching") if getattr(args, name)]
    asked = "--scenario kernel with --"
    if without:
        raise ValueError(f"{asked}{without[0].replace('_', '-')}: no engine runs in it, leave one of them out")
    if args.block_size is not None and args.block_size > MAX_BLOCK_SIZE:
        raise ValueError(f"{asked}block-size {args.block_size}: at most {MAX_BLOCK_SIZE} are shown there")
    settings = {} if args.block_size is None else {"block_size": args.block_size}
    return replace(scenarios.KERNEL, settings=settings)


def scenario_of(args):
    """The Scenario that is asked for, with the pool that is asked for. Raises ValueError for one that can't be had."""
    if args.prompts:
        scenario = scenarios.of_prompts(args.prompts, args.max_tokens or 24, args.n or 1, args.beam_width, args.memory)
    else:
        scenario = scenarios.find(args.scenario or "mixed")
        if scenario is scenarios.KERNEL:
            return walk_of(args)
    settings = scenario.settings | {name: getattr(args, name) for name in POOL if getattr(args, name) is not None}
    if args.preemption == "recompute" and args.swap_blocks is None:
        settings.pop("swap_blocks", None)  # the scenario's own
    memory = settings.get("memory", "paged")
    if args.mine and memory != "paged":
        raise ValueError(f"--mine with --memory {memory}: your parts build paged memory only, leave one out")
    if args.no_prefix_caching:
        settings["enable_prefix_caching"] = False
    check_bytes(args, scenario)
    block_size = settings["block_size"]
    if "kv_memory" in settings:
        settings.pop("num_blocks", None)
    num_blocks = settings.get("num_blocks", 1)
    if num_blocks * block_size > MAX_SLOTS:
        raise ValueError(
            f"--num-blocks {num_blocks} with --block-size {block_size} makes {num_blocks * block_size:,} slots: "
            f"at most {MAX_SLOTS:,} are allowed"
        )
    # LLM checks these too; here it is answered before anything is drawn.
    swap_blocks = settings.get("swap_blocks", 0)
    arguments.whole("swap_blocks", swap_blocks, least=0, most=min(MAX_BLOCKS, MAX_SLOTS // block_size))
    arguments.swapping(settings.get("preemption", "recompute"), swap_blocks)
    arguments.watermark_of(settings.get("watermark", 0.0))
    if settings != scenario.settings:  # the story is about the pool that it was written for
        scenario = replace(scenario, before="", after="")
    if args.attention is not None:  # the story is the same
        settings["attention"] = args.attention
    return replace(scenario, settings=settings)


def check_bytes(args, scenario):
    """Raises ValueError for too large a memory, and for what a story that compares types of cache says itself."""
    if args.kv_memory is not None and arguments.size("--kv-memory", args.kv_memory) > MAX_BYTES:
        raise ValueError(f"--kv-memory {args.kv_memory}: at most {MAX_BYTES // 2**20} MiB are allowed")
    for name in ("cache_dtype", "num_blocks") if scenario.cache_dtypes else ():
        if getattr(args, name) is not None:
            asked = f"--scenario {scenario.name} with --{name.replace('_', '-')} {getattr(args, name)}"
            both = " and ".join(scenario.cache_dtypes)
            raise ValueError(f"{asked}: it compares {both} in the same --kv-memory, leave one of them out")
