"""Beam search: the answers are those of a search over dense, cache-free forwards, whatever happens in the memory."""

import json
import random
import sys

import pytest
from harness import check_scheduler, scheduler, some_slow

from minipaged.events import BlockCopied, BlocksReleased, Finished, Forked, Preempted, Refused
from minipaged.serving.plan import Continuation
from minipaged.serving.sequence import BeamSearchParams, Request, SamplingParams, Status


class Ends:
    """Enough of a tokenizer for a random model to have an end of text."""

    def __init__(self, eos_token_id):
        self.eos_token_id = eos_token_id

    def decode(self, token_ids):
        return ""


@pytest.fixture(scope="module")
def llm():
    from minipaged import LLM

    return LLM(block_size=4, num_blocks=128, dtype="float64")


def checked(num_blocks=60, block_size=4, eos=None, vocab_size=97, attention="batched", **options):
    from oracle import CheckedEngine, random_model

    tokenizer = Ends(eos) if eos is not None else None
    return CheckedEngine(
        random_model(attention, vocab_size=vocab_size), num_blocks, block_size, tokenizer=tokenizer, **options
    )


def found_by(request, engine):
    """What a beam search has come to, as (score, sum of log-probabilities, tokens)."""
    from minipaged.serving.outputs import output_of

    output = output_of(request, engine.tokenizer)
    assert output.finished
    return [(each.score, each.cumulative_logprob, each.token_ids) for each in output.sequences]


def demand_equal(found, expected):
    assert [tokens for *_, tokens in found] == [tokens for *_, tokens in expected]
    for (score, total, _), (right_score, right_total, _) in zip(found, expected):
        assert score == pytest.approx(right_score, rel=1e-9, abs=1e-9)
        assert total == pytest.approx(right_total, abs=1e-9)


def demand_equals_dense(request, engine):
    """The answers of a finished beam search against those of the oracle."""
    from oracle import best_answers

    params = request.params
    eos = engine.tokenizer.eos_token_id if engine.tokenizer and not params.ignore_eos else None
    wanted = params.beam_width, request.max_tokens, params.length_penalty, eos
    found = found_by(request, engine)
    demand_equal(found, best_answers(engine.model.model, request.prompt_token_ids, *wanted))
    return found


def searched(engine, prompt, *args, **options):
    """Run one beam search by itself. Returns its Request."""
    engine.add(prompt, BeamSearchParams(*args, **options))
    request = engine.scheduler.waiting[-1]
    while engine.has_unfinished():
        engine.step()
    return request


# What comes out


