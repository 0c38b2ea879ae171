"""How requests were batched before: two sketches over the same cost model, for lesson 08 to compare with.

Neither is in serving/: each is only as much of a scheduler as a picture needs. Both have memory without end. They
return a Run, as timed_run.run does for the real scheduler, for the same requests.
"""

from minipaged.arguments import whole
from minipaged.bench.timed_run import Run, Step, Work


class Progress:
    """A request on its way: how many tokens it has computed, how many it has generated."""

    def __init__(self, second, request):
        self.second, self.request, self.name = second, request, request.request_id
        self.num_prompt_tokens, self.max_tokens = request.num_prompt_tokens, request.max_tokens
        self.computed = self.generated = 0

    @property
    def is_done(self):
        return self.generated == self.max_tokens

    def go_on(self):
        """Compute the whole prompt, or the newest token. Returns the Work of it."""
        start, kind = self.computed, "held" if self.is_done else "decode" if self.computed else "prompt"
        num_tokens = 1 if start else self.num_prompt_tokens
        self.computed += num_tokens
        gives = 0 if kind == "held" else 1
        self.generated += gives
        return Work(self.name, self.name, start, num_tokens, kind, gives)


def static_batching(arrivals, cost, batch_size, name="static batching"):
    """Request-level scheduling: a batch runs until its last request is finished; only then the next one enters.

    arrivals: (second, Request) pairs. A batch is whoever waits when the one before has ended, batch_size at most. All
    its prompts are padded to the longest, and whoever is finished keeps its place and is computed along, unseen: so
    the paper says of such batching (section 2.3: inputs and outputs are padded to equal lengths). Answers are handed
    out when the batch ends. Raises ValueError for batch_size < 1.
    """
    whole("batch_size", batch_size, least=1)
    result, now = Run(name), 0.0
    coming = ordered(arrivals, result)
    while coming:
        now = max(now, coming[0].second)
        batch = [each for each in coming[:batch_size] if each.second <= now]
        coming = coming[len(batch) :]
        longest = max(each.num_prompt_tokens for each in batch)
        padding = {each.name: longest - each.num_prompt_tokens for each in batch}
        is_prompt = True
        while not all(each.is_done for each in batch):
            work = [each.go_on() for each in batch]
            num_tokens = longest * len(batch) if is_prompt else len(batch)
            context = sum(each.computed + padding[each.name] for each in batch)
            now = take(result, now, work, cost.step_seconds(len(batch), num_tokens, context))
            is_prompt = False
        result.finishes |= {each.name: now for each in batch}
    return result


def whole_prompts(arrivals, cost, max_num_seqs, name="whole prompts"):
    """Iteration-level scheduling: at every step the finished leave and the waiting may enter, with whole prompts.

    A step is either the prompts of all who may enter, or a token for each of the running, who therefore stall while a
    long prompt is computed. So vLLM's first scheduler did it (2023). Orca (OSDI 2022) computed prompts and tokens in
    one step; the running then wait for a long step in the place of someone else's. Raises ValueError for max_num_seqs
    < 1.
    """
    whole("max_num_seqs", max_num_seqs, least=1)
    result, now, running = Run(name), 0.0, []
    coming = ordered(arrivals, result)
    while coming or running:
        if not running:
            now = max(now, coming[0].second)
        entering = [each for each in coming[: max_num_seqs - len(running)] if each.second <= now]
        coming = coming[len(entering) :]
        stepping = entering or running
        running = running + entering
        work = [each.go_on() for each in stepping]
        num_tokens, context = sum(each.num_tokens for each in work), sum(each.computed for each in stepping)
        now = take(result, now, work, cost.step_seconds(len(work), num_tokens, context))
        result.finishes |= {each.name: now for each in running if each.is_done}
        running = [each for each in running if not each.is_done]
    return result


def ordered(arrivals, result):
    """The requests in the order of their arrival, which the Run notes."""
    coming = [Progress(*arrival) for arrival in sorted(arrivals, key=lambda arrival: arrival[0])]
    result.arrivals |= {each.name: each.second for each in coming}
    return coming


def take(result, now, work, seconds):
    """Note a step that begins now. Returns when it ends."""
    result.steps.append(Step(now, now + seconds, tuple(work)))
    return now + seconds
