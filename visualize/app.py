"""App: shows a run on a terminal and obeys its keys, or prints it frame by frame where there is no terminal.

One thread does everything: it reads a key or waits, steps the engine, draws. However it ends, by a key, an exception
or a signal (signals.py), the terminal is left as it was found.

Everywhere here, load() returns the run, which may take seconds, and `options` are those of a Player.
"""

import io
import os
import re
import shutil
import sys
import time
from contextlib import ExitStack

from rich.console import Console
from rich.live import Live
from rich.text import Text

from visualize.ink import UNICODE, safe
from visualize.keys import Keys
from visualize.lines import line
from visualize.player import Player
from visualize.storage import stored_as
from visualize.view import MIN_HEIGHT, MIN_WIDTH

FRAME_SECONDS = 0.1  # no more than 10 frames a second
LOOK_SECONDS = 0.25  # how often to look whether the terminal has another size

LOADING = "loading"


def footer(player, ink, has_keys=True):
    """Where the player stands, and the keys that matter most."""
    if player.is_hurrying:
        return line((" going on ", "reverse"), f"  at step {player.snapshot.step:,}")
    if player.is_over:
        state, words = (" finished ", player.manner.end) if player.is_finished else (" stopped ", "no more to show")
        keys = ("   ", ("b", "bold"), " back   ", ("?", "bold"), " help   ", ("q", "bold"), " quit")
        return line((state, "reverse"), f"  {words}", *(keys if has_keys else ()))
    state, other = (" playing ", "pause") if player.playing else (" paused ", "play")
    if not has_keys:
        return line((state, "reverse"))
    speed = f" x{player.speed:g}" if player.speed != 1 else ""
    keys = (("space", "bold"), " step   ", ("b", "bold"), " back   ", ("p", "bold"), f" {other}   ")
    return line((state, "reverse"), speed, "  ", *keys, ("?", "bold"), " help   ", ("q", "bold"), " quit")


def watch(load, ink, signals, auto=False, **options):
    """Run on the terminal until q; with `auto` or a limit, until the last snapshot was shown."""
    width, height = terminal_size()
    console = Console(width=width, height=height, highlight=False, force_terminal=True, force_interactive=True)
    leaves = auto or options.get("limit")
    player = show(console, ink, signals, load, leaves, options)
    if leaves and player.is_over:  # the alternate screen is gone; leave what was asked for
        width, height = terminal_size()
        console.print(player.frame(width, max(height - 1, MIN_HEIGHT), ink))


def show(console, ink, signals, load, leaves, options):
    """The alternate screen. Returns the player, as it stood at the end. Signals can't break in while it is set up."""
    with ExitStack() as stack:
        try:
            with signals.held():
                keys = stack.enter_context(Keys())
                live = stack.enter_context(Live(console=console, screen=True, auto_refresh=False))
            return loop(console, ink, keys, live, load, leaves, options)
        finally:
            signals.hold()  # nor while it is left


def loop(console, ink, keys, live, load, leaves, options):
    """Show, wait for a key or for the time of the next step, obey."""
    live.update(Text(f"\n  {LOADING}{ink.ellipsis}"), refresh=True)
    player = Player(load(), **options)
    drawn_at, drawn = 0, None
    while True:
        now = time.monotonic()
        player.tick()
        size = terminal_size()
        state = (size, player.position, len(player.history), player.playing, player.speed, player.focus)
        state += (player.is_hurrying, player.help_page, player.only_why)
        if state != drawn and now >= drawn_at + FRAME_SECONDS:
            console.size = size
            live.update(draw(player, *size, ink, keys.available), refresh=True)
            drawn_at, drawn = now, state
        if player.is_over and state == drawn and (leaves or not keys.available):
            return player
        wake = [now + LOOK_SECONDS]
        wake += [player.next_step] if player.playing else []
        wake += [drawn_at + FRAME_SECONDS] if state != drawn else []
        wake += [now] if player.is_hurrying else []
        key = keys.read(max(0, min(wake) - time.monotonic()))
        if key and not player.press(key):
            return player


def draw(player, width, height, ink, has_keys):
    if player.help_page and width >= MIN_WIDTH and height >= MIN_HEIGHT:
        pages = player.manner.help_pages(width, height, ink)
        return pages[(player.help_page - 1) % len(pages)]
    return player.frame(width, height, ink, footer(player, ink, has_keys))


def terminal_size():
    """(columns, lines), asked of the terminal itself: COLUMNS and LINES, if set, don't follow a resize."""
    try:
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns = lines = 0
    return columns or 80, lines or 24


def print_frames(load, ink, **options):
    """For a pipe or a file: every frame as plain lines, a blank line between two."""
    width, height = shutil.get_terminal_size((120, 36))
    for player in frames(load(), **options):
        print(plain(player.frame(width, height, ink)), end="\n\n", flush=True)


def plain(frame):
    return "\n".join(row.rstrip() for row in frame.plain.split("\n")).rstrip("\n")


def print_sentences(load, ink, **options):
    """For a screen reader or a pipe: no picture, one line for each thing that happens."""
    for player in frames(load(), **options):
        lines = [f"step {player.snapshot.step}: {event.why}." for event in player.snapshot.events]
        about = [player.run.title, player.story(), *stored_as(player.snapshot)[:1]]
        lines = [*about, *lines] if player.position == 0 else [*lines, player.story()]
        for each in lines:
            if each:
                print(safe(each, ink), flush=True)


def print_once(load, ink, step):
    """The frame of one step, with colours where stdout is a terminal."""
    player = at_step(load(), step)
    if sys.stdout.isatty():
        width, height = terminal_size()
        Console(width=width, height=height, highlight=False).print(player.frame(width, max(height - 1, 1), ink))
    else:
        print(plain(player.frame(*shutil.get_terminal_size((120, 36)), ink)))


def at_step(run, step):
    """A player that shows this step. Raises ValueError if the run ends before it."""
    for player in frames(run):
        if player.snapshot.step == step:
            return player
    raise ValueError(f"--once {step}: must be a step of this run, which has steps 0 to {player.snapshot.step}")


def print_json(load, **options):
    """Every snapshot as one line of JSON."""
    for player in frames(load(), **options):
        print(player.snapshot.to_json(), flush=True)


def save_svg(load, path, step=None, limit=None):
    """A frame as a picture: of one step, or the last one."""
    must_be_writable(path)
    if step is None:
        *_, player = frames(load(), limit=limit)
    else:
        player = at_step(load(), step)
    write_file(path, svg_of(player))


def must_be_writable(path):
    """Raise OSError now, before anything else is done, for a file that can't be written. What it holds is kept."""
    with open(path, "a", encoding="utf-8"):
        pass


def write_file(path, text):
    """Raises OSError with the file's name."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def svg_of(player, width=140, height=40):
    console = Console(record=True, width=width, height=height, file=io.StringIO(), force_terminal=True)
    console.print(player.frame(width, height, UNICODE, footer(player, UNICODE)))
    svg = console.export_svg(title="python -m visualize")
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # a picture that loads nothing from elsewhere


def frames(run, **options):
    """The player, at every snapshot."""
    player = Player(run, **options)
    yield player
    while not player.is_over:
        player.step()
        yield player


def is_interactive():
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