def mix(seed, attention="batched", num_host_blocks=0):
    """Beam searches, samples and single answers in one engine under pressure -> (engine, its beam searches)."""
    rng = random.Random(seed)
    block_size, max_num_seqs = rng.choice([1, 2, 3, 4, 16]), rng.randint(5, 8)
    num_blocks = -(-rng.randint(40, 140) // block_size)
    budget = max_num_seqs + rng.choice([0, rng.randint(0, 12), rng.randint(0, 100)])
    vocab_size = rng.choice([6, 15, 97])  # in a small one, the end of text is often among the likeliest
    engine = checked(
        num_blocks, block_size, rng.randrange(vocab_size), vocab_size, attention, max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget, prefix_caching=seed % 2 == 1, num_host_blocks=num_host_blocks,
    )  # fmt: skip
    preempt, aborts = rng.choice([0, 0.05, 0.2]), rng.choice([0, 0.03])
    accepted, to_arrive = {}, rng.randint(3, 6)
    for _ in range(5_000):
        while to_arrive and (rng.random() < 0.5 or not engine.has_unfinished()):
            to_arrive -= 1
            prompt = [rng.randrange(vocab_size) for _ in range(rng.choice([rng.randint(1, 6), rng.randint(1, 30)]))]
            max_tokens, ignore_eos = rng.randint(1, 20), rng.random() < 0.2
            if rng.random() < 0.6:
                penalty = rng.choice([1.0, 0.0, -1.0, 2.5, -8.0])
                params = BeamSearchParams(rng.randint(1, 5), max_tokens, ignore_eos=ignore_eos, length_penalty=penalty)
            else:
                n = rng.randint(1, 4)
                temperature = rng.choice([0.7, 1.3] if n > 1 else [0, 1])
                params = SamplingParams(n=n, temperature=temperature, max_tokens=max_tokens, ignore_eos=ignore_eos)
            try:
                request_id = engine.add(prompt, params)
                accepted[request_id] = engine.scheduler.waiting[-1]
            except ValueError as error:
                assert "can never fit" in str(error)
        unfinished = [each for each in accepted.values() if each.status is not Status.FINISHED]
        if not unfinished and not to_arrive:
            break
        if unfinished and rng.random() < aborts:
            engine.abort(rng.choice(unfinished).request_id)
        engine.step()
        demand_together(engine)
        if rng.random() < preempt:
            engine.force_preemption()
    assert not engine.has_unfinished()
    assert engine.memory.allocator.num_free == num_blocks
    return engine, [each for each in accepted.values() if each.is_beam_search]


def demand_together(engine):
    """Between two steps all beams of a request are equally long, and there are no more than its width."""
    for request in (*engine.scheduler.running, *engine.scheduler.waiting):
        if request.is_beam_search:
            beams = [each for each in request.sequences if each.finish_reason is None]
            assert len({beam.num_tokens for beam in beams}) == 1
            assert len(beams) <= request.params.beam_width


def run(seed, attention="batched", num_host_blocks=0):
    engine, requests = mix(seed, attention, num_host_blocks)
    engine.demand_equals_dense()
    ended = 0
    for request in requests:
        if not any(sequence.finish_reason == "abort" for sequence in request.sequences):
            answers = demand_equals_dense(request, engine)
            assert len(answers) == request.params.beam_width
        ended += sum(sequence.finish_reason == "stop" for sequence in request.sequences)
    return engine.events, ended


@pytest.mark.parametrize("seed", some_slow(range(300), range(8, 300)))
def test_mixes_equal_dense(seed):
    run(seed, "reference" if seed % 20 == 19 else "batched", (0, 0, 6, 200)[seed // 2 % 4])


@pytest.mark.slow
def test_the_mixes_do_what_they_are_for():
    """A test of the tests: beams are preempted, forked again, copied, dropped, and some of them end early."""
    num_preempted = num_back = num_copied = num_early = 0
    for seed in range(30):
        events, ended = run(seed)
        yielded = {event.request for event in events if isinstance(event, Preempted)}
        num_preempted += len(yielded)
        num_back += sum(isinstance(event, Forked) and event.parent.rpartition(".")[0] in yielded for event in events)
        num_copied += sum(isinstance(event, BlockCopied) for event in events)
        num_early += ended
    assert min(num_preempted, num_back, num_copied, num_early) >= 20


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 5])
def test_vocabularies_smaller_than_twice_the_width(vocab_size):
    """The first step has fewer candidates than are wanted, and one of them may end it."""
    for width in range(1, vocab_size + 1):
        for eos in (None, 0, vocab_size - 1):
            engine = checked(eos=eos, vocab_size=vocab_size)
            request = searched(engine, [0, vocab_size - 1], width, 6, length_penalty=0.5)
            demand_equals_dense(request, engine)
    with pytest.raises(ValueError, match=rf"^beam_width={width + 1}: at most {width}, the size of the vocabulary"):
        engine.add([0], BeamSearchParams(width + 1, 6))


def test_a_beam_search_of_width_1_is_greedy(llm):
    prompts = ["KING:\nWhat", "O", "ROMEO:\nBut, soft!"]
    greedy = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=20))
    for output, search in zip(greedy, llm.beam_search(prompts, BeamSearchParams(1, 20))):
        [answer] = search.sequences
        assert (answer.text, answer.token_ids) == (output.outputs[0].text, output.outputs[0].token_ids)
        assert answer.cumulative_logprob == pytest.approx(output.outputs[0].cumulative_logprob, abs=1e-9)


