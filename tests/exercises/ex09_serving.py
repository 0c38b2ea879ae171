"""For the checks of exercise 09: the scheduler at work, with the learner's parts in it, and what it must come to."""

from random import Random

from minipaged.memory.check import BrokenInvariant, check
from minipaged.memory.paged import PagedMemory
from minipaged.serving import preemption
from minipaged.serving.plan import Continuation
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams

LIMIT = 2000  # steps; the longest of these workloads takes fewer than 300
BROKEN = (ValueError, LookupError, TypeError, AttributeError, RuntimeError, BrokenInvariant)


def serve(parts, lengths, num_blocks, block_size=4, num_host_blocks=0, prefix_caching=False):
    """Run requests, [(prompt tokens, max_tokens), ...], through a Scheduler with these parts, one after the other.

    Nothing is computed: the token after position p is p. Returns the requests. Raises one of BROKEN where scheduler and
    memory disagree, and RuntimeError if the requests come to no end.
    """
    memory = PagedMemory(num_blocks, block_size, prefix_caching, num_host_blocks=num_host_blocks)
    how = "swap" if num_host_blocks else "recompute"
    scheduler = Scheduler(memory, 8, 32, preemption=how, clock=lambda: 0.0, parts=parts)
    requests = []
    for i, (num_prompt_tokens, max_tokens) in enumerate(lengths):
        prompt = [100 * i + k for k in range(num_prompt_tokens)]
        requests.append(Request("ABCDEFGHIJ"[i], None, prompt, SamplingParams(), max_tokens, seed=0))
        scheduler.add(requests[-1])
    for _ in range(LIMIT):
        if not (scheduler.running or scheduler.waiting):
            return requests
        plan = scheduler.schedule()
        came = [Continuation(each, each.num_tokens - 1, 0.0) for each in plan.due]
        last = [each.num_output_tokens + 1 >= each.request.max_tokens for each in plan.due]
        scheduler.commit(plan, came, [("length" if is_last else None, None) for is_last in last])
        check(memory)
    left = [request.request_id for request in (*scheduler.running, *scheduler.waiting)]
    raise RuntimeError(f"after {LIMIT} steps {', '.join(left)} are not finished")


def must_serve(impl, lengths, num_blocks, **options):
    """The learner's parts must bring all requests to their end, at the same price as minipaged's own. Returns them."""
    settings = {"block_size": 4, "num_blocks": num_blocks} | options
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    letters = ", ".join(f"{'ABCDEFGHIJ'[i]} {prompt} and {most}" for i, (prompt, most) in enumerate(lengths))
    told = f"the scheduler with your functions ({shown}; prompt and max_tokens: {letters})"
    try:
        requests = serve(impl, lengths, num_blocks, **options)
    except NotImplementedError:  # still to be written
        raise
    except BROKEN as error:
        raise AssertionError(f"{told}: it broke off, {type(error).__name__}: {error}") from error
    for request in requests:
        [sequence] = request.sequences
        end = request.num_prompt_tokens + request.max_tokens
        due = request.prompt_token_ids + list(range(request.num_prompt_tokens - 1, end - 1))
        problem = f"{request.request_id} ended with tokens {sequence.token_ids}: they must be {due}"
        assert sequence.token_ids == due, f"{told}: {problem}"
    oldest = requests[0].timeline.num_preemptions
    assert oldest == 0, f"{told}: A, the oldest, had to yield {oldest} times: it never must"
    for theirs, ours in zip(requests, serve(preemption, lengths, num_blocks, **options)):
        for what in ("num_preemptions", "num_recomputed_tokens", "num_swapped_blocks"):
            got, due = getattr(theirs.timeline, what), getattr(ours.timeline, what)
            assert got == due, f"{told}: {theirs.request_id}'s {what} is {got}: it must be {due}"
    return requests


def workload(seed):
    """Requests that don't fit together in a pool that holds the largest of them: (lengths, num_blocks, block_size)."""
    random = Random(seed)
    lengths = [(random.randint(1, 24), random.randint(1, 30)) for _ in range(random.randint(2, 7))]
    block_size = random.choice((1, 2, 3, 4, 8))
    largest = max(-(-(prompt + most) // block_size) for prompt, most in lengths)
    return lengths, largest + random.randint(0, largest // 2), block_size
