"""python -m visualize: watch requests share one paged KV cache, block by block.

Reads the command line and nothing else. torch and the model are loaded last, when something is on the screen already;
a replay needs neither.
"""

import argparse
import sys
from contextlib import contextmanager
from dataclasses import replace

from minipaged.commandline import Parser, exit_status
from visualize import scenarios
from visualize.ink import ASCII, ink_for
from visualize.signals import Signals

MAX_SLOTS = 65_536  # of the pool: 128 MB of K and V for the tiny model
MAX_FPS = 10


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
    what.add_argument("--scenario", metavar="NAME", help="a story (default mixed)")
    what.add_argument("--list", action="store_true", help="tell which scenarios there are")
    what.add_argument("--replay", metavar="FILE", help="a recording; needs no model")
    what.add_argument("--seed", type=whole(0, 2**31), help="of the generated text (default 0)")
    what.add_argument("--num-blocks", type=whole(1, 4096), metavar="N", help="blocks in the pool")
    what.add_argument("--block-size", type=whole(1, 256), metavar="N", help="tokens in a block")
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
    for name in ("num_blocks", "block_size", "seed", "record") if args.replay is not None else ():
        if getattr(args, name) is not None:
            parser.error(f"--replay with --{name.replace('_', '-')}: a recording is what it is, leave one of them out")
    if args.max_tokens and not args.prompts:
        parser.error("--max-tokens is for your own prompts, and none is given")
    if args.once is not None and (args.plain or args.json or args.frames or args.auto or args.fps):
        parser.error("--once prints one frame: leave out --plain, --json, --frames, --auto and --fps")
    for name in ("save_svg", "save_animation", "record", "replay"):
        if getattr(args, name) == "":
            parser.error(f"--{name.replace('_', '-')}: the file's name is empty")
    if "" in args.prompts:
        parser.error("a prompt is empty: at least 1 character is needed")


def scenario_of(args):
    """The Scenario that is asked for, with the pool that is asked for. Raises ValueError for one that can't be had."""
    if args.prompts:
        scenario = scenarios.of_prompts(args.prompts, args.max_tokens or 24)
    else:
        scenario = scenarios.find(args.scenario or "mixed")
    sizes = {name: getattr(args, name) for name in ("num_blocks", "block_size") if getattr(args, name) is not None}
    settings = scenario.settings | sizes
    num_blocks, block_size = settings["num_blocks"], settings["block_size"]
    if num_blocks * block_size > MAX_SLOTS:
        raise ValueError(
            f"--num-blocks {num_blocks} with --block-size {block_size} makes {num_blocks * block_size:,} slots: "
            f"at most {MAX_SLOTS:,} are allowed"
        )
    if sizes:  # the story is about the pool that it was written for
        scenario = replace(scenario, before="", after="")
    return replace(scenario, settings=settings)


def main(argv=None):
    return exit_status("visualize", lambda: start(parse_args(argv)))


def start(args):
    if args.list:
        for each in scenarios.SCENARIOS.values():
            print(f"{each.name:<10} {each.title}")
        return None
    with Signals() as signals, opened(args.record) as file:
        return run(args, signals, file)


@contextmanager
def opened(path):
    """A file to write to, or None without a path."""
    if path is None:
        yield None
        return
    with open(path, "w", encoding="ascii") as file:
        yield file


def run(args, signals, file):
    """Show what was asked for; file: where to record it, or None. Returns an exit status."""
    from visualize import animation, app, recording

    ink = ASCII if args.ascii else ink_for(sys.stdout.encoding)
    replay = recording.Replay(args.replay) if args.replay is not None else None
    scenario = scenario_of(args) if replay is None else None

    def load():
        if replay:
            return replay
        with signals.held():
            from minipaged.serving.llm import LLM  # imports torch: seconds

            llm = LLM(seed=args.seed or 0, **scenario.settings)
        story = scenarios.Run(scenario, llm.engine, args.seed or 0)
        return recording.Recorded(story, file) if file else story

    if args.json:
        app.print_json(load, limit=args.frames)
    elif args.save_svg is not None:
        app.save_svg(load, args.save_svg, args.once, args.frames)
    elif args.save_animation is not None:
        animation.save_animation(load, args.save_animation, args.frames)
    elif args.once is not None:
        app.print_once(load, ink, args.once)
    elif args.plain:
        app.print_sentences(load, ink, limit=args.frames)
    elif app.is_interactive():
        app.watch(load, ink, auto=args.auto, limit=args.frames, fps=args.fps)
    else:
        app.print_frames(load, ink, limit=args.frames)
    if replay and replay.damage:
        print(f"visualize: {replay.damage}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
