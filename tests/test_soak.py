"""A soak: many short requests, some of them taken away at random, through the scheduler and each memory, no model.

In the end every block is free, and there is as much in Python's memory as there was in the middle.
"""

import gc
import random
import sys
import time

import pytest
from harness import check_scheduler, memory_of, scheduler_on

from minipaged.events import Preempted
from minipaged.serving.group import sample_indices
from minipaged.serving.plan import Continuation
from minipaged.serving.sequence import BeamSearchParams, Request, SamplingParams, Status

BEGINNINGS = [[beginning] * 16 for beginning in range(6)]  # of prompts, so that there is something to hit
STEPS_PER_CHECK = 200


def new_request(name, rng, most):
    """Up to `most` answers, drawn or searched for."""
    beginning = rng.choice(BEGINNINGS)[: rng.randrange(17)]
    prompt = beginning + [rng.randrange(100) for _ in range(rng.randint(1, 6))]
    n, max_tokens = rng.choice([1, 1, 1, rng.randint(1, most)]), rng.randint(1, 10)
    is_beam_search = n > 1 and rng.random() < 0.3
    params = BeamSearchParams(n, max_tokens) if is_beam_search else SamplingParams(n=n, max_tokens=max_tokens)
    return Request(name, None, prompt, params, max_tokens, seed=0)


def said(plan, rng):
    """What a model would say next, and why that is the end: the tokens are drawn, and so are the beams that go on."""
    beams = {}  # request -> its due sequences
    for sequence in plan.due:
        if sequence.request.is_beam_search:
            beams.setdefault(sequence.request, []).append(sequence)
    parents = [each for each in plan.due if each.request not in beams for _ in sample_indices(each)]
    for request, due in beams.items():
        parents += sorted(rng.choices(due, k=request.num_sequences), key=due.index)
    ends = [each.num_output_tokens + 1 == each.request.max_tokens or rng.random() < 0.02 for each in parents]
    reasons = [("length", None) if end else (None, None) for end in ends]
    return [Continuation(each, rng.randrange(100), 0.0) for each in parents], reasons


def serve(made, num_requests, rng, most, abort=0.2):
    """Requests come as others leave, until all of them are gone. Returns (how many had to yield, how many were
    aborted)."""
    num_added = num_steps = num_preempted = num_aborted = 0
    here = []
    while num_added < num_requests or made.running or made.waiting:
        while num_added < num_requests and len(made.waiting) < 4:
            here.append(new_request(f"R{num_added}", rng, most))
            made.add(here[-1])
            num_added += 1
        if rng.random() < abort:
            here = [each for each in here if each.status is not Status.FINISHED]
            if here:
                made.abort(rng.choice(here))
                num_aborted += 1
        plan = made.schedule()
        made.commit(plan, *said(plan, rng))
        num_preempted += sum(isinstance(event, Preempted) for event in made.log)
        made.log.clear()
        made.memory.log.clear()
        num_steps += 1
        if num_steps % STEPS_PER_CHECK == 0:
            check_scheduler(made)
    check_scheduler(made)
    return num_preempted, num_aborted


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, num_requests, most", [("paged", 20_000, 4), ("pow2", 4_000, 1), ("oracle", 4_000, 1)], ids=str
)
def test_thousands_of_short_requests(kind, num_requests, most):
    rng, start = random.Random(0), time.monotonic()
    memory = memory_of(kind, num_blocks=32, block_size=4, max_model_len=64, prefix_caching=True)
    made = scheduler_on(memory, max_num_seqs=12, max_num_batched_tokens=64)
    made.log, memory.log = [], []  # plain lists: nobody keeps what they held
    in_use, seen = [], []
    for _ in range(2):
        seen.append(serve(made, num_requests // 2, rng, most))
        assert memory.allocator.num_free == 32 and memory.sequences() == []
        assert memory.usage().used_slots == memory.usage().allocated_slots == 0
        assert not made.running and not made.waiting
        gc.collect()
        in_use.append(sys.getallocatedblocks())
    assert abs(in_use[1] - in_use[0]) < 1_000  # one for each request that was kept would be many more
    for num_preempted, num_aborted in seen:
        assert num_aborted > num_requests // 50 and (num_preempted > num_requests // 50) == (kind == "paged")
    assert memory.prefix_cache is None or memory.prefix_stats.tokens_saved > 10_000
    assert time.monotonic() - start < 60
