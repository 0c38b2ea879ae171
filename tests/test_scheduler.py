"""The scheduler without a model: who continues, who yields, who enters. Names like test_e2 are fixed scenarios."""

import random
import subprocess
import sys

import pytest
from harness import Drive, check_scheduler, request, scheduler, some_slow

from minipaged.events import (
    Admitted,
    Arrived,
    BlocksTaken,
    KeptWaiting,
    Preempted,
    PrefixHit,
    Refused,
    Sampled,
    Scheduled,
)
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams, Status


def names(requests):
    return [request.request_id for request in requests]


def test_memory_and_scheduler_import_no_torch():
    modules = "minipaged.events, minipaged.memory.paged, minipaged.memory.check, minipaged.serving.scheduler"
    code = f"import {modules}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_e2_a_long_prompt_is_cut_by_the_budget_and_samples_after_its_last_chunk():
    made = scheduler(100, 16, max_num_seqs=4, max_num_batched_tokens=50)
    made.add(request("A", 80))
    drive = Drive(made)
    sequence = made.waiting[0].sequences[0]
    assert drive.step() == {"A": 50}
    assert sequence.num_tokens == 80
    assert drive.step() == {"A": 30}
    assert sequence.num_tokens == 81
    assert [drive.step() for _ in range(3)] == [{"A": 1}] * 3
    assert sequence.num_tokens == 84


def test_e3_the_budget_keeps_the_third_prompt_waiting():
    made = scheduler(100, 16, max_num_seqs=8, max_num_batched_tokens=100)
    for name in "ABC":
        made.add(request(name, 50))
    assert Drive(made).step() == {"A": 50, "B": 50}
    assert (names(made.running), names(made.waiting)) == (["A", "B"], ["C"])
    assert KeptWaiting("C", "budget", 0, 100 - 8) in made.log


def test_running_sequences_get_their_token_before_a_prompt_gets_its_chunk():
    made = scheduler(100, 4, max_num_seqs=4, max_num_batched_tokens=10)
    made.add(request("A", 3))
    drive = Drive(made)
    assert drive.step() == {"A": 3}
    made.add(request("B", 20))
    made.add(request("C", 20))
    assert drive.step() == {"A": 1, "B": 9}
    assert drive.step() == {"A": 1, "B": 9}
    assert drive.step() == {"A": 1, "B": 2, "C": 7}
    assert drive.step() == {"A": 1, "B": 1, "C": 8}


def test_no_prompt_starves_a_running_sequence():
    """A prompt that fills the budget arrives in every step; whoever has caught up still gets a token in every step."""
    made = scheduler(1_000, 4, max_num_seqs=64, max_num_batched_tokens=64)
    drive = Drive(made)
    caught_up = set()
    for step in range(40):
        made.add(request(f"R{step}", 64))
        computed = drive.step()
        assert caught_up <= set(computed)
        caught_up |= {r.request_id for r in made.running if r.sequences[0].num_tokens > r.num_prompt_tokens}
    assert len(caught_up) > 20


def test_e6_the_newest_yields_and_nobody_enters_in_that_step():
    made = scheduler(4, 4, max_num_seqs=8)
    for name in "AB":
        made.add(request(name, 8, max_tokens=6))
    drive = Drive(made)
    drive.step()
    made.add(request("C", 1, max_tokens=2))
    assert names(made.running) == ["A", "B"]
    made.log.clear()
    assert drive.step() == {"A": 1}  # A needs a third block: B, the newest, yields, and nobody enters
    assert (names(made.running), names(made.waiting)) == (["A"], ["B", "C"])
    assert made.waiting[0].status is Status.PREEMPTED
    assert Preempted("B", "A", 8, 0) in made.log
    assert KeptWaiting("B", "preemption", 0, 1) in made.log
    assert not any(isinstance(event, Admitted) for event in made.log)
    assert sum(isinstance(event, KeptWaiting) for event in made.log) == 1
    drive.run()
    assert made.memory.allocator.num_free == 4


def test_the_newest_yields_to_itself():
    made = scheduler(5, 4, max_num_seqs=8)
    made.add(request("A", 11, max_tokens=5))
    made.add(request("B", 8, max_tokens=5))
    drive = Drive(made)
    drive.step()
    made.log.clear()
    assert drive.step() == {"A": 1}
    assert Preempted("B", "B", 8, 0) in made.log
    drive.run()


