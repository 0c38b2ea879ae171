"""What several test files need: a scheduler driven without a model, and every invariant checked after every step."""

import pytest

from minipaged.events import BlockCopied, Forked, PrefixHit, Scheduled, SwappedIn, SwappedOut
from minipaged.memory.check import BrokenInvariant, ShadowSlots, check
from minipaged.memory.contiguous import ContiguousMemory
from minipaged.memory.paged import PagedMemory
from minipaged.serving.group import sample_indices, unfinished
from minipaged.serving.plan import Continuation, Plan
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams, Status


def some_slow(values, slow):
    """Parameters of a test; those in `slow` only where slow tests are run."""
    return [pytest.param(value, marks=pytest.mark.slow if value in slow else ()) for value in values]


def request(name, num_prompt_tokens, max_tokens=100, n=1):
    """A request for the scheduler alone, with a prompt of that many tokens and n answers."""
    return Request(name, None, list(range(num_prompt_tokens)), SamplingParams(n=n), max_tokens, seed=0)


def scheduler(
    num_blocks,
    block_size,
    max_num_seqs=8,
    max_num_batched_tokens=256,
    prefix_caching=False,
    num_host_blocks=0,
    watermark=0.0,
    **options,
):
    """With a host pool, who yields is swapped."""
    memory = PagedMemory(num_blocks, block_size, prefix_caching, num_host_blocks=num_host_blocks, **options)
    return scheduler_on(memory, max_num_seqs, max_num_batched_tokens, watermark)


def memory_of(kind, num_blocks, block_size, max_model_len, prefix_caching=False, num_host_blocks=0):
    """The memory that LLM(memory=kind) has."""
    if kind == "paged":
        return PagedMemory(num_blocks, block_size, prefix_caching, num_host_blocks=num_host_blocks)
    return ContiguousMemory(num_blocks, block_size, kind, max_model_len)


def scheduler_on(memory, max_num_seqs=8, max_num_batched_tokens=256, watermark=0.0):
    preemption = "swap" if memory.host else "recompute"
    made = Scheduler(memory, max_num_seqs, max_num_batched_tokens, preemption, watermark)
    made.log = made.memory.log = Witness(made.memory, ShadowSlots())
    return made


def needs_a_kernel():
    """Skip this test where a notebook can't be run."""
    from notebooks import PACKAGES

    for name in PACKAGES:
        pytest.importorskip(name, reason=f'{name} is not installed: python -m pip install -e ".[lessons]"')


class Witness(list):
    """A log that tells a shadow what it hears of: a row takes its slots, a block is copied, a sequence is forked."""

    def __init__(self, memory, shadow):
        super().__init__()
        self.memory, self.shadow = memory, shadow

    def append(self, event):
        super().append(event)
        if isinstance(event, Scheduled):
            self.shadow.write(self.memory, event.sequence, event.start, event.start + event.num_tokens)
        elif isinstance(event, BlockCopied):
            self.shadow.copy(event.source, event.destination, self.memory.block_size)
        elif isinstance(event, Forked):
            self.shadow.fork(event.parent, event.child)
        elif isinstance(event, PrefixHit):
            self.shadow.hit(event.sequence, event.blocks, self.memory.block_size)
        elif isinstance(event, SwappedOut):
            self.shadow.swap_out(event.pairs, self.memory.block_size)
        elif isinstance(event, SwappedIn):
            self.shadow.swap_in(event.pairs, self.memory.block_size)


def force_preemption(scheduler):
    """As if somebody older needed blocks: the newest running request yields, between two steps. Returns the pairs of
    blocks to swap out."""
    plan = Plan()
    scheduler._preempt(plan, scheduler.running[-1], needed_by=None)
    return plan.swap_out


def grow(memory, wanted):
    """As a scheduler asks for slots: for the sequences of a group together, and for one alone in another way."""
    return memory.grow_one(*wanted[0]) if len(wanted) == 1 else memory.grow(wanted)


