"""What several test files need: a scheduler driven without a model, and every invariant checked after every step."""

from minipaged.events import BlockCopied, Forked, Scheduled
from minipaged.memory.check import BrokenInvariant, ShadowSlots, check
from minipaged.memory.paged import PagedMemory
from minipaged.serving.plan import Continuation
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams, Status


def request(name, num_prompt_tokens, max_tokens=100):
    """A request for the scheduler alone, with a prompt of that many tokens."""
    return Request(name, None, list(range(num_prompt_tokens)), SamplingParams(), max_tokens, seed=0)


def scheduler(num_blocks, block_size, max_num_seqs=8, max_num_batched_tokens=256, **options):
    made = Scheduler(PagedMemory(num_blocks, block_size, **options), max_num_seqs, max_num_batched_tokens)
    made.log = made.memory.log = Witness(made.memory, ShadowSlots())
    return made


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


class Drive:
    """Plays the engine without a model: every due sequence goes on with token 7 until it has max_tokens."""

    def __init__(self, scheduler):
        self.scheduler = scheduler

    def step(self):
        """One step, checked. Returns {name: number of tokens computed}, in the plan's order."""
        plan = self.scheduler.schedule()
        due = plan.due
        last = [sequence.num_tokens + 1 - len(sequence.request.prompt_token_ids) for sequence in due]
        reasons = [("length" if n >= sequence.request.max_tokens else None, None) for n, sequence in zip(last, due)]
        self.scheduler.commit(plan, [Continuation(sequence, 7, 0.0) for sequence in due], reasons)
        check_scheduler(self.scheduler, self.scheduler.log.shadow)
        return {row.sequence.name: row.num_tokens for row in plan.rows}

    def run(self, limit=10_000):
        """Step until nothing is left, at most `limit` times. Returns the number of steps."""
        for step in range(limit):
            if not (self.scheduler.running or self.scheduler.waiting):
                return step
            self.step()
        raise AssertionError(f"not finished after {limit} steps")


def check_scheduler(scheduler, shadow=None):
    """check(memory), and what must hold between a scheduler and its memory between two steps."""
    memory = scheduler.memory
    check(memory, shadow)
    running = [sequence for request in scheduler.running for sequence in request.sequences]
    if [sequence.name for sequence in running] != memory.sequences():
        raise BrokenInvariant(f"running are {[s.name for s in running]}, tables have {memory.sequences()}")
    for sequence in running:
        if memory.table(sequence.name).num_tokens != sequence.num_computed_tokens:
            raise BrokenInvariant(f"{sequence.name}: the table's tokens aren't num_computed_tokens")
    if not all(request.status is Status.RUNNING for request in scheduler.running):
        raise BrokenInvariant("a running request has another status")
    for request in scheduler.waiting:
        if request.status not in (Status.WAITING, Status.PREEMPTED) or request.sequences[0].num_computed_tokens:
            raise BrokenInvariant(f"{request.request_id} waits as {request.status} with tokens computed")
    if len(running) > scheduler.max_num_seqs:
        raise BrokenInvariant(f"{len(running)} sequences run, {scheduler.max_num_seqs} may")
