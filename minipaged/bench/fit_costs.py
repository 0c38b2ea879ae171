"""Fits the cost model's formula to this machine: steps of the real engine are timed, then five numbers are found.

A step's time also has what the formula leaves out (a chunk's attention, what the machine did besides), so measured and
fitted stand side by side with the error. Swapping is not measured: on a CPU both pools are the same RAM.
"""

import itertools
import json
import time
from typing import NamedTuple

from minipaged.bench.cost_model import CostModel
from minipaged.bench.measure import Spread, progress, table, whole_option
from minipaged.commandline import Parser
from minipaged.memory.block_table import blocks_for

BLOCK_SIZE = 16
TERMS = ("step_ms", "row_ms", "weights_ms", "token_ms", "context_ms")
WORDS = {
    "step_ms": "ms a step, however little it does",
    "row_ms": "ms a row",
    "weights_ms": "ms at least for the weights",
    "token_ms": "ms a token computed",
    "context_ms": "ms a key read",
}


class Cell(NamedTuple):
    """A kind of step: so many rows that compute num_tokens each and have `start` tokens in the cache already."""

    rows: int
    num_tokens: int
    start: int


# Few cells, chosen so that no two terms rise together in all of them: rows without context and with, many tokens in one
# row and in many, a chunk at the start of a prompt and far into it.
CELLS = (
    Cell(1, 1, 16), Cell(1, 1, 512), Cell(1, 1, 900), Cell(4, 1, 64), Cell(16, 1, 16), Cell(16, 1, 256),
    Cell(16, 1, 512), Cell(64, 1, 16), Cell(64, 1, 256), Cell(1, 8, 0), Cell(1, 32, 0), Cell(1, 128, 0),
    Cell(1, 128, 512), Cell(1, 512, 0), Cell(8, 16, 0), Cell(16, 16, 0), Cell(4, 128, 0),
)  # fmt: skip


class Bench:
    """An engine that makes steps of one kind, again and again."""

    def __init__(self, cell, runs):
        from minipaged.serving.llm import LLM  # here, since it imports torch
        from minipaged.serving.sequence import SamplingParams

        self.cell, self.decodes = cell, cell.num_tokens == 1
        self.params = SamplingParams(temperature=0, max_tokens=runs + 8 if self.decodes else 1, ignore_eos=True)
        length = cell.start + cell.num_tokens + self.params.max_tokens
        self.llm = LLM(
            block_size=BLOCK_SIZE,
            num_blocks=cell.rows * blocks_for(length, BLOCK_SIZE),
            max_num_seqs=cell.rows,
            # A prompt that is to be interrupted at `start` gets there in chunks as large as the one that is timed.
            max_num_batched_tokens=cell.rows * (cell.start if self.decodes else cell.num_tokens),
            enable_prefix_caching=False,
            events=False,
        )
        self.engine = self.llm.engine
        if self.decodes:
            self._add(cell.start)
            self._until(cell.start)

    def _add(self, length):
        for row in range(self.cell.rows):  # no two prompts alike: nothing can be saved
            self.engine.add([(7 * row + i) % 1000 + 1 for i in range(length)], self.params)

    def _until(self, computed):
        while sum(each.num_computed_tokens for each in self._sequences()) < self.cell.rows * computed:
            self.engine.step()

    def _sequences(self):
        return [sequence for request in self.engine.scheduler.running for sequence in request.sequences]

    def step(self):
        """Make one step. Returns (rows, tokens, context, seconds)."""
        if not self.decodes:
            self._add(self.cell.start + self.cell.num_tokens)
            self._until(self.cell.start)
        start = time.perf_counter()
        plan = self.engine.step().plan
        seconds = time.perf_counter() - start
        context = sum(row.start + row.num_tokens for row in plan.rows)
        return len(plan.rows), sum(row.num_tokens for row in plan.rows), context, seconds