class Drive:
    """Plays the engine without a model: every due sequence goes on with token 7 until it has max_tokens, or `stops`
    (a function of a sequence) says so."""

    def __init__(self, scheduler, stops=None):
        self.scheduler, self.stops = scheduler, stops or (lambda sequence: False)

    def step(self):
        """One step, checked. Returns {name: number of tokens computed}, in the plan's order."""
        scheduler = self.scheduler
        caught_up = [seq for request in scheduler.running for seq in unfinished(request) if lacks(seq) == 1]
        plan = scheduler.schedule()
        for sequence in caught_up:
            if sequence.request in scheduler.running and sequence not in plan.due:
                raise BrokenInvariant(f"{sequence.name} had caught up, and gets no token in this step")
        continuations = [Continuation(each, 7, 0.0) for each in plan.due for _ in sample_indices(each)]
        scheduler.commit(plan, continuations, [(self.reason(each.parent), None) for each in continuations])
        check_scheduler(scheduler, scheduler.log.shadow)
        return {row.sequence.name: row.num_tokens for row in plan.rows}

    def reason(self, sequence):
        if self.stops(sequence):
            return "stop"
        return "length" if sequence.num_output_tokens + 1 >= sequence.request.max_tokens else None

    def run(self, limit=10_000):
        """Step until nothing is left, at most `limit` times. Returns the number of steps."""
        for step in range(limit):
            if not (self.scheduler.running or self.scheduler.waiting):
                return step
            self.step()
        raise AssertionError(f"not finished after {limit} steps")


def lacks(sequence):
    """How many of its tokens are still to be computed."""
    return sequence.num_tokens - sequence.num_computed_tokens


def check_scheduler(scheduler, shadow=None):
    """check(memory), and what must hold between a scheduler and its memory between two steps."""
    memory = scheduler.memory
    check(memory, shadow)
    running = [sequence for request in scheduler.running for sequence in unfinished(request)]
    with_tables = [sequence for sequence in running if sequence.num_computed_tokens]
    if sorted(sequence.name for sequence in with_tables) != sorted(memory.sequences()):
        raise BrokenInvariant(f"computed are {[s.name for s in with_tables]}, tables have {memory.sequences()}")
    for sequence in with_tables:
        if memory.table(sequence.name).num_tokens != sequence.num_computed_tokens:
            raise BrokenInvariant(f"{sequence.name}: the table's tokens aren't num_computed_tokens")
    for request in scheduler.running:
        group = unfinished(request)
        if request.status is not Status.RUNNING or not group or not group[0].num_computed_tokens:
            raise BrokenInvariant(f"{request.request_id} runs as {request.status} with {group}")
        is_behind = any(lacks(sequence) != 1 for sequence in group)
        if is_behind and request is not scheduler.running[-1]:
            raise BrokenInvariant(f"{request.request_id} hasn't caught up, and another runs behind it")
    swapped = {}
    for request in scheduler.waiting:
        computed = {each.name: each.num_computed_tokens for each in request.sequences if each.num_computed_tokens}
        is_right = bool(computed) == (request.status is Status.SWAPPED) and request.status is not Status.RUNNING
        if not is_right or not unfinished(request):
            raise BrokenInvariant(f"{request.request_id} waits as {request.status} with {computed} tokens computed")
        swapped |= computed
    there = {name: table.num_tokens for name, table in memory.host.tables.items()} if memory.host is not None else {}
    if swapped != there:
        raise BrokenInvariant(f"swapped are {swapped}, the host pool has {there}")
    for request in (*scheduler.running, *scheduler.waiting):
        if any(sequence.num_computed_tokens for sequence in request.sequences if sequence.finish_reason):
            raise BrokenInvariant(f"{request.request_id}: a finished sequence has tokens computed")
    num_sequences = sum(request.num_sequences for request in scheduler.running)
    if num_sequences > scheduler.max_num_seqs:
        raise BrokenInvariant(f"{num_sequences} sequences run, {scheduler.max_num_seqs} may")
