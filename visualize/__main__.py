"""python -m visualize: watch requests share one paged KV cache, block by block.

Reads the command line and nothing else. torch and the model are loaded last, when something is on the screen already.
"""

import argparse
import sys
from dataclasses import replace

from minipaged.commandline import Parser, exit_status
from visualize.scenarios import MIXED, Run
from visualize.signals import Signals

MAX_SLOTS = 65_536  # of the pool: 128 MB of K and V for the tiny model


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


def parse_args(argv):
    settings = MIXED.settings
    about = "Watch requests share one paged KV cache, block by block."
    parser = Parser(prog="python -m visualize", description=about)
    parser.add_argument("--seed", type=whole(0, 2**31), default=0, help="of the generated text (default 0)")
    parser.add_argument("--num-blocks", type=whole(1, 4096), default=settings["num_blocks"], metavar="N",
                        help="blocks in the pool (default %(default)s)")  # fmt: skip
    parser.add_argument("--block-size", type=whole(1, 256), default=settings["block_size"], metavar="N",
                        help="tokens in a block (default %(default)s)")  # fmt: skip
    parser.add_argument("--frames", type=whole(1, 10**6), metavar="N", help="stop after N frames")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--json", action="store_true", help="print snapshots, one a line, instead of drawing them")
    mode.add_argument("--save-svg", metavar="FILE", help="draw the last frame into a file, nothing on the screen")
    args = parser.parse_args(argv)
    if args.save_svg == "":
        parser.error("--save-svg: the file's name is empty")
    slots = args.num_blocks * args.block_size
    if slots > MAX_SLOTS:
        parser.error(
            f"--num-blocks {args.num_blocks} with --block-size {args.block_size} makes {slots:,} slots: "
            f"at most {MAX_SLOTS:,} are allowed"
        )
    return args


def main(argv=None):
    return exit_status("visualize", lambda: start(parse_args(argv)))


def start(args):
    with Signals() as signals:
        run(args, signals)


def run(args, signals):
    from visualize import app

    sizes = {"num_blocks": args.num_blocks, "block_size": args.block_size}
    scenario = replace(MIXED, settings=MIXED.settings | sizes)

    def load():
        with signals.held():
            from minipaged.serving.llm import LLM  # imports torch: seconds

            llm = LLM(seed=args.seed, **scenario.settings)
        return Run(scenario, llm.engine, args.seed)

    if args.json:
        app.print_json(load, args.frames)
    elif args.save_svg is not None:
        app.save_svg(load, scenario.title, args.save_svg, args.frames)
    elif app.is_interactive():
        app.watch(load, scenario.title, args.frames)
    else:
        app.print_frames(load, scenario.title, args.frames)


if __name__ == "__main__":
    sys.exit(main())
