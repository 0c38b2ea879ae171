"""Output never depends on pressure: the same requests give the same tokens in every memory, pool and budget.

In float64, on a poisoned cache, with check() after every step; some steps break off, and somebody is made to yield.
"""

import random
from contextlib import suppress
from dataclasses import replace

import pytest
from harness import check_scheduler, memory_of, some_slow

from minipaged.events import Evicted, NoRun, Preempted, PrefixHit, Reserved
from minipaged.memory.contiguous import POLICIES

MEMORIES = ("paged", *POLICIES)
CONTEXT = 48


def workload(rng, vocab_size):
    """[(step of arrival, prompt, SamplingParams), ...], the steps ascending."""
    from minipaged.serving.sequence import SamplingParams

    common, step, made = [rng.randrange(vocab_size) for _ in range(CONTEXT)], 0, []
    for i in range(rng.randint(4, 12)):
        step += rng.choice([0, 0, 1, 5])
        length = rng.choice([rng.randint(1, 4), rng.randint(1, 30)])
        shared = rng.choice([0, rng.randrange(length + 1)])
        prompt = common[:shared] + [rng.randrange(vocab_size) for _ in range(length - shared)]
        params = SamplingParams(
            temperature=rng.choice([0.0, 0.8, 1.2]),
            top_k=rng.choice([0, 0, 5]),
            seed=i,
            max_tokens=rng.choice([rng.randint(1, 4), rng.randint(1, 24)]),
            ignore_eos=rng.random() < 0.6,
        )
        made.append((step, prompt, params))
    return made


class Tokenizer:
    """Enough of one for the random model to have an end of text."""

    eos_token_id = 5

    def decode(self, token_ids):
        return ""


def pool(kind, requests, block_size, rng):
    """As many blocks as the largest request needs, or up to three times as many."""
    memory = memory_of(kind, 1, block_size, CONTEXT)
    least = max(memory.blocks_at_most(len(prompt), params.max_tokens) for _, prompt, params in requests)
    return rng.choice([least, rng.randint(least, 3 * least)])


def run(kind, requests, rng, model, prefix_caching=False):
    """All of them in one memory -> (each one's tokens and why it ended, the engine)."""
    from oracle import CheckedEngine

    block_size = rng.choice([1, 2, 3, 4, 16])
    max_num_seqs = rng.randint(1, 6)
    budget = max_num_seqs + rng.choice([0, rng.randint(0, 12), 200])
    sizes = pool(kind, requests, block_size, rng), block_size, max_num_seqs, budget
    engine = CheckedEngine(model, *sizes, Tokenizer(), prefix_caching, memory=kind)
    engine.model = breaking(engine.model.model, set(rng.sample(range(60), rng.choice([0, 4]))))
    preempt, to_arrive, finished, step = (
        set(rng.sample(range(60), rng.choice([0, 4]))),
        list(enumerate(requests)),
        {},
        0,
    )
    while to_arrive or engine.has_unfinished():
        while to_arrive and to_arrive[0][1][0] <= step:
            i, (_, prompt, params) = to_arrive.pop(0)
            engine.add(prompt, params, request_id=str(i))
        with suppress(ZeroDivisionError):
            for each in engine.step().outputs:
                if each.finished:
                    finished[each.request_id] = each.outputs[0].token_ids, each.outputs[0].finish_reason
        check_scheduler(engine.scheduler, engine.shadow)
        if step in preempt:
            engine.force_preemption()
        step += 1
        assert step < 2_000
    assert engine.memory.allocator.num_free == engine.memory.num_blocks
    return finished, engine


def breaking(model, when):
    """A recorder that does its work and then fails, in these steps."""
    from oracle import Recorder

    class Breaking(Recorder):
        num_steps = 0

        def __call__(self, batch, cache):
            logits = super().__call__(batch, cache)
            self.num_steps += 1
            if self.num_steps in when:
                raise ZeroDivisionError
            return logits

    return Breaking(model)


def model_of_a_short_context():
    from oracle import random_model

    model = random_model()
    model.config = replace(model.config, max_model_len=CONTEXT)
    return model


def kinds(engine):
    return {type(event) for event in engine.events}


@pytest.mark.parametrize("seed", some_slow(range(120), range(1, 120)))
def test_output_never_depends_on_the_memory(seed):
    """Each memory runs the workload with a pool, a budget and interruptions of its own, all drawn anew."""
    rng, model = random.Random(seed), model_of_a_short_context()
    requests = workload(rng, model.config.vocab_size)
    expected, engine = run("paged", requests, rng, model)
    engine.demand_equals_dense()
    assert len(expected) == len(requests)
    for kind, caching in (("paged", True), *((policy, False) for policy in POLICIES)):
        found, engine = run(kind, requests, rng, model, caching)
        assert found == expected, kind
        engine.demand_equals_dense()


