"""python -m visualize: watch requests share one paged KV cache, block by block.

Reads the command line and nothing else. torch and the model are loaded last, when something is on the screen already.
"""

import argparse
import os
import sys
from dataclasses import replace

from visualize.scenarios import MIXED, Run
from visualize.signals import Signals

MAX_SLOTS = 65_536  # of the pool: 128 MB of K and V for the tiny model


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line, and exit status 2."""
        hint = " (--help lists what is allowed)" if message.startswith("unrecognized") else ""
        self.exit(2, f"visualize: {message}{hint}\n")


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
    parser = Parser(prog="python -m visualize", description=about, allow_abbrev=False)
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
    args = parse_args(argv)
    if sys.stdout is None:
        print("visualize: there is no standard output to show anything on", file=sys.stderr)
        return 2
    try:
        with Signals() as signals:
            run(args, signals)
    except OSError as error:
        if error.filename is None:  # stdout itself: nothing more can be written to it, not even what is left at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            return 0
        place = f"{error.filename}: " if error.filename else ""
        print(f"visualize: {place}{error.strerror}", file=sys.stderr)
        return 2
    return 0


def run(args, signals):
    from visualize import app

    sizes = {"num_blocks": args.num_blocks, "block_size": args.block_size}
    scenario = replace(MIXED, settings=MIXED.settings | sizes)

    def load():
        with signals.held():
            from minipaged.serving.llm import LLM  # imports torch: seconds

            try:
                llm = LLM(seed=args.seed, **scenario.settings)
            except ValueError as error:
                print(f"visualize: {error}", file=sys.stderr)
                raise SystemExit(2) from error
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
