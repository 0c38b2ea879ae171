"""python -m visualize.bench: what drawing costs, and what a long history weighs. The engine is made up: no model.

A frame is drawn as the program does it, from two snapshots to the characters that go to the terminal.
"""

import io
import itertools
import json
import time
import tracemalloc
from types import SimpleNamespace

from rich.console import Console

from minipaged.bench.measure import Spread, progress, table, whole_option
from minipaged.commandline import Parser, exit_status
from minipaged.memory.paged import PagedMemory
from minipaged.serving.plan import Continuation
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams
from visualize.app import FRAME_SECONDS
from visualize.camera import Camera
from visualize.ink import UNICODE
from visualize.player import Player

FRAMES_A_SECOND = round(1 / FRAME_SECONDS)


class MadeUp:
    """Engine and run in one: a real scheduler and memory, a model that always says the same, and no end."""

    max_model_len = 1024

    def __init__(self, num_blocks, num_seqs):
        self.memory = PagedMemory(num_blocks, 4, prefix_caching=False)
        self.scheduler = Scheduler(self.memory, num_seqs, 256)
        self.scheduler.log = self.memory.log = []
        self.num_seqs, self.max_tokens, self.tokenizer = num_seqs, min(200, 6 * num_blocks // num_seqs), self
        self._names = map(str, itertools.count())
        self.title, self.before, self.after, self.is_over = "made up", "", "", False

    def decode(self, token_ids):
        return " word" * len(token_ids)

    def step(self):
        while len(self.scheduler.running) + len(self.scheduler.waiting) < self.num_seqs:
            params = SamplingParams(max_tokens=self.max_tokens)
            self.scheduler.add(Request(next(self._names), None, [0] * 9, params, self.max_tokens, seed=0))
        plan = self.scheduler.schedule()
        reasons = [("length" if self._is_last(each) else None, None) for each in plan.due]
        self.scheduler.commit(plan, [Continuation(each, 1, 0.0) for each in plan.due], reasons)
        result = SimpleNamespace(plan=plan, events=list(self.scheduler.log))  # what the camera needs of a StepResult
        self.scheduler.log.clear()
        return result

    def _is_last(self, sequence):
        return sequence.num_output_tokens + 1 == self.max_tokens

    def snapshots(self):
        camera = Camera(self)
        yield camera.take()
        while True:
            yield camera.take(self.step())


def frame_ms(width, height, num_blocks, num_seqs, runs):
    """Milliseconds for each of `runs` frames, one after the other."""
    player = Player(MadeUp(num_blocks, num_seqs))
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    found = []
    for i in range(runs):
        progress(f"{width}x{height}: frame {i + 1} of {runs}")
        player.step()
        start = time.perf_counter()
        console.print(player.frame(width, height, UNICODE, "keys"), end="")
        found.append(1e3 * (time.perf_counter() - start))
    progress()
    return Spread.of(found)


def history_mb(num_steps, num_blocks, num_seqs):
    """Megabytes that a history of so many steps takes."""
    tracemalloc.start()
    player = Player(MadeUp(num_blocks, num_seqs))
    before = tracemalloc.get_traced_memory()[0]
    for i in range(num_steps):
        if i % 500 == 0:
            progress(f"history: step {i:,} of {num_steps:,}")
        player.step()
    progress()
    found = (tracemalloc.get_traced_memory()[0] - before) / 1e6
    tracemalloc.stop()
    return found


def main(argv=None):
    parser = Parser(prog="python -m visualize.bench", description=__doc__)
    parser.add_argument("--runs", default="100", help="frames of each size (default: %(default)s)")
    parser.add_argument("--steps", default="10000", help="steps of history (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(argv)
    runs, steps = whole_option("--runs", options.runs), whole_option("--steps", options.steps)
    rows = []
    for width, height, num_blocks, num_seqs in (
        (80, 24, 20, 4),
        (120, 36, 20, 4),
        (200, 60, 500, 8),
        (120, 36, 4000, 8),
    ):
        spread = frame_ms(width, height, num_blocks, num_seqs, runs)
        rows.append({"size": f"{width}x{height}", "num_blocks": num_blocks, "frame_ms": spread._asdict()})
    megabytes = history_mb(steps, 500, 8)
    if options.json:
        print(json.dumps({"frames": rows, "history": {"steps": steps, "num_blocks": 500, "megabytes": megabytes}}))
        return
    lines = []
    for row in rows:
        spread = Spread(**row["frame_ms"])
        share = f"{spread.median / (1e3 / FRAMES_A_SECOND):.1%}"
        lines.append([row["size"], f"{row['num_blocks']:,}", spread.text(1), share])
    print(table(["terminal", "blocks", "frame, ms", f"of a run at {FRAMES_A_SECOND} frames a second"], lines))
    print(f"\n{steps:,} steps of history with 500 blocks and 8 sequences: {megabytes:,.0f} MB")


if __name__ == "__main__":
    raise SystemExit(exit_status("visualize.bench", main))