def test_a_preempted_request_computes_everything_again():
    made = scheduler(4, 4)
    for name in "AB":
        made.add(request(name, 8, max_tokens=6))
    drive = Drive(made)
    assert drive.step() == {"A": 8, "B": 8}
    steps = [drive.step() for _ in range(6)]
    assert steps == [{"A": 1}] * 5 + [{"B": 9}]  # B comes back with the token that it had sampled


def test_preempted_at_exactly_one_token_over_a_block():
    made = scheduler(3, 4)
    made.add(request("A", 4, max_tokens=5))
    made.add(request("B", 4, max_tokens=5))
    drive = Drive(made)
    drive.run(limit=20)
    assert Preempted("B", "B", 4, 0) in made.log
    assert made.memory.allocator.num_free == 3


@pytest.mark.parametrize("num_tokens, fits", [(13, True), (14, False), (100, False)])
def test_e8_what_can_never_fit_is_refused_and_the_rest_completes(num_tokens, fits):
    made = scheduler(4, 4)
    huge = request("A", num_tokens, max_tokens=4)
    if fits:
        made.add(huge)
    else:
        with pytest.raises(ValueError, match=rf"can never fit.*{num_tokens}.*max_tokens=4.* the pool has 4"):
            made.add(huge)
        assert any(isinstance(event, Refused) for event in made.log)
        assert not made.waiting
    made.add(request("B", 5, max_tokens=4))
    Drive(made).run(limit=30)
    assert made.memory.allocator.num_free == 4


def test_e10_the_head_of_the_queue_blocks_and_is_not_forgotten():
    made = scheduler(5, 4)
    made.add(request("A", 5, max_tokens=4))
    drive = Drive(made)
    drive.step()
    made.add(request("B", 17, max_tokens=4))
    made.add(request("C", 1, max_tokens=1))
    while made.running[0].request_id == "A":
        assert names(made.waiting) == ["B", "C"]
        made.log.clear()
        drive.step()
        if not made.running:
            break
        assert KeptWaiting("B", "blocks", 5, 3) in made.log
    assert drive.step() == {"B": 17}
    assert drive.run(limit=10) > 0
    assert made.memory.allocator.num_free == 5


def aborted_in(state):
    """A scheduler of six blocks of four with request X in that state."""
    made = scheduler(6, 4, max_num_seqs=4, max_num_batched_tokens=8)
    drive = Drive(made)
    if state in ("waiting", "preempted"):
        made.add(request("A", 8, max_tokens=12))
        drive.step()
    made.add(request("X", 16 if state in ("waiting", "mid-prefill") else 8, max_tokens=4))
    x = made.waiting[-1]
    if state == "preempted":
        while x.status is not Status.PREEMPTED:
            drive.step()
    elif state != "waiting":
        drive.step()
    if state == "decoding":
        drive.step()
    return made, drive, x