def measure(cells, runs):
    """[(rows, tokens, context, Spread in ms)] for each cell. The cells take turns, so that a busy moment hits them all;
    the first turn isn't counted."""
    benches, taken = [], [[] for _ in cells]
    for i, cell in enumerate(cells):
        progress(f"preparing {i + 1} of {len(cells)}")
        benches.append(Bench(cell, runs))
    for run in range(runs + 1):
        progress(f"round {run} of {runs}")
        for bench, steps in zip(benches, taken):
            steps.append(bench.step())
    progress()
    found = []
    for steps in taken:
        rows, tokens, context, _ = steps[1 + runs // 2]  # a decode's context grows by a token each round: the middle
        found.append((rows, tokens, context, Spread.of([1e3 * seconds for *_, seconds in steps[1:]])))
    return found


def fit(steps):
    """The five numbers that explain measured steps best: a dict of TERMS, in ms, none negative.

    steps: [(rows, tokens, context, ms), ...]. Least squares of the relative errors, so that short steps count as much
    as long ones. max(weights, token * tokens) bends at weights / token tokens, which least squares can't find: many
    bends are tried. Raises ValueError for fewer steps than terms.
    """
    if len(steps) < len(TERMS):
        raise ValueError(f"{len(steps)} measured steps: at least {len(TERMS)} are needed for {len(TERMS)} numbers")
    import numpy as np

    rows, tokens, context, ms = np.array(steps, dtype=float).T

    def solve(bend):
        columns = np.stack([np.ones_like(ms), rows, np.maximum(bend, tokens), context], axis=1) / ms[:, None]
        return least_squares(columns, np.ones_like(ms))

    bends = [0.0, *np.unique(tokens)]
    for _ in range(3):  # a grid between the measured numbers of tokens, then two finer ones around the best
        bends = np.unique(np.concatenate([np.linspace(a, b, 12) for a, b in itertools.pairwise(bends)]))
        errors = [solve(bend)[0] for bend in bends]
        # Of equally good ones the first: a bend below all that was measured explains nothing.
        best = next(i for i, error in enumerate(errors) if error <= min(errors) * (1 + 1e-9) + 1e-18)
        bend, bends = bends[best], bends[max(0, best - 1) : best + 2]
    step, row, token, per_key = solve(bend)[1]
    return dict(zip(TERMS, map(float, (step, row, bend * token, token, per_key))))


def least_squares(columns, target):
    """The best coefficients that aren't negative, with their squared error: (error, coefficients).

    Where the best ones without that bound are negative, some of the best with it are 0. There are few columns, so
    every choice of those that aren't 0 is tried.
    """
    import numpy as np

    best, num = (float(target @ target), np.zeros(columns.shape[1])), columns.shape[1]
    for chosen in itertools.product((False, True), repeat=num):
        found = np.zeros(num)
        found[list(chosen)] = np.linalg.lstsq(columns[:, list(chosen)], target, rcond=None)[0]
        rest = columns @ found - target
        if found.min() >= 0 and rest @ rest < best[0]:
            best = float(rest @ rest), found
    return best


def main(argv=None):
    """Measure, fit and print. Raises ValueError for a value that isn't allowed."""
    parser = Parser(prog="python -m minipaged bench cost-model", description=__doc__)
    parser.add_argument("--runs", default="25", help="steps timed of each kind, up to 100 (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(argv)
    runs = whole_option("--runs", options.runs, most=100)
    measured = measure(CELLS, runs)
    cost = CostModel("this machine", **fit([(*counts, spread.median) for *counts, spread in measured]))
    rows = []
    for rows_, tokens, context, spread in measured:
        fitted = 1e3 * cost.step_seconds(rows_, tokens, context)
        facts = {"rows": rows_, "tokens": tokens, "context": context, "measured_ms": spread._asdict()}
        rows.append({**facts, "fitted_ms": fitted, "error": fitted / spread.median - 1})
    if options.json:
        terms = {name: getattr(cost, name) for name in TERMS}
        print(json.dumps({"model": "tiny", "runs": runs, "cost": terms, "steps": rows}))
        return
    print(report(cost, rows))
    print(f"\nMeasured: over {runs} steps, median, least, most. Error: fitted against the median.")
    print("Where the most is several times the least, something else ran on this machine: try again.")


def report(cost, rows):
    """The numbers that were found, and each kind of step as measured and as fitted."""
    found = [[name, f"{getattr(cost, name):.5f}", WORDS[name]] for name in TERMS]
    lines = []
    for row in rows:
        counts = [f"{row[name]:,}" for name in ("rows", "tokens", "context")]
        lines.append([*counts, Spread(**row["measured_ms"]).text(2), f"{row['fitted_ms']:.2f}", f"{row['error']:+.0%}"])
    head = ["rows", "tokens", "context", "measured, ms", "fitted, ms", "error"]
    says = "No number of tokens is free: on this machine computing always takes longer than reading the weights."
    if cost.weights_ms and cost.token_ms:
        says = f"The first {cost.weights_ms / cost.token_ms:.0f} tokens take no longer than one: the weights do."
    return f"{table(['term', 'found', 'meaning'], found)}\n{says}\n\n{table(head, lines)}"
