"""What one decode step costs the scheduler and the memory: no model, no tensor.

A step of Python takes longer on a slower machine, so it is given as a part of a unit that slows down with it:
sum(range(1_000_000)) in the same process, measured in turn with the steps.
"""

import json
import time
from dataclasses import asdict, dataclass

from minipaged.bench.measure import Spread, progress, table, whole_list, whole_option
from minipaged.commandline import Parser
from minipaged.memory.block_table import blocks_for
from minipaged.memory.paged import PagedMemory
from minipaged.serving.plan import Continuation
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams

BLOCK_SIZE = 16
MAX_TOKENS = 50_000_000  # of all cases together, each a number in some list


@dataclass(frozen=True)
class Case:
    """So many running sequences of about `context` tokens, in a pool of num_blocks."""

    num_seqs: int
    context: int
    num_blocks: int
    events: bool


def cases(sizes, context, runs):
    """The sizes with events off and on; then the largest again, once in a larger pool and once in a longer context.

    Those two must cost what the largest costs: a step's work is for the sequences that it schedules, not for the pool
    or for what is cached.
    """

    def blocks(num_seqs, context):
        return num_seqs * blocks_for(context + runs + 1, BLOCK_SIZE)

    made = [Case(n, context, blocks(n, context), events) for events in (False, True) for n in sizes]
    largest = max(sizes)
    larger_pool = Case(largest, context, 8 * blocks(largest, context), events=False)
    longer_context = Case(largest, 4 * context, blocks(largest, 4 * context), events=False)
    return [*made, larger_pool, longer_context]


def prepare(case, runs):
    """A scheduler whose sequences have all done their prompts: from now on each computes one token a step. And for each
    sequence what a model would say next, always the same: making that up is no part of what is measured.

    Their lengths differ by up to a block, so that in every step the same share of them, one in BLOCK_SIZE, takes a
    block. Equal ones would all take theirs in the same step, and a median would not see it.
    """
    memory = PagedMemory(case.num_blocks, BLOCK_SIZE)
    scheduler = Scheduler(memory, case.num_seqs, case.num_seqs * case.context)
    if case.events:
        scheduler.log = memory.log = []
    for i in range(case.num_seqs):
        prompt = [0] * max(1, case.context - i % BLOCK_SIZE)
        # One token more than there are steps, so that none is finished while it is measured.
        params = SamplingParams(max_tokens=runs + 2)
        scheduler.add(Request(str(i), None, prompt, params, params.max_tokens, seed=0))
    said = {each: Continuation(each, 0, 0.0) for request in scheduler.waiting for each in request.sequences}
    step(scheduler, said)
    return scheduler, said


def step(scheduler, said):
    """One step of what prepare has made. No sequence is finished."""
    plan = scheduler.schedule()
    continuations = [said[sequence] for sequence in plan.due]
    scheduler.commit(plan, continuations, [(None, None)] * len(continuations))
    if scheduler.log is not None:
        scheduler.log.clear()


def seconds(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def measure(cases, runs):
    """A dict for each case. The cases take turns, with a unit after each step, so that a busy moment hits them all."""
    prepared = [prepare(case, runs) for case in cases]
    steps, units = [[] for _ in cases], [[] for _ in cases]
    for run in range(runs):
        progress(f"run {run + 1} of {runs}")
        for i, case in enumerate(prepared):
            steps[i].append(seconds(step, *case))
            units[i].append(seconds(sum, range(1_000_000)))
    progress()
    return [
        {
            **asdict(case),
            "step_ms": Spread.of([1e3 * s for s in step_s])._asdict(),
            "unit_ms": Spread.of([1e3 * s for s in unit_s])._asdict(),
            "units": Spread.of([s / u for s, u in zip(step_s, unit_s)])._asdict(),
        }
        for case, step_s, unit_s in zip(cases, steps, units)
    ]


def part_of(units):
    """0.05 -> "1/20"; what is more than half a unit stays a number."""
    return f"1/{1 / units:.0f}" if units < 0.5 else f"{units:.1f}"


def main(argv=None):
    """Measure and print. Raises ValueError for a value that isn't allowed."""
    parser = Parser(prog="python -m minipaged bench bookkeeping", description=__doc__)
    parser.add_argument("--sequences", default="64,256", help="how many sequences run, a list (default: %(default)s)")
    parser.add_argument("--context", default="1000", help="tokens that each has (default: %(default)s)")
    parser.add_argument("--runs", default="50", help="steps measured of each kind (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(argv)
    sizes = whole_list("--sequences", options.sequences)
    context, runs = whole_option("--context", options.context), whole_option("--runs", options.runs)
    if 10 * max(sizes) * context > MAX_TOKENS:
        raise ValueError(
            f"--sequences {max(sizes)} with --context {context}: at most {MAX_TOKENS // 10:,} tokens in all"
        )
    rows = measure(cases(sizes, context, runs), runs)
    if options.json:
        print(json.dumps({"unit": "sum(range(1_000_000))", "block_size": BLOCK_SIZE, "runs": runs, "rows": rows}))
        return
    head = ["sequences", "context", "pool blocks", "events", "step, ms", "us a sequence", "part of the unit"]
    lines = []
    for row in rows:
        step_ms, units = Spread(**row["step_ms"]), Spread(**row["units"])
        sizes = [f"{row[name]:,}" for name in ("num_seqs", "context", "num_blocks")]
        per_sequence = f"{1e3 * step_ms.median / row['num_seqs']:.1f}"
        part = f"{part_of(units.median)} ({part_of(units.most)}-{part_of(units.least)})"
        lines.append([*sizes, "on" if row["events"] else "off", step_ms.text(2), per_sequence, part])
    print(table(head, lines))
    unit_ms = Spread.of([row["unit_ms"]["median"] for row in rows]).median
    print(f"\nThe unit, sum(range(1_000_000)), took {unit_ms:.1f} ms. Over {runs} steps: median, least, most.")