@pytest.mark.parametrize("state", ["waiting", "mid-prefill", "decoding", "preempted"])
def test_e16_an_abort_gives_back_exactly_what_the_request_held(state):
    made, drive, x = aborted_in(state)
    sequence = x.sequences[0]
    assert (state == "mid-prefill") == (0 < sequence.num_computed_tokens < x.num_prompt_tokens)
    assert (state == "decoding") == (sequence.num_computed_tokens >= x.num_prompt_tokens)
    held = -(-sequence.num_computed_tokens // 4)
    before = made.memory.allocator.num_free
    made.abort(x)
    check_scheduler(made)
    assert made.memory.allocator.num_free == before + held
    assert x.status is Status.FINISHED
    drive.run(limit=40)
    assert made.memory.allocator.num_free == 6


def test_what_is_finished_has_nothing_computed():
    made = scheduler(8, 4)
    for name, max_tokens in (("A", 2), ("B", 20)):
        made.add(request(name, 5, max_tokens))
    a, b = made.waiting
    drive = Drive(made)
    drive.step()
    drive.step()
    made.abort(b)
    for each in (a, b):
        assert (each.status, each.sequences[0].num_computed_tokens) == (Status.FINISHED, 0)


def test_the_events_of_a_first_step():
    made = scheduler(8, 4, max_num_seqs=1)
    for name in "AB":
        made.add(request(name, 5, 6))
    Drive(made).step()
    assert made.log == [
        Arrived("A", 5, 6),
        Arrived("B", 5, 6),
        Admitted("A", 5, 0, 2, 8),
        BlocksTaken("A", 0, False, (0, 1), 6),
        Scheduled("A", 0, 5, 5, 5),
        KeptWaiting("B", "max_num_seqs", 0, 6),
        Sampled("A", 7, 5),
    ]


def test_e17_never_more_than_max_num_seqs():
    made = scheduler(100, 4, max_num_seqs=2)
    for name, max_tokens in zip("ABCD", (3, 6, 2, 2)):
        made.add(request(name, 4, max_tokens))
    drive = Drive(made)
    ran = [list(drive.step()) for _ in range(7)]
    assert ran == [["A", "B"]] * 3 + [["B", "C"]] * 2 + [["B", "D"], ["D"]]
    assert not made.running


@pytest.mark.parametrize("block_size", [1, 2, 4, 16])
@pytest.mark.parametrize("num_blocks_of_prompt", [1, 2, 3])
def test_e18_a_single_token_needs_no_slot_of_its_own(block_size, num_blocks_of_prompt):
    made = scheduler(num_blocks_of_prompt, block_size, max_num_batched_tokens=64)
    made.add(request("A", block_size * num_blocks_of_prompt, max_tokens=1))
    assert Drive(made).step() == {"A": block_size * num_blocks_of_prompt}
    assert not made.running
    assert made.memory.allocator.num_free == num_blocks_of_prompt


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_num_seqs": 0}, "max_num_seqs=0"),
        ({"max_num_seqs": 8, "max_num_batched_tokens": 7}, "max_num_batched_tokens=7.*max_num_seqs=8"),
        ({"max_num_seqs": 1, "max_num_batched_tokens": 0}, "max_num_batched_tokens=0"),
        ({"max_num_seqs": 2.5}, "max_num_seqs=2.5"),
        ({"max_num_seqs": float("nan")}, "max_num_seqs=nan"),
        ({"max_num_seqs": 4, "max_num_batched_tokens": 20.5}, "max_num_batched_tokens=20.5"),
        ({"preemption": "swap"}, "preemption='swap'.*num_host_blocks=0"),
        ({"preemption": "drop"}, "preemption='drop': must be one of recompute, swap"),
        ({"watermark": 1}, "watermark=1: must be a number from 0 to below 1"),
        ({"watermark": -0.01}, "watermark=-0.01"),
        ({"watermark": float("nan")}, "watermark=nan"),
        ({"watermark": "5%"}, "watermark='5%'"),
    ],
)
def test_a_scheduler_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        Scheduler(scheduler(4, 4).memory, **options)


def test_no_request_goes_back_and_forth():
    """Two requests that don't fit together: the newer yields once, and returns only when all that it has fits."""
    made = scheduler(21, 4)
    made.add(request("A", 11, max_tokens=40))
    made.add(request("B", 27, max_tokens=26))
    Drive(made).run(limit=200)
    assert sum(isinstance(event, Preempted) for event in made.log) == 1


def test_e12_who_comes_back_hits_its_own_blocks():
    """Tokens scheduled after its return: all that it has, less those that are found; slices stay in range."""
    made = scheduler(21, 4, prefix_caching=True)
    made.add(request("A", 11, max_tokens=40))
    made.add(Request("B", None, list(range(100, 127)), SamplingParams(), 26, seed=0))
    b, drive = made.waiting[1], Drive(made)
    while b.status is not Status.PREEMPTED:
        drive.step()
    [sequence] = b.sequences
    num_tokens = sequence.num_tokens
    while b.status is not Status.RUNNING:
        made.log.clear()
        drive.step()
    [hit] = [event for event in made.log if isinstance(event, PrefixHit)]
    [row] = [event for event in made.log if isinstance(event, Scheduled) and event.sequence == "B"]
    assert 0 < hit.num_tokens < num_tokens
    assert (row.start, row.num_tokens, row.total) == (hit.num_tokens, num_tokens - hit.num_tokens, num_tokens)
    assert b.timeline.num_recomputed_tokens == num_tokens - 1 - hit.num_tokens
    assert b.num_cached_tokens == 0  # when it first came; what it finds now is its own work
    drive.run(limit=100)
    assert sequence.num_output_tokens == 26


def test_what_this_very_step_computes_is_no_hit_yet():
    made = scheduler(20, 4, prefix_caching=True)
    for name in "AB":
        made.add(request(name, 9, max_tokens=3))
    drive = Drive(made)
    assert drive.step() == {"A": 9, "B": 9}
    made.add(request("C", 9, max_tokens=3))
    assert drive.step() == {"A": 1, "B": 1, "C": 1}


