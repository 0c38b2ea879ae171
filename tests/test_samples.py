"""Parallel sampling: several answers to one prompt, through the engine and the LLM around it."""

import itertools
from dataclasses import replace

import pytest

from minipaged.events import BlockCopied, Forked, Preempted, Refused


@pytest.fixture(scope="module")
def llm():
    from minipaged import LLM

    return LLM(block_size=4, num_blocks=96, dtype="float64")


def params(**options):
    from minipaged import SamplingParams

    return SamplingParams(**{"n": 4, "seed": 3, "max_tokens": 8, **options})


def checked(num_blocks=40, block_size=4, **options):
    from oracle import CheckedEngine, random_model

    return CheckedEngine(random_model(), num_blocks, block_size, **options)


def tokens(output):
    return [each.token_ids for each in output.outputs]


def test_four_answers_in_order_of_their_index(llm):
    [output] = llm.generate("KING:\nWhat", params())
    assert output.finished and output.prompt == "KING:\nWhat"
    assert [each.index for each in output.outputs] == [0, 1, 2, 3]
    assert len({tuple(each) for each in tokens(output)}) == 4
    for each in output.outputs:
        assert (len(each.token_ids), each.finish_reason) == (8, "length")
        assert each.text == llm.engine.tokenizer.decode(each.token_ids)
    assert llm.engine.memory.allocator.num_free == 96


def test_the_prompt_is_computed_once():
    engine = checked()
    engine.add([1] * 10, params(max_tokens=5))
    computed = []
    while engine.has_unfinished():
        computed += [row.num_tokens for row in engine.step().plan.rows]
    assert sum(computed) == 10 + 4 * 4
    assert sum(isinstance(event, Forked) for event in engine.events) == 3
    assert sum(isinstance(event, BlockCopied) for event in engine.events) == 3
    engine.demand_equals_dense()


def test_the_first_sample_is_what_a_request_for_one_answer_gets(llm):
    [several], [one] = llm.generate("KING:\nWhat", params()), llm.generate("KING:\nWhat", params(n=1))
    first, alone = several.outputs[0], one.outputs[0]
    # A sum of floats: a matrix of one row may be multiplied in another order than one of four.
    assert first.cumulative_logprob == pytest.approx(alone.cumulative_logprob, rel=1e-12)
    assert replace(first, cumulative_logprob=alone.cumulative_logprob) == alone
    for n in (2, 3):
        assert tokens(llm.generate("KING:\nWhat", params(n=n))[0]) == tokens(several)[:n]


def test_samples_repeat_with_their_seed_and_differ_without(llm):
    outputs = llm.generate(["O"] * 2, params()) + llm.generate(["O"] * 2, params(seed=None))
    assert tokens(outputs[0]) == tokens(outputs[1])
    unseeded = tokens(outputs[2]) + tokens(outputs[3])
    assert len({tuple(each) for each in unseeded}) == 8


