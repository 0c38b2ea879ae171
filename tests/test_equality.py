"""What comes out of the paged engine is what a dense, cache-free model says, on random workloads under pressure.

The cache is poisoned with NaN wherever it must not be read, and check() runs after every step.
"""

import random

import pytest
from harness import some_slow

from minipaged.events import BlockCopied, Evicted, Forked, Preempted, PrefixHit, SwappedIn, SwappedOut


def workload(rng, engine, vocab_size, longest_prompt, most_tokens, aborts=0.0, most=1, preempt=0.0):
    """Random requests arriving over time until all are finished. Returns the Requests that were accepted.

    most: the most samples that a request has. aborts, preempt: how often a step is followed by one.
    """
    from minipaged.serving.sequence import SamplingParams, Status

    accepted, to_arrive, step = {}, rng.randint(4, 9), 0
    common = [rng.randrange(vocab_size) for _ in range(longest_prompt)]  # how some of the prompts begin
    while to_arrive or engine.has_unfinished():
        while to_arrive and (rng.random() < 0.6 or not engine.has_unfinished()):
            to_arrive -= 1
            num_prompt_tokens = rng.choice([rng.randint(1, 8), rng.randint(1, longest_prompt)])
            prompt = common[: rng.choice([0, rng.randrange(num_prompt_tokens + 1)])]
            prompt = prompt + [rng.randrange(vocab_size) for _ in range(num_prompt_tokens - len(prompt))]
            n = rng.randint(1, most) if most > 1 else 1
            params = SamplingParams(
                n=n,
                temperature=rng.choice([0.0, 0.7, 1.3][n > 1 :]),
                top_k=rng.choice([0, 0, 1, 5, 40]),
                top_p=rng.choice([1.0, 1.0, 0.3, 0.9]),
                seed=rng.choice([None, rng.randrange(100)]),
                max_tokens=rng.randint(1, most_tokens),
                ignore_eos=rng.random() < 0.5,
            )
            try:
                request_id = engine.add(prompt, params)
                accepted[request_id] = engine.scheduler.waiting[-1]
            except ValueError as error:
                assert "can never fit" in str(error)
        unfinished = [each for each in accepted.values() if each.status is not Status.FINISHED]
        if unfinished and rng.random() < aborts:
            engine.abort(rng.choice(unfinished).request_id)
        engine.step()
        if preempt and rng.random() < preempt:
            engine.force_preemption()
        step += 1
        assert step < 5_000
    return accepted


class Tokenizer:
    """Enough of one for the random model to have an end of text."""

    eos_token_id = 5

    def decode(self, token_ids):
        return ""


HOST_BLOCKS = (0, 5, 0, 200)  # of the workload of a seed, in turn: recompute, swap while there is room, always swap