@pytest.mark.slow
def test_the_workloads_have_it_all():
    """A test of the tests: somebody yields and comes back, waits though blocks are free, hits and evicts."""
    seen, num_fragmented = [], 0
    for seed in range(40):
        rng, model = random.Random(seed), model_of_a_short_context()
        requests = workload(rng, model.config.vocab_size)
        for kind in MEMORIES:
            _, engine = run(kind, requests, rng, model, kind == "paged")
            seen.append((kind, kinds(engine)))
            gaps = [each for each in engine.events if isinstance(each, NoRun) and each.num_free >= each.num_blocks]
            num_fragmented += bool(gaps)
    for kind in MEMORIES:
        assert sum(Preempted in each for k, each in seen if k == kind) >= 8
    assert sum(Reserved in each for _, each in seen) == 120
    assert min(sum(PrefixHit in each for _, each in seen), sum(Evicted in each for _, each in seen)) >= 5
    assert num_fragmented >= 2


class TestLLM:
    def answers(self, **settings):
        from minipaged import LLM, SamplingParams

        llm = LLM(dtype="float64", **settings)
        prompts = ["HAMLET:\n", "HAMLET:\nTo be, or not to be", "O"]
        params = SamplingParams(temperature=0.8, max_tokens=12, ignore_eos=True)
        return llm, [output.outputs[0].text for output in llm.generate(prompts, params)]

    def test_every_memory_gives_the_same_texts(self):
        _, expected = self.answers()
        for kind in MEMORIES:
            llm, texts = self.answers(memory=kind, num_blocks=64)
            assert texts == expected
            assert getattr(llm.engine.memory, "policy", "paged") == kind
            assert (llm.engine.memory.prefix_cache is not None) == (kind == "paged")
            assert llm.engine.memory.allocator.num_free == 64

    @pytest.mark.parametrize(
        "settings, message",
        [
            ({"memory": "min"}, "memory='min': must be one of paged, max, pow2, oracle"),
            ({"memory": None}, "memory=None: must be one of"),
            (
                {"memory": "max", "enable_prefix_caching": True},
                "enable_prefix_caching=True with memory='max': blocks are shared in paged memory only",
            ),
            ({"enable_prefix_caching": 1}, "enable_prefix_caching=1: must be True, False or None"),
        ],
    )
    def test_what_cannot_be(self, settings, message):
        from minipaged import LLM

        with pytest.raises(ValueError, match=message):
            LLM(**settings)

    def test_a_learners_parts_build_paged_memory_only(self):
        from minipaged import LLM
        from minipaged.memory.allocator import BlockAllocator
        from minipaged.serving.parts import Parts

        class Mine(BlockAllocator):
            pass

        with pytest.raises(ValueError, match="parts with allocator and memory='pow2': these build a paged memory only"):
            LLM(memory="pow2", parts=Parts(allocator=Mine))
        assert LLM(memory="pow2", parts=Parts()).engine.memory.policy == "pow2"

    def test_explicitly_without_a_prefix_cache(self):
        from minipaged import LLM

        assert LLM(memory="max", enable_prefix_caching=False).engine.memory.prefix_cache is None
        assert LLM(enable_prefix_caching=False).engine.memory.prefix_cache is None
        assert LLM(enable_prefix_caching=True).engine.memory.prefix_cache is not None

    def test_several_answers_are_refused_and_nothing_is_added(self):
        from minipaged import LLM, BeamSearchParams, SamplingParams
        from minipaged.events import Refused

        llm = LLM(memory="oracle")
        asked = (SamplingParams(n=3), "n=3"), (BeamSearchParams(2, 5), "beam_width=2")
        for number, (params, name) in enumerate(asked):
            with pytest.raises(
                ValueError, match=f"^{name}: several answers share one prompt in paged memory only; 1 is"
            ):
                llm.engine.add("O", params)
            assert not llm.engine.has_unfinished() and not llm.engine.scheduler.waiting
            assert llm.engine.log[-1] == Refused(f"{number}", 1, params.max_tokens, "memory", params.n, 1)
            with pytest.raises(ValueError, match=f"prompt 0: {name}: several answers"):
                next(llm.stream("O", params))
        assert len(llm.engine.log) == 2
        assert llm.beam_search("O", BeamSearchParams(1, 3))[0].sequences[0].token_ids

    def test_a_run_that_can_never_fit_is_refused_with_its_length(self):
        from minipaged import LLM, SamplingParams

        llm = LLM(memory="max", num_blocks=63)
        message = r"1 prompt tokens and max_tokens=5 need a run \(memory='max'\) of 64 blocks of 16, the pool has 63"
        with pytest.raises(ValueError, match=message):
            llm.engine.add("O", SamplingParams(max_tokens=5))