def test_pressure_never_shows_in_the_samples():
    """The same requests in pools from ample to just enough, and with somebody yielding by force every other step."""
    seen, preempted = [], []
    for num_blocks, force in ((90, 0), (14, 0), (11, 0), (90, 2), (14, 3)):
        engine = checked(num_blocks, max_num_seqs=10)
        for i in range(4):
            engine.add([i + 1] * (5 + i), params(n=1 + i, seed=i, max_tokens=9), request_id="abcd"[i])
        outputs = {}
        for step in itertools.count(1):
            outputs.update((each.request_id, tokens(each)) for each in engine.step().outputs)
            if not engine.has_unfinished():
                break
            if force and step % force == 0 and step < 40:
                engine.force_preemption()
        engine.demand_equals_dense()
        seen.append(outputs)
        preempted.append(sum(isinstance(event, Preempted) for event in engine.events))
    assert all(each == seen[0] for each in seen)
    assert preempted[0] == 0 < min(preempted[1:])


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize("attention", ["batched", "reference"])
def test_samples_equal_dense_for_any_block_size(block_size, attention):
    from oracle import CheckedEngine, random_model

    engine = CheckedEngine(random_model(attention), -(-70 // block_size) + 4, block_size)
    engine.add(list(range(11)), params(n=3, temperature=1.2, max_tokens=12))
    engine.add(list(range(40, 48)), params(n=2, temperature=0.7, max_tokens=10))
    while engine.has_unfinished():
        engine.step()
    engine.demand_equals_dense()
    assert engine.memory.usage().allocated_slots == 0


def test_the_log_probabilities_of_each_sample(llm):
    import torch

    [output] = llm.generate("KING:\nWhat", params(n=3, temperature=1.5, logprobs=2))
    for each in output.outputs:
        ids = output.prompt_token_ids + each.token_ids
        dense = llm.engine.model.dense(torch.tensor([ids]))[0].log_softmax(dim=-1)[len(output.prompt_token_ids) - 1 :]
        assert len(each.logprobs) == 8
        for token, row, told in zip(each.token_ids, dense, each.logprobs):
            assert set(told) == {token, *row.argsort(descending=True)[:2].tolist()}
            assert told[token].logprob == pytest.approx(row[token].item(), abs=1e-9)
        own = sum(told[token].logprob for token, told in zip(each.token_ids, each.logprobs))
        assert each.cumulative_logprob == pytest.approx(own, abs=1e-9)


def test_samples_stop_each_for_itself(llm):
    [whole] = llm.generate("KING:\nWhat", params(max_tokens=30))
    stop = whole.outputs[1].text[5:9]
    [output] = llm.generate("KING:\nWhat", params(max_tokens=30, stop=stop))
    for full, each in zip(whole.outputs, output.outputs):
        assert each.text == full.text.partition(stop)[0]
        assert each.finish_reason == ("stop" if stop in full.text else "length")
        assert each.token_ids == full.token_ids[: len(each.token_ids)]
    assert {each.finish_reason for each in output.outputs} == {"stop", "length"}


def test_the_end_of_text_ends_one_sample():
    class Tokenizer:
        eos_token_id = None

        def decode(self, token_ids):
            return ""

    outputs, tokenizer = [], Tokenizer()
    for _ in range(2):
        engine = checked(tokenizer=tokenizer)
        engine.add([3, 1, 4], params())
        while engine.has_unfinished():
            [output] = engine.step().outputs
        engine.demand_equals_dense()
        outputs.append(tokens(output))
        tokenizer.eos_token_id = outputs[0][1][2]  # the third token of the second sample
    for full, each in zip(*outputs):
        end = tokenizer.eos_token_id
        assert each == (full[: full.index(end) + 1] if end in full else full)
    assert [len(each) for each in outputs[1]].count(8) >= 2


def test_one_token_each():
    engine = checked(num_blocks=3)
    engine.add([1] * 12, params(max_tokens=1))
    [output] = engine.step().outputs
    assert output.finished and [len(each) for each in tokens(output)] == [1, 1, 1, 1]
    assert not engine.has_unfinished() and engine.memory.allocator.num_free == 3
    assert not any(isinstance(event, Forked) for event in engine.events)
    engine.demand_equals_dense()


def test_a_stream_shows_all_samples_as_they_grow(llm):
    for seen, last in enumerate(llm.stream(["KING:\nWhat"], params()), start=1):
        assert [len(each) for each in tokens(last)] == [seen] * 4
        assert last.finished == (seen == 8)
    assert tokens(last) == tokens(llm.generate("KING:\nWhat", params())[0])


def test_a_step_gives_one_output_for_a_group():
    engine = checked()
    engine.add([1, 2, 3], params(), request_id="A")
    engine.add([4, 5], params(n=1), request_id="B")
    for _ in range(3):
        assert [each.request_id for each in engine.step().outputs] == ["A", "B"]


def test_an_abort_takes_the_whole_group():
    engine = checked()
    engine.add([1] * 6, params(max_tokens=20), request_id="A")
    request = engine.scheduler.waiting[0]
    for _ in range(4):
        engine.step()
    assert engine.abort("A") and not engine.abort("A")
    assert engine.memory.allocator.num_free == 40
    assert [each.finish_reason for each in request.sequences] == ["abort"] * 4
    assert not engine.has_unfinished()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n": 0}, "n=0: must be a whole number, 1 or more"),
        ({"n": -1}, "n=-1"),
        ({"n": 1.5}, r"n=1\.5"),
        ({"n": True}, "n=True"),
        ({"n": "2"}, "n='2'"),
        ({"n": 2, "temperature": 0}, "n=2 with temperature=0: greedy answers would all be the same, so n must be 1"),
    ],
)
def test_wrong_numbers_of_answers_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        params(**options)
    assert params(n=1, temperature=0).n == 1