def test_cached_tokens_cost_no_budget():
    """Three prompts of 17 tokens in a budget of 8: of two of them 16 are found, and so both enter at once."""
    made = scheduler(20, 4, max_num_seqs=4, max_num_batched_tokens=8, prefix_caching=True)
    made.add(request("A", 17, max_tokens=9))
    drive = Drive(made)
    assert [drive.step() for _ in range(3)] == [{"A": 8}, {"A": 8}, {"A": 1}]
    for name in "BC":
        made.add(request(name, 17, max_tokens=9))
    assert drive.step() == {"A": 1, "B": 1, "C": 1}


def test_a_watermark_keeps_blocks_free_for_those_that_run():
    made = scheduler(10, 4, watermark=0.25)  # 3 blocks
    made.add(request("A", 8, max_tokens=8))
    made.add(request("B", 24, max_tokens=4))
    drive = Drive(made)
    assert drive.step() == {"A": 8}  # 8 are free, B needs 6, and 3 are to stay
    assert KeptWaiting("B", "blocks", 6, 8) in made.log
    while "A" in names(made.running):
        drive.step()
    assert drive.step() == {"B": 24}
    alone = scheduler(10, 4, watermark=0.99)
    alone.add(request("A", 38, max_tokens=2))
    assert Drive(alone).step() == {"A": 38}  # nobody runs whom it could hinder


def test_timelines_say_when_what_happened():
    seconds = iter(range(1_000))
    made = scheduler(21, 4)
    made.clock = lambda: next(seconds)
    made.add(request("A", 11, max_tokens=40))
    made.add(request("B", 27, max_tokens=26))
    requests = list(made.waiting)
    Drive(made).run(limit=200)
    for each in requests:
        times, [sequence] = each.timeline, each.sequences
        assert times.arrival < times.first_scheduled < sequence.token_times[0]
        assert sequence.token_times == sorted(set(sequence.token_times))
        assert len(sequence.token_times) == sequence.num_output_tokens
        assert sequence.token_times[-1] < times.finish
    [yielded] = [event for event in made.log if isinstance(event, Preempted)]
    assert [each.timeline.num_preemptions for each in requests] == [0, 1]
    assert [each.timeline.num_recomputed_tokens for each in requests] == [0, yielded.num_computed_tokens]


@pytest.mark.parametrize("num_host_blocks, watermark", [(0, 0), (5, 0), (100, 0.2)])
@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("seed", some_slow(range(60), range(3, 60)))
def test_random_requests_all_finish_and_leave_nothing_behind(seed, most, num_host_blocks, watermark):
    """Arrivals over time, aborts in any state, refusals; every invariant after every step (Drive checks). most: the
    most sequences that a request has."""
    rng = random.Random(seed)
    block_size, num_blocks = rng.choice([1, 2, 3, 4, 16]), rng.randint(2, 24)
    max_num_seqs = rng.randint(1, 6)
    budget = max_num_seqs + rng.randint(0, 20)
    host = {"num_host_blocks": num_host_blocks, "watermark": watermark}
    made = scheduler(num_blocks, block_size, max_num_seqs, budget, **host)
    drive = Drive(made, stops=lambda sequence: rng.random() < 0.04)
    wanted = []
    for step in range(400):
        if step < 60 and rng.random() < 0.4:
            n = rng.randint(1, min(most, max_num_seqs))
            fresh = request(f"R{step}", rng.randint(1, 40), rng.randint(1, 20), n)
            before = made.memory.allocator.num_free
            try:
                made.add(fresh)
                wanted.append(fresh)
            except ValueError:
                assert (made.memory.allocator.num_free, fresh in made.waiting) == (before, False)
        not_done = [r for r in wanted if r.status is not Status.FINISHED]
        if not_done and rng.random() < 0.05:
            made.abort(rng.choice(not_done))
        entered = set(names(made.running))
        made.log.clear()
        drive.step()
        if any(isinstance(event, Preempted) for event in made.log):
            assert set(names(made.running)) <= entered
        # First come, first served: running and then waiting stand in the order of arrival.
        arrived = [int(name[1:]) for name in names(made.running) + names(made.waiting)]
        assert arrived == sorted(arrived)
    drive.run()
    for r in wanted:
        for sequence in r.sequences:
            assert sequence.finish_reason in ("abort", "stop") or sequence.num_output_tokens == r.max_tokens
        if not any(sequence.finish_reason == "abort" for sequence in r.sequences):
            assert len(r.sequences) == r.num_sequences
    assert made.memory.allocator.num_free == num_blocks
    assert made.memory.usage().allocated_slots == 0
