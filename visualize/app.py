"""App: shows a run on a terminal and obeys its keys, or prints it frame by frame where there is no terminal.

One thread does everything: it reads a key or waits, steps the engine, draws. However it ends, by a key, an exception
or a signal (signals.py), the terminal is left as it was found.
"""

import io
import os
import re
import shutil
import sys
import time

from rich.console import Console
from rich.live import Live
from rich.text import Text

from visualize.ink import UNICODE, ink_for
from visualize.keys import Keys
from visualize.lines import line
from visualize.view import MIN_HEIGHT, view
from visualize.why import LANDMARKS

FRAME_SECONDS = 0.1  # no more than 10 frames a second
STEP_SECONDS = 1.0  # while playing
LANDMARK_SECONDS = 3.0  # where somebody enters, yields or leaves there is more to read
LOOK_SECONDS = 0.25  # how often to look whether the terminal has another size

LOADING = "loading the model"


class Player:
    """Which snapshot is shown, the one before it, and whether time goes on by itself."""

    def __init__(self, run, limit=None, playing=True):
        self._run, self._snapshots, self._left = run, run.snapshots(), limit
        self.snapshot = self.previous = None
        self.playing = playing
        self.step()

    @property
    def is_over(self):
        return self._run.is_over or self._left == 0

    def step(self):
        """Go on to the next snapshot, if there is one."""
        if self.snapshot is None or not self.is_over:
            self.previous, self.snapshot = self.snapshot, next(self._snapshots)
            self._left = None if self._left is None else self._left - 1
        self.playing = self.playing and not self._run.is_over
        self.next_step = time.monotonic() + self.pause()

    def pause(self):
        """Seconds to show this snapshot while playing."""
        landmark = any(event.kind in LANDMARKS for event in self.snapshot.events)
        return LANDMARK_SECONDS if landmark or self.snapshot.step == 0 else STEP_SECONDS

    def frame(self, width, height, ink, title, footer=""):
        """What is shown now, as a rich Text."""
        return view(self.snapshot, self.previous, width, height, ink, title, footer)

    def footer(self, ink, has_keys=True):
        """Where the player stands and which keys it obeys."""
        if self._run.is_over:
            done = line((" finished ", "reverse"), "  all requests are done")
            return line(done, "    ", ("q", "bold"), " quit") if has_keys else done
        state, other = (" playing ", "pause") if self.playing else (" paused ", "play")
        if not has_keys:
            return line((state, "reverse"))
        keys = (("space", "bold"), " or ", (ink.arrow, "bold"), " one step    ", ("p", "bold"), f" {other}    ")
        return line((state, "reverse"), "  ", *keys, ("q", "bold"), " quit")


def watch(load, title, limit=None):
    """Run on the terminal until q, or until `limit` frames were shown. load() returns the run; it may take seconds."""
    width, height = terminal_size()
    console = Console(width=width, height=height, highlight=False, force_terminal=True, force_interactive=True)
    ink = ink_for(console.encoding)
    player = show(console, ink, load, title, limit)
    if limit and player.is_over:  # the alternate screen is gone; leave what was asked for
        width, height = terminal_size()
        console.print(player.frame(width, max(height - 1, MIN_HEIGHT), ink, title))


def show(console, ink, load, title, limit):
    """The loop on the alternate screen. Returns the player, as it stood at the end."""
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        live.update(Text(f"\n  {LOADING}{ink.ellipsis}"), refresh=True)
        player = Player(load(), limit)
        drawn_at, drawn = 0, None
        while True:
            now = time.monotonic()
            if player.playing and now >= player.next_step:
                player.step()
            size = terminal_size()
            state = (size, player.snapshot.step, player.playing)
            if state != drawn and now >= drawn_at + FRAME_SECONDS:
                console.size = size
                live.update(player.frame(*size, ink, title, player.footer(ink, keys.available)), refresh=True)
                drawn_at, drawn = now, state
            if player.is_over and state == drawn and (limit or not keys.available):
                return player
            wake = [now + LOOK_SECONDS]
            wake += [player.next_step] if player.playing else []
            wake += [drawn_at + FRAME_SECONDS] if state != drawn else []
            key = keys.read(max(0, min(wake) - time.monotonic()))
            if key in ("q", "Q", "escape"):
                return player
            if key in (" ", "right"):
                player.playing = False
                player.step()
            elif key in ("p", "P") and not player.is_over:
                player.playing = not player.playing
                player.next_step = now


def terminal_size():
    """(columns, lines), asked of the terminal itself: COLUMNS and LINES, if set, don't follow a resize."""
    try:
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns = lines = 0
    return columns or 80, lines or 24


def print_frames(load, title, limit=None):
    """For a pipe or a file: every frame as plain lines, a blank line between two."""
    ink = ink_for(sys.stdout.encoding)
    width, height = shutil.get_terminal_size((120, 36))
    for player in frames(load(), limit):
        print(plain(player.frame(width, height, ink, title)), end="\n\n", flush=True)


def plain(frame):
    return "\n".join(row.rstrip() for row in frame.plain.split("\n")).rstrip("\n")


def print_json(load, limit=None):
    """Every snapshot as one line of JSON."""
    for player in frames(load(), limit):
        print(player.snapshot.to_json(), flush=True)


def save_svg(load, title, path, limit=None, width=140, height=40):
    """The last frame as a picture."""
    with open(path, "w", encoding="utf-8") as file:  # first of all: a path that can't be written is told at once
        file.write(svg_of(load, title, limit, width, height))


def svg_of(load, title, limit, width, height):
    *_, player = frames(load(), limit)
    console = Console(record=True, width=width, height=height, file=io.StringIO(), force_terminal=True)
    console.print(player.frame(width, height, UNICODE, title, player.footer(UNICODE)))
    svg = console.export_svg(title="python -m visualize")
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # a picture that loads nothing from elsewhere


def frames(run, limit):
    """The player, at every frame."""
    player = Player(run, limit)
    yield player
    while not player.is_over:
        player.step()
        yield player


def is_interactive():
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