def test_equal_sums_are_in_the_order_of_the_beams_tokens_and_then_of_the_token():
    """Whichever sequence a beam goes on in: those that were forked have the higher index, and may come first."""
    import torch

    from minipaged.serving.beam_search import likeliest

    request = Request("A", None, [1], BeamSearchParams(3, 9), 9, seed=0)
    first = request.sequences[0]
    second, third = request.fork(first), request.fork(first)
    for sequence, token in ((first, 7), (second, 5), (third, 6)):
        sequence.token_ids.append(token)
        sequence.cumulative_logprob = -1.0
    logprobs = torch.full((3, 4), 0.25).log()
    best = [(each.parent, each.token) for each in likeliest([first, second, third], logprobs, 6)]
    assert best == [(second, 0), (second, 1), (second, 2), (second, 3), (third, 0), (third, 1)]
    first.cumulative_logprob = -0.5
    best = likeliest([first, second, third], logprobs, 5)
    assert [(each.parent, each.token) for each in best] == [*((first, token) for token in range(4)), (second, 0)]


class Flat:
    """A model to which all tokens are the same at every place, so that all answers are equally good."""

    def __init__(self, model):
        self.model, self.config = model, model.config

    def __call__(self, batch, cache):
        import torch

        return torch.zeros(len(batch.logit_rows), self.config.vocab_size, dtype=torch.float64)

    def dense(self, token_ids):
        import torch

        return torch.zeros(*token_ids.shape, self.config.vocab_size, dtype=torch.float64)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_where_all_are_equal_the_answers_are_still_the_oracles(width):
    for eos in (None, 0, 1, 2):
        engine = checked(eos=eos, vocab_size=5)
        engine.model.model = Flat(engine.model.model)
        demand_equals_dense(searched(engine, [1, 2], width, 5), engine)


@pytest.mark.parametrize("seed", some_slow(range(12), range(1, 12)))
def test_hugging_face_finds_the_same(seed):
    """On the weights that ship. The end of text is now a comma, now a blank: the model's own is too rare."""
    pytest.importorskip("transformers", reason='transformers is not installed: python -m pip install -e ".[compare]"')
    import torch
    from oracle import ATTENTION, CheckedEngine

    from minipaged.bench.hugging_face import same_model
    from minipaged.model.load import load

    rng = random.Random(seed)
    model, tokenizer = load("tiny", torch.float64, ATTENTION["batched"]())
    llama, num_early = same_model(model).double(), 0
    for prompt in ["ROMEO:\nBut, soft!", "KING", "To be, or not to"]:
        ids = tokenizer.encode(prompt)
        width, max_tokens, penalty = rng.randint(1, 5), rng.randint(1, 24), rng.choice([1.0, 0.0, 0.6, 2.0, -1.0])
        eos = rng.choice([*tokenizer.encode(","), *tokenizer.encode("\n"), tokenizer.encode(" the")[0]])
        engine = CheckedEngine(model, 60, 4, tokenizer=Ends(eos))
        found = demand_equals_dense(searched(engine, ids, width, max_tokens, length_penalty=penalty), engine)
        theirs = llama.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64), num_beams=width,
            num_return_sequences=width, max_new_tokens=max_tokens, early_stopping=True, length_penalty=penalty,
            do_sample=False, eos_token_id=eos, pad_token_id=eos, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        for i, (score, _, tokens) in enumerate(found):
            assert theirs.sequences[i, len(ids) : len(ids) + len(tokens)].tolist() == tokens
            assert set(theirs.sequences[i, len(ids) + len(tokens) :].tolist()) <= {eos}  # as padding
            if width > 1:  # of one beam, it keeps no score
                assert theirs.sequences_scores[i].item() == pytest.approx(score, rel=1e-4)
            num_early += len(tokens) < max_tokens
    if seed == 0:
        assert num_early  # the seed that always runs has an answer that ends early


