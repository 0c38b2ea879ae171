"""Player: which moment of a run is shown, and what a key does to that. It knows no terminal, and draws only by the
view of a run's manner.

A run is asked for its next snapshot when somebody wants to see it. All snapshots are kept, so going back is showing an
older one.
"""

import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from visualize.help import help_pages
from visualize.timeline import Timeline
from visualize.view import view
from visualize.why import LANDMARKS

STEP_SECONDS = 1.0  # while playing
LANDMARK_SECONDS = 3.0  # where somebody enters, yields or leaves there is more to read
SPEEDS = (0.25, 0.5, 1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Manner:
    """How runs of one kind are shown. A run that isn't an engine's says its own, in an attribute `manner`.

    view: draws a frame. help_pages: draws the help. landmarks: kinds of events that keys go to. lingers: kinds of
    events that take time to read. end: what is said where the run has ended.
    """

    view: Callable = view
    help_pages: Callable = help_pages
    landmarks: tuple = LANDMARKS
    lingers: tuple = LANDMARKS
    end: str = "no request is left"


class Player:
    """A run (scenarios.Run, recording.Replay or walk_run.WalkRun) and how it is watched.

    limit: stop after so many snapshots. fps: snapshots a second while playing, all alike; None: slower where there is
    more to read.
    """

    def __init__(self, run, limit=None, playing=True, fps=None):
        self.run, self.limit, self.playing, self.fps = run, limit, playing, fps
        self.manner = getattr(run, "manner", Manner())
        self.history = []
        self.position = 0
        self.speed = 1
        self.help_page = 0  # 0: no help
        self.only_why = False
        self._snapshots = run.snapshots()
        self._landmarks = []  # (position, kind) of events, as they came
        self._focus = None  # a sequence's name, once one was chosen
        self._goal = None  # "landmark" or "end", on the way to it
        self._extend()
        self._wait()

    @property
    def snapshot(self):
        return self.history[self.position]

    @property
    def previous(self):
        return self.history[self.position - 1] if self.position else None

    @property
    def is_complete(self):
        """There are no snapshots to come."""
        return self.run.is_over or (self.limit is not None and len(self.history) >= self.limit)

    @property
    def is_over(self):
        """The last snapshot is shown."""
        return self.is_complete and self.position == len(self.history) - 1

    @property
    def is_finished(self):
        """The run itself has ended, and not only what is shown of it."""
        is_done = all(seq.status == "finished" for seq in self.snapshot.sequences)
        return self.is_over and self.run.is_over and is_done

    @property
    def focus(self):
        """The name of the sequence in focus: the chosen one if it is here, else the oldest that runs, or None."""
        names = [seq.name for seq in self.snapshot.sequences]
        running = (seq.name for seq in self.snapshot.sequences if seq.device_table)
        return self._focus if self._focus in names else next(running, None)

    @property
    def is_hurrying(self):
        return self._goal is not None

    def _extend(self):
        """Ask the run for one more snapshot. Returns whether there was one."""
        if self.history and self.is_complete:
            return False
        snapshot = next(self._snapshots)
        kinds = [event.kind for event in snapshot.events]
        self._landmarks += [(len(self.history), kind) for kind in kinds if kind in self.manner.landmarks]
        self.history.append(snapshot)
        return True

    def step(self):
        """Go on to the next snapshot, if there is one."""
        if self.position + 1 < len(self.history) or self._extend():
            self.position += 1
        self.playing = self.playing and not self.is_over
        self._wait()

    def _wait(self):
        self.next_step = time.monotonic() + self.pause()

    def pause(self):
        """Seconds to show this snapshot while playing."""
        if self.fps:
            return 1 / self.fps
        has_more = self.position == 0 or any(event.kind in self.manner.lingers for event in self.snapshot.events)
        return (LANDMARK_SECONDS if has_more else STEP_SECONDS) / self.speed

    def tick(self):
        """Let time do its work: play on if it is time to, or come nearer to what a key asked for."""
        if self._goal:
            self._hurry(0.05)
        elif self.playing and time.monotonic() >= self.next_step:
            self.step()

    def _hurry(self, seconds):
        """Step towards the goal, for so long at most."""
        until = time.monotonic() + seconds
        while self._goal and time.monotonic() < until:
            self.step()
            there = self._goal == "landmark" and self._landmarks and self._landmarks[-1][0] == self.position
            if there or self.is_over:
                self._goal = None

    def press(self, key):
        """Do what a key asks for. Returns False if it asks to leave."""
        if key == "?":
            self.help_page += 1
        elif self.help_page:  # any other key leaves the help, and does nothing else
            self.help_page = 0
        elif key in ("q", "Q", "escape"):
            return False
        elif key in ("w", "W"):
            self.only_why = not self.only_why
        elif key in (" ", "right", "n"):
            self.playing, self._goal = False, None
            self.step()
        elif key in ("left", "b"):
            self._go(self.position - 1)
        elif key in ("p", "P"):
            self.playing = not (self.playing or self.is_hurrying or self.is_over)
            self._goal = None
            self.next_step = time.monotonic()
        elif key in ("+", "=", "-", "_"):
            self._change_speed(1 if key in "+=" else -1)
        elif key == "tab":
            self._next_focus()
        elif key in ("g", "home"):
            self._go(0)
        elif key in ("G", "end"):
            self._go(len(self.history) - 1)
            self._goal = "end"
        elif key == "[":
            positions = [position for position, _ in self._landmarks if position < self.position]
            self._go(max(positions, default=0))
        elif key == "]":
            self._next_landmark()
        elif key in ("r", "R"):
            self._go(0)
            self.playing = not self.is_over
        return True

    def _go(self, position):
        """Show another of the snapshots that there are, and stay there."""
        self.playing, self._goal = False, None
        self.position = max(0, position)
        self._wait()

    def _change_speed(self, by):
        i = SPEEDS.index(self.speed) + by
        self.speed = SPEEDS[min(max(i, 0), len(SPEEDS) - 1)]
        self.fps = None
        self._wait()

    def _next_focus(self):
        """Go round those that have blocks, and after the last, back to the oldest that runs."""
        names = [seq.name for seq in self.snapshot.sequences if seq.device_table]
        i = names.index(self._focus) if self._focus in names else -1
        self._focus = names[i + 1] if i + 1 < len(names) else None

    def _next_landmark(self):
        positions = [position for position, _ in self._landmarks]
        i = bisect_right(positions, self.position)
        if i < len(positions):
            self._go(positions[i])
        else:
            self._go(len(self.history) - 1)
            self._goal = "landmark"

    def frame(self, width, height, ink, footer=""):
        """What is shown now, as a rich Text."""
        timeline = Timeline(self.position, len(self.history) - 1, self.is_complete, tuple(self._landmarks))
        return self.manner.view(
            self.snapshot,
            self.previous,
            width,
            height,
            ink,
            self.run.title,
            footer,
            self.story(),
            timeline,
            self.focus,
            self.only_why,
        )

    def story(self):
        """What the run has to say about itself at this moment."""
        about = self.run.before if self.position == 0 else self.run.after if self.is_finished else ""
        return f"{getattr(self.snapshot, 'told', '')} {about}".strip()
