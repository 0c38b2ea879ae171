"""What one step costs the scheduler and the memory, one that decodes and one that admits: no model, no tensor.

A step of Python takes longer on a slower machine, so it is given as a part of a unit that slows down with it:
sum(range(1_000_000)) in the same process, measured in turn with the steps.

A turn is several steps of the same case. Its first step finds in the processor's caches what the other cases left
there, and takes up to twice as long. So do steps between which a model runs; `bench decode` tells their share.
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
STEPS_PER_TURN = 10
STEPS_PER_ADMISSION = 5  # measured: what admits takes so much longer that it has its turn less often


@dataclass(frozen=True)
class Case:
    """So many running sequences of about `context` tokens, in a pool of num_blocks."""

    num_seqs: int
    context: int
    num_blocks: int
    events: bool
    caching: bool = True  # whether the memory has a prefix cache


@dataclass(frozen=True)
class Admission:
    """So many prompts of `context` tokens enter in one step. The first num_hit tokens, the same in all of them, are in
    the prefix cache."""

    num_seqs: int
    context: int
    caching: bool
    num_hit: int


def cases(sizes, context, runs):
    """The sizes with events off and on; then the largest again: in a larger pool, in a longer context, and without a
    prefix cache.

    The first two of these must cost what the largest costs: a step's work is for the sequences that it schedules, not
    for the pool or for what is cached.
    """

    def blocks(num_seqs, context):
        return num_seqs * blocks_for(context + runs + 1, BLOCK_SIZE)

    made = [Case(n, context, blocks(n, context), events) for events in (False, True) for n in sizes]
    largest = max(sizes)
    larger_pool = Case(largest, context, 8 * blocks(largest, context), events=False)
    longer_context = Case(largest, 4 * context, blocks(largest, 4 * context), events=False)
    uncached = Case(largest, context, blocks(largest, context), events=False, caching=False)
    return [*made, larger_pool, longer_context, uncached]


def admissions(num_seqs, context):
    """Without a prefix cache, with one that has nothing to hit, and with all hits that there can be."""
    most = (context - 1) // BLOCK_SIZE * BLOCK_SIZE
    return [Admission(num_seqs, context, *each) for each in ((False, 0), (True, 0), (True, most))]


def prepare(case, runs):
    """A scheduler whose sequences have all done their prompts: from now on each computes one token a step. And for each
    sequence what a model would say next.

    Their lengths differ by up to a block, so that in every step the same share of them, one in BLOCK_SIZE, takes a
    block. Equal ones would all take theirs in the same step, and a median would not see it.
    """
    memory = PagedMemory(case.num_blocks, BLOCK_SIZE, case.caching)
    scheduler = Scheduler(memory, case.num_seqs, case.num_seqs * case.context)
    if case.events:
        scheduler.log = memory.log = []
    # One token more than there are steps, so that none is finished while it is measured.
    prompts = ([i] * max(1, case.context - i % BLOCK_SIZE) for i in range(case.num_seqs))
    said = add(scheduler, prompts, max_tokens=runs + 2)
    step(scheduler, said)
    return scheduler, said


def prepare_admission(case):
    """A scheduler in whose queue the prompts of an Admission wait. And for each what a model would say next."""
    memory = PagedMemory(case.num_seqs * blocks_for(case.context + 1, BLOCK_SIZE), BLOCK_SIZE, case.caching)
    scheduler = Scheduler(memory, case.num_seqs, case.num_seqs * case.context)

    def prompt(number):
        return [0] * case.num_hit + [number] * (case.context - case.num_hit)

    if case.num_hit:  # another one has computed what they share, and is gone
        step(scheduler, add(scheduler, [prompt(case.num_seqs + 1)], max_tokens=2))
        scheduler.abort(scheduler.running[0])
    return scheduler, add(scheduler, [prompt(i + 1) for i in range(case.num_seqs)], max_tokens=2)


def add(scheduler, prompts, max_tokens):
    """Queue requests. Returns the Continuation of each sequence, always the same token: making that up is no part of
    what is measured."""
    params = SamplingParams(max_tokens=max_tokens)
    for i, prompt in enumerate(prompts):
        scheduler.add(Request(str(i), None, prompt, params, params.max_tokens, seed=0))
    return {each: Continuation(each, 0, 0.0) for request in scheduler.waiting for each in request.sequences}


def step(scheduler, said):
    """One step of what prepare or prepare_admission has made. No sequence is finished."""
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
    """A dict for each Case."""
    prepared = [prepare(case, runs) for case in cases]
    return take_turns(cases, runs, lambda i: prepared[i], "run", STEPS_PER_TURN)


def measure_admissions(cases, runs):
    """A dict for each Admission. All of it is made anew for every step: a prompt enters once."""
    return take_turns(cases, runs, lambda i: prepare_admission(cases[i]), "admission", steps_per_turn=1)


def take_turns(cases, runs, prepared, what, steps_per_turn):
    """A dict for each case. The cases take turns, with a unit after each step, so that a busy moment hits them all.

    prepared: the number of a case -> the arguments of its step.
    """
    steps, units = [[] for _ in cases], [[] for _ in cases]
    for first in range(0, runs, steps_per_turn):
        progress(f"{what} {first + 1} of {runs}")
        for i in range(len(cases)):
            for _ in range(min(steps_per_turn, runs - first)):
                arguments = prepared(i)
                steps[i].append(seconds(step, *arguments))
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
    num_admissions = -(-runs // STEPS_PER_ADMISSION)
    admitted = measure_admissions(admissions(max(sizes), context), num_admissions)
    if options.json:
        about = {"unit": "sum(range(1_000_000))", "block_size": BLOCK_SIZE, "runs": runs}
        print(json.dumps({**about, "rows": rows, "admission_runs": num_admissions, "admissions": admitted}))
        return
    print(report(rows, admitted))
    unit_ms = Spread.of([row["unit_ms"]["median"] for row in rows]).median
    print(f"\nThe unit, sum(range(1_000_000)), took {unit_ms:.1f} ms. Over {runs} steps: median, least, most.")
    print(f"Admissions: over {num_admissions}.")


def report(rows, admitted):
    """The rows as two tables: steps that decode, and steps that admit."""

    def counts(row, *names):
        return [f"{row[name]:,}" for name in names]

    def times(row):
        step_ms = Spread(**row["step_ms"])
        return [step_ms.text(2), f"{1e3 * step_ms.median / row['num_seqs']:.1f}"]

    on = {True: "on", False: "off"}
    head = ["sequences", "context", "pool blocks", "events", "caching", "step, ms", "us a sequence", "part of the unit"]
    lines = []
    for row in rows:
        units = Spread(**row["units"])
        part = f"{part_of(units.median)} ({part_of(units.most)}-{part_of(units.least)})"
        sizes = counts(row, "num_seqs", "context", "num_blocks")
        lines.append([*sizes, on[row["events"]], on[row["caching"]], *times(row), part])
    entering, entered = ["prompts", "tokens", "hit", "caching", "step, ms", "us a prompt", "units"], []
    for row in admitted:
        sizes, units = counts(row, "num_seqs", "context", "num_hit"), Spread(**row["units"])
        entered.append([*sizes, on[row["caching"]], *times(row), units.text(1)])
    return f"{table(head, lines)}\n\nAdmitted in one step\n{table(entering, entered)}"