# What happens to the blocks


def with_beams(width, num_prompt_tokens, max_tokens=30, num_blocks=60, block_size=4, **options):
    """A scheduler and a search in it, driven without a model."""
    made = scheduler(num_blocks, block_size, max_num_seqs=width, **options)
    params = BeamSearchParams(width, max_tokens)
    made.add(Request("A", None, list(range(num_prompt_tokens)), params, max_tokens, seed=0))
    return made, made.waiting[-1]


def go_on(made, wanted):
    """One step in which the due beams go on as wanted: pairs of the place of a parent among them and a token, or None
    in the place of the token for an end of text. Returns the events."""
    made.log.clear()
    plan = made.schedule()
    reasons = [("stop", None) if token is None else (None, None) for _, token in wanted]
    made.commit(plan, [Continuation(plan.due[i], token or 0, -1.0) for i, token in wanted], reasons)
    check_scheduler(made, made.log.shadow)
    return list(made.log)


def used(made):
    return made.memory.num_blocks - made.memory.allocator.num_free


def test_beams_share_the_blocks_of_the_prompt():
    made, request = with_beams(4, 10)
    go_on(made, [(0, 1), (0, 2), (0, 3), (0, 4)])
    assert used(made) == 3
    events = go_on(made, [(i, 1) for i in range(4)])
    assert used(made) == 6 and sum(isinstance(event, BlockCopied) for event in events) == 3
    tables = [made.memory.table(sequence.name).blocks for sequence in request.sequences]
    assert len({tuple(table[:2]) for table in tables}) == 1 and len({table[2] for table in tables}) == 4


def test_figure_9_of_the_paper_chosen_and_committed():
    """Four beams with a full block of their own each; the four best continuations come from two of them. New sequences
    are forked first, then the blocks that only the losers had are free, in the very same commit."""
    import torch

    from minipaged.serving import beam_search

    made, _ = with_beams(4, 4)
    go_on(made, [(0, 1), (0, 2), (0, 3), (0, 4)])
    for _ in range(3):
        go_on(made, [(i, 1) for i in range(4)])
    made.log.clear()
    plan = made.schedule()  # and with this step every beam has filled the block
    own = {beam.name: made.memory.table(beam.name).blocks[1] for beam in plan.due}
    logprobs = torch.tensor([[0.1, 0.1, 0.8], [0.45, 0.45, 0.1], [0.1, 0.44, 0.46], [0.3, 0.4, 0.3]]).log()
    for beam, total in zip(plan.due, (-9.0, -2.0, -2.0, -9.0)):
        beam.cumulative_logprob = total
    continuations = beam_search.choose(plan.due, logprobs, None)
    chosen = [(each.parent.name, each.token) for each in continuations]
    assert chosen == [("A.3", 2), ("A.2", 0), ("A.2", 1), ("A.3", 1)]
    made.commit(plan, continuations, [(None, None)] * 4)
    check_scheduler(made, made.log.shadow)
    happened = [event for event in made.log if isinstance(event, (Forked, BlocksReleased))]
    assert [(each.parent, each.child) for each in happened[:2]] == [("A.2", "A.5"), ("A.3", "A.6")]
    assert [(each.sequence, each.freed) for each in happened[2:]] == [("A.1", (own["A.1"],)), ("A.4", (own["A.4"],))]
    assert used(made) == 3
    events = go_on(made, [(i, 1) for i in range(4)])  # the next four blocks; nothing is copied
    assert used(made) == 7 and not any(isinstance(event, BlockCopied) for event in events)


