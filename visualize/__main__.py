"""python -m visualize: watch requests share one paged KV cache, block by block.

Decides what is shown and how the program ends; options.py reads the command line. Nothing is imported before signals
are taken care of. torch and the model are loaded last, when something is on the screen already; a replay needs neither.
"""

import sys
from contextlib import contextmanager

from visualize.signals import Signals


def main(argv=None):
    with Signals() as signals:
        with signals.held():
            from minipaged.commandline import exit_status
            from visualize.options import parse_args
        return exit_status("visualize", lambda: run(parse_args(argv), signals))


def run(args, signals):
    """Show what was asked for. Returns an exit status."""
    with signals.held():
        from visualize import options, recording, scenarios

    if args.list:
        for each in scenarios.ALL.values():
            print(f"{each.name:<21} {each.title}")
        return 0
    replay = recording.Replay(args.replay) if args.replay is not None else None
    scenario = options.scenario_of(args) if replay is None else None
    with opened(args.record) as file:

        def load():
            if replay:
                return replay
            if scenario.name == scenarios.KERNEL.name:
                with signals.held():
                    from visualize.walk_run import WalkRun  # imports torch: seconds

                return WalkRun(scenario, args.seed or 0, **scenario.settings)
            with signals.held():
                from minipaged.mine import Mine  # imports torch: seconds
                from visualize.engines import run_of

            story = run_of(scenario, args.seed or 0, Mine.load() if args.mine else None)
            return recording.Recorded(story, file) if file else story

        show(args, signals, load)
    if replay and replay.damage:
        raise ValueError(replay.damage)
    return 0


@contextmanager
def opened(path):
    """A file to write to, or None without a path."""
    if path is None:
        yield None
        return
    with open(path, "w", encoding="ascii") as file:
        yield file


def show(args, signals, load):
    """In the way that the options ask for. load() returns the run."""
    with signals.held():
        from visualize import animation, app
        from visualize.ink import ASCII, ink_for

    ink = ASCII if args.ascii else ink_for(sys.stdout.encoding)
    if args.json:
        app.print_json(load, limit=args.frames)
    elif args.save_svg is not None:
        app.save_svg(load, args.save_svg, args.once, args.frames)
    elif args.save_animation is not None:
        animation.save_animation(load, args.save_animation, limit=args.frames, fps=args.fps)
    elif args.once is not None:
        app.print_once(load, ink, args.once)
    elif args.plain:
        app.print_sentences(load, ink, limit=args.frames)
    elif app.is_interactive():
        app.watch(load, ink, signals, auto=args.auto, limit=args.frames, fps=args.fps)
    else:
        app.print_frames(load, ink, limit=args.frames)


if __name__ == "__main__":
    sys.exit(main())
