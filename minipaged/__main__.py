"""python -m minipaged: complete prompts (`generate`) or measure (`bench`) from a shell.

Decides how the program ends; options.py reads the command line, cli.py does the work. Nothing is imported before
signals are taken care of, and torch last, so that --help and a wrong command line answer at once. Exit statuses: 0; 2
for wrong input; 128 plus the number of a signal.
"""

import os
import signal
import sys


def main(argv=None):
    on_signals(leave_at_once)
    from minipaged.commandline import exit_status

    return exit_status("minipaged", lambda: run(argv))


def run(argv):
    from minipaged.options import parse_args

    sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?" for what it can't show
    args = parse_args(argv)
    return {"generate": generate, "bench": bench}[args.command](args)


def generate(args):
    """Check all that can be checked without a model, load it, run."""
    from minipaged import cli
    from minipaged.options import params_of, settings_of

    params, settings, prompts = params_of(args), settings_of(args), list(args.prompt)
    if args.prompts_file is not None:
        prompts += cli.read_prompts(args.prompts_file)
    llm = cli.load(settings, args.dense, args.mine)
    on_signals(unwind)
    cli.generate(llm, prompts, params, args.json)


def bench(args):
    from importlib import import_module

    module = import_module(f"minipaged.bench.{args.name.replace('-', '_')}")
    on_signals(unwind)
    return module.main(args.argv)


def on_signals(handler):
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows lacks one
            signal.signal(getattr(signal, name), handler)


def leave_at_once(number, frame):
    """While modules are imported: nothing needs cleaning up, and a half imported library may not pass exceptions on."""
    os._exit(128 + number)


def unwind(number, frame):
    """While the engine runs: like an exception, so that every `finally` runs. A second signal can't disturb that, but
    for one that finds a learner's code running (--mine), which may have caught the first."""
    if "minipaged.learner" in sys.modules:
        sys.modules["minipaged.learner"].interrupt(128 + number, frame)
    on_signals(signal.SIG_IGN)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