def test_a_beam_that_ended_gives_its_blocks_back_and_one_that_ends_as_a_fork_never_has_any():
    made, request = with_beams(3, 4)
    go_on(made, [(0, 1), (0, 2), (0, 3)])
    go_on(made, [(0, 1), (1, 1), (2, 1)])
    events = go_on(made, [(0, None), (0, 1), (1, 1), (1, None), (1, 2)])
    assert [event.child for event in events if isinstance(event, Forked)] == ["A.4", "A.6"]
    assert [event.sequence for event in events if isinstance(event, BlocksReleased)] == ["A.3", "A.1"]
    assert [event.sequence for event in events if isinstance(event, Finished)] == ["A.1", "A.5"]
    assert sorted(made.memory.sequences()) == ["A.2", "A.4", "A.6"] and used(made) == 3
    reasons = [sequence.finish_reason for sequence in request.sequences]
    assert reasons == ["stop", None, "dropped", None, "stop", None]


def test_one_token_needs_no_fork(llm):
    [output] = llm.beam_search("O", BeamSearchParams(5, 1))
    assert len({tuple(each.token_ids) for each in output.sequences}) == 5
    engine = checked(num_blocks=2)
    searched(engine, [1] * 8, 5, 1)  # so the bound is that of a single sequence
    assert not any(isinstance(event, Forked) for event in engine.events)