def run(seed, attention, most=1, prefix_caching=False, num_host_blocks=0, cache_dtype="float64"):
    """One random workload against the dense model -> the events of it. most: the most samples that a request has."""
    from oracle import CheckedEngine, random_model

    rng = random.Random(seed)
    model = random_model(attention)
    block_size = rng.choice([1, 2, 3, 4, 16])
    longest = 200 if attention == "batched" and rng.random() < 0.15 else 30
    num_blocks = -(-rng.randint(longest // 2 + 10, longest + 20 * most) // block_size)
    max_num_seqs = rng.randint(most, 6)
    budget = max_num_seqs + rng.choice([0, rng.randint(0, 12), rng.randint(0, 250)])
    sizes = num_blocks, block_size, max_num_seqs, budget
    watermark = [0.0, 0.0, 0.0, 0.05, 0.3][seed % 5]
    engine = CheckedEngine(
        model, *sizes, Tokenizer(), prefix_caching, num_host_blocks, watermark, cache_dtype=cache_dtype
    )
    preempt = rng.choice([0, 0.05, 0.2]) if most > 1 else 0
    requests = workload(rng, engine, model.config.vocab_size, longest, 24, aborts=0.02, most=most, preempt=preempt)
    engine.demand_equals_dense()
    for request in requests.values():
        for sequence in request.sequences:
            stops = Tokenizer.eos_token_id in sequence.output_token_ids and not request.params.ignore_eos
            if sequence.finish_reason != "abort":
                assert sequence.finish_reason == ("stop" if stops else "length")
                tokens = sequence.output_token_ids
                assert tokens[-1] == 5 if stops else len(tokens) == request.max_tokens
        was_aborted = any(sequence.finish_reason == "abort" for sequence in request.sequences)
        assert was_aborted or len(request.sequences) == request.params.n
    assert engine.memory.allocator.num_free == num_blocks
    assert num_host_blocks == 0 or engine.memory.host.num_free == num_host_blocks
    return engine.events


CACHING = pytest.mark.parametrize("prefix_caching", [False, True], ids=["", "caching"])


@CACHING
@pytest.mark.parametrize("seed", some_slow(range(200), range(15, 200)))
def test_batched_equals_dense(seed, prefix_caching):
    run(seed, "batched", 1, prefix_caching, HOST_BLOCKS[seed % 4])


@CACHING
@pytest.mark.parametrize("seed", some_slow(range(1000, 1015), range(1003, 1015)))
def test_reference_equals_dense(seed, prefix_caching):
    run(seed, "reference", 1, prefix_caching, HOST_BLOCKS[seed % 4])


NARROW = ["float32", "float16", "bfloat16", "int8", "fp8"]


@CACHING
@pytest.mark.parametrize("cache_dtype", NARROW)
@pytest.mark.parametrize("seed", some_slow(range(7000, 7012), range(7001, 7012)))
def test_fewer_bytes_equal_dense(seed, cache_dtype, prefix_caching):
    """The dense forward rounds K and V as the cache does: then a scale that is lost on the way changes the logits."""
    attention = "reference" if seed % 4 == 3 else "batched"
    run(seed, attention, 1 + seed % 3, prefix_caching, HOST_BLOCKS[seed % 4], cache_dtype)


@pytest.mark.slow
def test_the_workloads_do_preempt():
    """A test of the tests: without pressure the ones above would prove little."""
    kinds = [{type(event) for event in run(seed, "batched")} for seed in range(20)]
    assert sum(Preempted in each for each in kinds) >= 8


@CACHING
@pytest.mark.parametrize("seed", some_slow(range(5000, 5330), range(5006, 5330)))
def test_samples_equal_dense(seed, prefix_caching):
    """Requests with up to four samples of one prompt, some of them preempted by force between two steps."""
    run(seed, "batched" if seed % 10 else "reference", 4, prefix_caching, HOST_BLOCKS[seed % 4])


@pytest.mark.slow
def test_the_workloads_do_hit_and_evict():
    """A test of the tests: blocks are found that nobody owned, and by who had to yield, and some are lost."""
    found = revived = back = lost = 0
    for seed in range(5000, 5030):
        yielded = set()
        for event in run(seed, "batched", most=4, prefix_caching=True):
            if isinstance(event, Preempted):
                yielded.add(event.request)
            if isinstance(event, PrefixHit):
                found += 1
                revived += event.num_free_before > 0
                back += event.sequence.partition(".")[0] in yielded
            lost += isinstance(event, Evicted)
    assert min(found, revived, back, lost) >= 20


def test_the_workloads_of_samples_do_fork_copy_and_preempt():
    """A test of the tests. A fork in a step without its parent's first token is one of a group that came back."""
    num_preempted = num_copied = num_back = 0
    for seed in range(5000, 5012):
        events = run(seed, "batched", most=4)
        yielded = set()
        for event in events:
            if isinstance(event, Preempted):
                yielded.add(event.request)
            if isinstance(event, Forked) and event.parent.rpartition(".")[0] in yielded:
                num_back += 1
            num_copied += isinstance(event, BlockCopied)
        num_preempted += len(yielded)
    assert min(num_preempted, num_copied, num_back) >= 10


@pytest.mark.slow
def test_the_workloads_do_swap():
    """A test of the tests: some find room in the host pool, groups among them, and come back; some do not."""
    num_out = num_in = num_dropped = num_groups = 0
    for seed in range(5000, 5040):
        events = run(seed, "batched", 4, seed % 2 == 1, HOST_BLOCKS[1])
        num_out += sum(isinstance(event, SwappedOut) for event in events)
        num_in += sum(isinstance(event, SwappedIn) for event in events)
        num_groups += sum(isinstance(event, SwappedIn) and len(event.sequences) > 1 for event in events)
        num_dropped += sum(isinstance(event, Preempted) for event in events)
    assert min(num_in, num_groups, num_dropped - num_out) >= 10 and num_out >= num_in


@CACHING
@pytest.mark.parametrize("seed", some_slow(range(10), range(2, 10)))
def test_shipped_weights_equal_dense(seed, prefix_caching):
    """The same on the model that ships, with real text as prompts."""
    import torch
    from oracle import ATTENTION, CheckedEngine

    from minipaged.model.load import load
    from minipaged.serving.sequence import SamplingParams

    rng = random.Random(seed)
    model, tokenizer = load("tiny", torch.float64, ATTENTION["batched"]())
    engine = CheckedEngine(model, 24, rng.choice([3, 4, 5]), 4, rng.choice([8, 30]), tokenizer, prefix_caching)
    prompts = [
        "HAMLET:\nTo be, or not to be",
        "HAMLET:\nTo be, or not",
        "KING",
        "[Enter two Gentlemen]\n\nFirst Gentleman:\n",
        "O",
        "é—☃",
    ]
    for prompt in rng.sample(prompts, 4):
        temperature = rng.choice([0.0, 1.0])
        engine.add(prompt, SamplingParams(temperature=temperature, seed=seed, max_tokens=rng.randint(8, 40)))
        engine.step()
    while engine.has_unfinished():
        engine.step()
    engine.demand_equals_dense()
    assert engine.memory.allocator.num_free == 24


def test_a_preempted_request_samples_the_same():
    """The same requests in pools from ample to just enough: pressure never shows in the tokens."""
    from oracle import CheckedEngine, random_model

    from minipaged.serving.sequence import SamplingParams

    model = random_model()
    outputs, preemptions = [], []
    for num_blocks in (60, 16, 12, 11):
        engine = CheckedEngine(model, num_blocks, 4)
        for i in range(5):
            engine.add([i + 1] * (5 + i), SamplingParams(temperature=1.0, seed=i, max_tokens=30), request_id=str(i))
        results = []
        while engine.has_unfinished():
            results += engine.step().outputs
        outputs.append({each.request_id: each.outputs[0].token_ids for each in results})
        preemptions.append(sum(isinstance(event, Preempted) for event in engine.events))
    assert preemptions[0] == 0 < min(preemptions[1:])
    assert all(each == outputs[0] for each in outputs)