def test_more_answers_than_may_run_together_are_refused(llm):
    with pytest.raises(ValueError, match=r"^prompt 1: n=65: at most max_num_seqs=64"):
        llm.generate(["O", "O"], [params(), params(n=65)])
    with pytest.raises(ValueError, match=r"never fit.*max_tokens=300 for each of n=60 answers need .* the pool has 96"):
        llm.generate("O", params(n=60, max_tokens=300))
    engine = checked(max_num_seqs=3)
    for n in (4, 10**9):
        with pytest.raises(ValueError, match=f"n={n}: at most max_num_seqs=3"):
            engine.add([1, 2], params(n=n), request_id="X")
    assert engine.step().events == [Refused("X", 2, 8, "max_num_seqs", n, 3) for n in (4, 10**9)]
    assert not engine.has_unfinished()


def test_a_groups_sequences_have_names_of_their_own():
    """A.1, A.2, ...: nobody else may be called so, and no group may come to need a name that is taken."""
    engine = checked(max_num_seqs=6)
    engine.add([1], params(n=3), request_id="A")
    for taken in ("A.1", "A.3", "A"):
        with pytest.raises(ValueError, match=rf"request_id='{taken}' is in use by an unfinished request$"):
            engine.add([1], params(n=1), request_id=taken)
    for free in ("A.4", "A.01", "A.", ".1", "A.1.1"):
        assert engine.add([1], params(n=1), request_id=free) == free
    engine.add([1], params(n=1), request_id="B.2")
    with pytest.raises(
        ValueError, match=r"request_id='B' is in use .*: 'B.2', as one of its sequences would be called"
    ):
        engine.add([1], params(n=2), request_id="B")
    assert engine.add([1], params(n=1), request_id="B") == "B"
    engine.add([1], params(n=1), request_id="0.2")
    assert engine.add([1], params(n=2)) == "1"  # not 0, whose second sequence would be 0.2
    assert engine.add([1], params(n=1)) == "2"
    engine.step()
    assert engine.memory.sequences()[0] == "A.1"
    while engine.has_unfinished():
        engine.step()
    assert engine.add([1], params(n=1), request_id="A.1") == "A.1"
    engine.step()


def test_the_visualizer_shows_groups_and_replays_them(tmp_path):
    from visualize.recording import Replay, record
    from visualize.view import view

    engine, path = checked(num_blocks=24, max_num_seqs=6), tmp_path / "run.jsonl"
    engine.add([5] * 6, params(n=3, max_tokens=9), request_id="A")
    engine.add([6] * 3, params(n=1, max_tokens=3), request_id="B")
    with record(engine, path):
        for step in itertools.count():
            engine.step()
            if step == 5:
                engine.force_preemption()
            if not engine.has_unfinished():
                break
    replay = Replay(path)
    snapshots = list(replay.snapshots())
    assert replay.damage is None and len(snapshots) == step + 2
    kinds = {event.kind for each in snapshots for event in each.events}
    assert {"Forked", "BlockCopied", "Preempted"} <= kinds
    assert [(seq.name, seq.request, seq.index) for seq in snapshots[-1].sequences] == [
        ("A.1", "A", 0),
        ("B", "B", 0),
        ("A.2", "A", 1),
        ("A.3", "A", 2),
    ]
    for before, now in zip([None, *snapshots], snapshots):
        for size in ((140, 40), (80, 24)):
            assert len(view(now, before, *size).plain.split("\n")) == size[1]
        if now.step == 1:
            assert [block.owners for block in now.blocks[:2]] == [("A.1", "A.2", "A.3")] * 2
            assert [block.ref_count for block in now.blocks[:2]] == [3, 3]