@pytest.mark.parametrize("seed", some_slow(range(60), range(20, 60)))
def test_the_bound_is_exact(seed):
    """A search finishes in a pool of the size that the bound says; a block less is a refusal on arrival."""
    rng = random.Random(seed)
    size, num_tokens, width, max_tokens = (
        rng.choice([1, 2, 3, 4]),
        rng.randint(1, 12),
        rng.randint(1, 5),
        rng.randint(2, 9),
    )
    full = num_tokens // size
    bound = full + width * (-(-(num_tokens + max_tokens - 1) // size) - full)
    engine = checked(bound, size, max_num_batched_tokens=8 + rng.randint(0, 9))
    prompt = [rng.randrange(97) for _ in range(num_tokens)]
    request = searched(engine, prompt, width, max_tokens)
    assert not any(isinstance(event, Preempted) for event in engine.events)
    demand_equals_dense(request, engine)
    engine = checked(max(1, bound - 1), size)
    if bound > 1:
        with pytest.raises(ValueError, match=f"can never fit: {num_tokens} prompt tokens and max_tokens={max_tokens}"):
            engine.add(prompt, BeamSearchParams(width, max_tokens), "X")
        assert engine.step().events == [Refused("X", num_tokens, max_tokens, "pool", bound, bound - 1)]


def test_beams_that_come_back_are_held_until_all_can_go_on():
    """After a preemption the budget serves them by and by, and no beam gets a token before all can."""
    engine = checked(max_num_seqs=4, max_num_batched_tokens=6)
    engine.add([1, 2, 3], BeamSearchParams(4, 12))
    [request] = engine.scheduler.waiting
    for _ in range(7):
        engine.step()
    assert {each.num_output_tokens for each in request.sequences if each.finish_reason is None} == {7}
    engine.force_preemption()
    steps = []
    while not steps or not steps[-1][1]:
        result = engine.step()
        steps.append(([row.num_tokens for row in result.plan.rows], len(result.plan.due)))
    # The prompt; the six tokens before the newest of each, as the budget allows; then the newest of all.
    assert steps == [
        ([3], 0),
        ([3, 1, 1, 1], 0),
        ([3, 1, 1, 1], 0),
        ([4, 1, 1], 0),
        ([3, 3], 0),
        ([1, 1, 1, 1], 4),
    ]
    while engine.has_unfinished():
        engine.step()
    demand_equals_dense(request, engine)


@pytest.mark.parametrize("state", ["waiting", "mid-prefill", "decoding", "preempted", "coming back"])
def test_e16_an_abort_gives_back_exactly_what_the_beams_held(state):
    engine = checked(max_num_seqs=5, max_num_batched_tokens=5)
    engine.add([7] * 3, SamplingParams(temperature=0, max_tokens=30))
    engine.step()
    name = engine.add([1] * 9, BeamSearchParams(4, 9))
    request = engine.scheduler.waiting[0]
    if state == "mid-prefill":
        engine.step()
    while (
        state in ("decoding", "preempted", "coming back")
        and max(each.num_output_tokens for each in request.sequences) < 3
    ):
        engine.step()
    if state in ("preempted", "coming back"):
        engine.force_preemption()
    while state == "coming back" and len(engine.memory.sequences()) < 3:
        engine.step()
    held = {block for each in engine.memory.sequences() for block in engine.memory.table(each).blocks}
    held -= set(engine.memory.table("0").blocks)
    assert bool(held) == (state not in ("waiting", "preempted"))
    free = engine.memory.allocator.num_free
    assert engine.abort(name) and request.status is Status.FINISHED
    assert engine.memory.allocator.num_free == free + len(held)
    check_scheduler(engine.scheduler, engine.shadow)
    while engine.has_unfinished():
        engine.step()
    assert engine.memory.allocator.num_free == 60


def test_a_step_that_breaks_off_anywhere_restores_the_beams():
    """Interrupted at every place in turn, as Ctrl-C would: the beams are as they were, and the answers the oracle's."""
    engine = checked(num_blocks=24, eos=11, max_num_seqs=5)
    num_broken = num_restored = 0

    def interrupted(line):
        """A step that is broken off at its line-th line, if it has so many."""
        nonlocal num_broken
        left = line

        def trace(frame, event, arg):
            nonlocal left
            if "minipaged" not in frame.f_code.co_filename:
                return None
            left -= event == "line"
            if left == 0:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            engine.step()
        except KeyboardInterrupt:
            num_broken += 1
        finally:
            sys.settrace(None)

    def beams(request):
        return [(each, list(each.token_ids), each.cumulative_logprob, each.finish_reason) for each in request.sequences]

    for line in range(1, 2300, 23):
        engine.add([5, 6, 7], BeamSearchParams(3, 4, length_penalty=0.0), "A")
        engine.add([8] * 5, SamplingParams(temperature=1, n=2, seed=4, max_tokens=3), "B")
        request = engine.scheduler.waiting[0]
        while engine.has_unfinished():
            before, num_before = beams(request), num_broken
            interrupted(line)
            if num_broken > num_before:
                if not engine.scheduler.running and request.status is not Status.FINISHED:
                    num_restored += 1
                    assert beams(request) == before
                # Otherwise it was broken off when all was done and only the result was to be handed over.
                for _ in range(3):  # its prompt, its tokens, a new one: otherwise it would be broken off for ever
                    engine.step()
        demand_equals_dense(request, engine)
        assert engine.memory.allocator.num_free == 24
    assert num_broken > num_restored > 100


# What a user meets


def test_answers_come_best_first_with_vllms_names(llm):
    prompts = ["ROMEO:\nBut, soft!", [5, 6, 7]]
    outputs = llm.beam_search(prompts, [BeamSearchParams(4, 9), BeamSearchParams(beam_width=2, max_tokens=5)])
    assert [(each.prompt, each.finished, len(each.sequences)) for each in outputs] == [
        (prompts[0], True, 4),
        (None, True, 2),
    ]
    for output in outputs:
        scores = [each.score for each in output.sequences]
        assert scores == sorted(scores, reverse=True) and output.outputs is output.sequences
        for each in output.sequences:
            assert each.tokens == output.prompt_token_ids + each.token_ids
            assert each.text == llm.engine.tokenizer.decode(each.token_ids)
            assert each.cum_logprob == each.cumulative_logprob
            assert each.score == pytest.approx(each.cum_logprob / len(each.token_ids), abs=1e-12)
            assert (each.finish_reason, each.stop_reason) == ("length", None)
    assert llm.engine.memory.allocator.num_free == 128


def test_the_length_penalty_decides_between_short_and_long():
    """The larger it is, the better for long answers."""
    first_lengths = []
    for penalty in (-8.0, 8.0):
        engine = checked(eos=15)
        found = demand_equals_dense(searched(engine, [1, 2, 3], 5, 10, length_penalty=penalty), engine)
        first_lengths.append(len(found[0][2]))
    assert first_lengths[0] < first_lengths[1]


def test_ignore_eos_goes_on():
    engine = checked(eos=11)
    found = demand_equals_dense(searched(engine, [1, 2, 3], 4, 8, ignore_eos=True), engine)
    assert {len(tokens) for *_, tokens in found} == {8}


def test_a_search_stops_at_the_context(llm):
    from minipaged import LLM

    large = LLM(num_blocks=300, block_size=4)
    [output] = large.beam_search([[5] * 1020], BeamSearchParams(2, 50))
    assert [len(each.token_ids) for each in output.sequences] == [4, 4]


def test_a_stream_of_beams_ends_as_beam_search_does(llm):
    seen = list(llm.stream("KING:\nWhat", BeamSearchParams(3, 6)))
    assert [each.finished for each in seen] == [False] * 5 + [True]
    assert [len(each.sequences[0].token_ids) for each in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[-1].sequences == llm.beam_search("KING:\nWhat", BeamSearchParams(3, 6))[0].sequences


@pytest.mark.parametrize(
    "options, message",
    [
        ({"beam_width": 0}, r"^beam_width=0: must be a whole number, 1 or more$"),
        ({"beam_width": 2.0}, r"^beam_width=2.0: must be a whole number"),
        ({"beam_width": True}, r"^beam_width=True: must be a whole number"),
        ({"max_tokens": 0}, r"^max_tokens=0: must be a whole number, 1 or more$"),
        ({"length_penalty": float("nan")}, r"^length_penalty=nan: must be a number from -32 to 32$"),
        ({"length_penalty": float("inf")}, r"^length_penalty=inf: must be"),
        ({"length_penalty": 33}, r"^length_penalty=33: must be"),
        ({"length_penalty": "1"}, r"^length_penalty='1': must be"),
    ],
)
def test_wrong_params_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        BeamSearchParams(**{"beam_width": 2, "max_tokens": 3, **options})


def test_the_largest_penalties_make_numbers(llm):
    for penalty in (-32, 32):
        [output] = llm.beam_search([[5] * 200], BeamSearchParams(2, 30, length_penalty=penalty))
        assert all(-float("inf") < each.score < 0 for each in output.sequences)


def test_what_cannot_run_is_refused_before_the_first_step(llm):
    for params, message in [
        (BeamSearchParams(1025, 3), "prompt 1: beam_width=1025: at most 1024, the size of the vocabulary"),
        (BeamSearchParams(65, 3), "prompt 1: beam_width=65: at most max_num_seqs=64 sequences run together"),
        (BeamSearchParams(60, 300), r"prompt 1: .*never fit.*max_tokens=300 for each of beam_width=60 answers need"),
        (SamplingParams(n=2, temperature=1), "prompt 1: params=SamplingParams.*BeamSearchParams for beam_search"),
        ({"beam_width": 2}, "prompt 1: params={'beam_width': 2}: must be a SamplingParams or a BeamSearchParams"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            llm.beam_search(["O", "O"], [BeamSearchParams(2, 3), params])
        assert not llm.engine.has_unfinished()
    with pytest.raises(ValueError, match=r"prompt 0: .*BeamSearchParams for beam_search"):
        llm.generate("O", BeamSearchParams(2, 3))
    with pytest.raises(TypeError, match="unexpected keyword argument 'n'"):
        BeamSearchParams(2, 3, n=2)


def test_beams_have_names_of_their_own_however_many_there_come_to_be():
    engine = checked()
    engine.add([1], BeamSearchParams(2, 20), "A")
    for taken in ("A", "A.1", "A.3", "A.1234567"):
        with pytest.raises(ValueError, match=rf"request_id='{taken}' is in use by an unfinished request$"):
            engine.add([1], SamplingParams(), taken)
    for free in ("A.0", "A.01", "A.x", "B.77"):
        assert engine.add([1], SamplingParams(), free) == free
    with pytest.raises(ValueError, match=r"request_id='B' is in use .*: 'B.77', as one of its sequences would be"):
        engine.add([1], BeamSearchParams(2, 20), "B")
    assert engine.add([1], BeamSearchParams(1, 20), "B") == "B"
    while engine.has_unfinished():
        engine.step()
    names = [event.child for event in engine.events if isinstance(event, Forked)]
    assert len(names) == len(set(names)) > 2


# On the command line


@pytest.fixture
def generated(capsys, monkeypatch):
    """What `python -m minipaged generate` prints and how it ends, in this process: a function of its options."""
    from minipaged import __main__

    monkeypatch.setattr(__main__, "on_signals", lambda handler: None)
    monkeypatch.setattr(sys.stdout, "reconfigure", lambda **options: None, raising=False)

    def run(*args):
        try:
            status = __main__.main(["generate", "--dtype", "float64", *args])
        except SystemExit as error:
            status = error.code
        return status, *capsys.readouterr()

    return run


def test_beams_on_the_command_line(generated, llm):
    [output] = llm.beam_search("KING:\n", BeamSearchParams(3, 5, length_penalty=0.5))
    args = ["--prompt", "KING:\\n", "--beam-width", "3", "--length-penalty", "0.5", "--max-tokens", "5"]
    texts = [f"answer {i}, score {each.score:.4f}:\n{each.text}\n\n" for i, each in enumerate(output.sequences)]
    assert generated(*args) == (0, "".join(texts), "")
    records = [json.loads(line) for line in generated(*args, "--prompt", "O", "--json")[1].splitlines()]
    assert [(each["index"], each["answer"]) for each in records] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    for record, each in zip(records, output.sequences):
        assert (record["text"], record["token_ids"], record["finish_reason"]) == (each.text, each.token_ids, "length")
        assert record["score"] == pytest.approx(each.score, abs=1e-9)


def test_several_answers_on_the_command_line(generated):
    args = ["--prompt", "O", "--n", "2", "--max-tokens", "4", "--seed", "3"]
    first, second = generated(*args)[1].split("answer 1:\n")
    assert first.startswith("answer 0:\n") and first != f"answer 0:\n{second}"
    both = generated(*args, "--prompt", "KING")[1]
    assert both.count("prompt ") == 2 and both.count("answer 0:") == both.count("answer 1:") == 2
    lines = generated(*args, "--json")[1].splitlines()
    assert len(lines) == 2 and "score" not in lines[0]


@pytest.mark.parametrize(
    "args, says",
    [
        (["--beam-width", "3", "--n", "2"], "--beam-width with --n: that draws nothing"),
        (["--beam-width", "3", "--temperature", "1"], "--beam-width with --temperature: "),
        (["--beam-width", "3", "--stop", "a"], "--beam-width with --stop: "),
        (["--length-penalty", "1"], "--length-penalty without --beam-width"),
        (["--beam-width", "0"], "beam_width=0: must be a whole number, 1 or more"),
        (["--beam-width", "2.5"], "'2.5' must be a whole number"),
        (["--beam-width", "2", "--length-penalty", "nan"], "length_penalty=nan: must be a number from -32 to 32"),
        (["--beam-width", "2", "--max-tokens", "0"], "max_tokens=0"),
        (["--n", "0"], "n=0: must be a whole number, 1 or more"),
        (["--n", "2", "--temperature", "0"], "n=2 with temperature=0"),
        (["--beam-width", "1025"], "beam_width=1025: at most 1024, the size of the vocabulary"),
        (["--beam-width", "65"], "beam_width=65: at most max_num_seqs=64"),
        (["--n", "65"], "n=65: at most max_num_seqs=64"),
        (["--beam-width", "9", "--num-blocks", "2", "--max-tokens", "60"], "the request can never fit"),
        (["--dense", "--beam-width", "2"], "--dense with --beam-width 2"),
        (["--dense", "--n", "2"], "--dense with --n 2"),
    ],
)
def test_wrong_options_are_one_line_and_status_2(generated, args, says):
    status, out, err = generated("--prompt", "O", *args)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("minipaged: ") and says in err
