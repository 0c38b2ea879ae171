"""Requests with several sequences, in the scheduler without a model: admitted, granted, preempted and resumed whole.

Names like test_e16 are fixed scenarios.
"""

import random

import pytest
from harness import Drive, check_scheduler, force_preemption, request, scheduler

from minipaged.events import (
    Admitted,
    Arrived,
    BlockCopied,
    BlocksReleased,
    BlocksTaken,
    Finished,
    Forked,
    KeptWaiting,
    Preempted,
    Refused,
    Sampled,
    Scheduled,
    SwappedIn,
)
from minipaged.serving.plan import Continuation
from minipaged.serving.sequence import Status


def names(requests):
    return [request.request_id for request in requests]


def kinds(log, *wanted):
    return [event for event in log if isinstance(event, wanted)]


def used(made):
    return made.memory.num_blocks - made.memory.allocator.num_free


def with_group(num_blocks, num_prompt_tokens, n=4, max_tokens=6, block_size=4, **options):
    made = scheduler(num_blocks, block_size, **options)
    made.add(request("A", num_prompt_tokens, max_tokens, n))
    return made, Drive(made), made.waiting[0]


def test_the_prompt_is_computed_once_and_forked_where_the_samples_begin():
    """D6 through the scheduler: 10 tokens in 3 blocks, then 3 copies and 6 blocks."""
    made, drive, group = with_group(8, 10, max_tokens=3)
    assert drive.step() == {"A.1": 10}
    assert made.log == [
        Arrived("A", 10, 3),
        Admitted("A", 10, 0, 3, 8),
        BlocksTaken("A.1", 0, False, (0, 1, 2), 5),
        Scheduled("A.1", 0, 10, 10, 10),
        *[Forked("A.1", f"A.{i}", 3, 5) for i in (2, 3, 4)],
        *[Sampled(f"A.{i}", 7, 10) for i in (1, 2, 3, 4)],
    ]
    assert [(each.name, each.index, each.num_tokens) for each in group.sequences] == [
        ("A.1", 0, 11),
        ("A.2", 1, 11),
        ("A.3", 2, 11),
        ("A.4", 3, 11),
    ]
    assert (used(made), made.memory.usage().saved_blocks) == (3, 9)
    made.log.clear()
    assert drive.step() == {"A.1": 1, "A.2": 1, "A.3": 1, "A.4": 1}
    assert kinds(made.log, BlockCopied) == [BlockCopied(f"A.{i}", 2, 2, 2 + i, 5 - i, 5 - i) for i in (1, 2, 3)]
    assert used(made) == 6
    drive.run()
    assert used(made) == 0


def test_a_prompt_that_fills_its_blocks_is_never_copied():
    made, drive, _ = with_group(14, 8)
    drive.step()
    drive.step()
    assert used(made) == 6
    drive.run()
    assert not kinds(made.log, BlockCopied)


@pytest.mark.parametrize("num_tokens", [1, 7, 8])
def test_a_single_token_for_each_forks_nothing(num_tokens):
    """They all share the prompt, in a pool that holds no more than that."""
    made, drive, group = with_group(-(-num_tokens // 4), num_tokens, max_tokens=1)
    assert drive.step() == {"A.1": num_tokens}
    assert not kinds(made.log, Forked, BlockCopied)
    assert [event.sequence for event in kinds(made.log, Sampled)] == ["A.1", "A.2", "A.3", "A.4"]
    assert [each.num_output_tokens for each in group.sequences] == [1, 1, 1, 1]
    assert (group.status, used(made)) == (Status.FINISHED, 0)


def test_who_ends_with_the_first_token_is_not_forked():
    made = scheduler(8, 4)
    made.add(request("A", 6, 5, n=3))
    plan = made.schedule()
    [first] = plan.due
    reasons = [("stop", None), ("stop", None), (None, None)]
    made.commit(plan, [Continuation(first, token, 0.0) for token in (1, 2, 3)], reasons)
    check_scheduler(made, made.log.shadow)
    assert kinds(made.log, Forked, BlocksReleased) == [Forked("A.1", "A.3", 2, 6), BlocksReleased("A.1", (), 6)]
    assert [each.finish_reason for each in made.running[0].sequences] == ["stop", "stop", None]
    assert Drive(made).step() == {"A.3": 1}


def test_a_group_in_the_middle_of_its_prompt_is_one_sequence():
    made, drive, _ = with_group(30, 20, max_num_seqs=4, max_num_batched_tokens=8)
    chunks = [{"A.1": 8}, {"A.1": 8}, {"A.1": 4}]
    assert [drive.step() for _ in range(3)] == chunks
    assert drive.step() == {f"A.{i}": 1 for i in (1, 2, 3, 4)}
    force_preemption(made)
    assert [drive.step() for _ in range(3)] == chunks  # also when it comes back: the others are forked at the end
    assert drive.step() == {"A.1": 2, "A.2": 2, "A.3": 2, "A.4": 2}


def test_a_group_that_comes_back_hits_its_prompt_and_nothing_behind_it():
    """What A.1 generated is cached as well, but that is no beginning for A.2."""
    made, drive, group = with_group(20, 4, n=2, max_tokens=9, block_size=2, prefix_caching=True)
    while group.sequences[0].num_tokens < 9:
        drive.step()
    force_preemption(made)
    assert made.memory.lookup(group.sequences[0].token_ids) == 8
    assert [drive.step() for _ in range(2)] == [{"A.1": 2}, {"A.1": 5, "A.2": 5}]
    drive.run()
    assert [each.num_output_tokens for each in group.sequences] == [9, 9]


def test_who_is_finished_gives_back_at_once_and_the_others_go_on():
    made, drive, group = with_group(13, 6, max_tokens=9)
    drive.step()
    drive.step()
    before = used(made)
    drive.stops = lambda sequence: sequence.name in ("A.1", "A.3")
    made.log.clear()
    drive.step()
    assert kinds(made.log, Finished) == [Finished("A.1", "stop", 3), Finished("A.3", "stop", 3)]
    assert [event.freed for event in kinds(made.log, BlocksReleased)] == [(2,), (4,)]
    assert used(made) == before - 2
    assert (group.status, len(made.running)) == (Status.RUNNING, 1)
    drive.stops = lambda sequence: False
    assert drive.step() == {"A.2": 1, "A.4": 1}
    drive.run()
    assert [each.num_output_tokens for each in group.sequences] == [3, 9, 3, 9]
    assert used(made) == 0


def test_e17_a_group_counts_n_from_admission_to_its_end():
    made = scheduler(100, 4, max_num_seqs=4)
    for name, n, max_tokens in (("A", 3, 3), ("B", 2, 4), ("C", 1, 2)):
        made.add(request(name, 4, max_tokens, n))
    drive = Drive(made, stops=lambda sequence: sequence.name == "A.1" and sequence.num_output_tokens)
    ran = [sorted(drive.step()) for _ in range(6)]
    # A.1 is finished after the second step and its place stays taken; nobody overtakes B.
    three = ["A.1", "A.2", "A.3"]
    assert ran == [["A.1"], three, ["A.2", "A.3"], ["B.1", "C"], ["B.1", "B.2", "C"], ["B.1", "B.2"]]
    assert KeptWaiting("B", "max_num_seqs", 0, 99) in made.log


def preempted(max_tokens=9):
    """A takes what it needs, so that group B, the newest, has to yield with 3 tokens of its own each."""
    made = scheduler(11, 4, max_num_seqs=5)
    made.add(request("A", 11, 20))
    made.add(request("B", 6, max_tokens, n=3))
    drive = Drive(made)
    group = made.waiting[1]
    while group.status is not Status.PREEMPTED:
        made.log.clear()
        drive.step()
    return made, drive, group


def test_a_group_yields_whole_and_comes_back_whole():
    made, drive, group = preempted()
    lengths = [each.num_tokens for each in group.sequences]
    own = lengths[0] - 6
    assert lengths == [6 + own] * 3 and own > 2
    [fact] = kinds(made.log, Preempted)
    assert (fact.request, fact.needed_by, fact.num_computed_tokens) == ("B", "A", 6 + 3 * (own - 1))
    assert [event.sequence for event in kinds(made.log, BlocksReleased)] == ["B.1", "B.2", "B.3"]
    while group.status is Status.PREEMPTED:
        made.log.clear()
        computed = drive.step()
    # Its prompt first, by one sequence: nothing is sampled there, and the siblings are forked.
    assert computed["B.1"] == 6 and "B.2" not in computed
    [entry] = kinds(made.log, Admitted)
    assert (entry.num_tokens, entry.blocks_needed) == (6 + 3 * own, 1 + 3 * (-(-(6 + own) // 4) - 1))
    assert kinds(made.log, Forked) == [Forked("B.1", f"B.{i}", 2, made.memory.allocator.num_free) for i in (2, 3)]
    assert not any(event.sequence.startswith("B") for event in kinds(made.log, Sampled))
    assert [each.num_tokens for each in group.sequences] == lengths
    made.log.clear()
    computed = drive.step()  # then everybody's own tokens
    assert [computed[f"B.{i}"] for i in (1, 2, 3)] == [own] * 3
    assert [event.position for event in kinds(made.log, Sampled) if event.sequence.startswith("B")] == [6 + own] * 3
    drive.run()
    assert [each.num_output_tokens for each in group.sequences] == [9, 9, 9]
    assert used(made) == 0


def test_only_the_unfinished_come_back():
    """B.1 is finished when B has to yield: B.2 computes the prompt, and B.3 is forked from it."""
    made, drive, group = preempted()
    group.sequences[0].finish_reason = "stop"
    while group.status is Status.PREEMPTED:
        made.log.clear()
        computed = drive.step()
    assert computed["B.2"] == 6 and "B.1" not in computed and "B.3" not in computed
    assert [(event.parent, event.child) for event in kinds(made.log, Forked)] == [("B.2", "B.3")]
    made, drive, group = preempted()
    for sequence in group.sequences[:2]:
        sequence.finish_reason = "stop"
    while group.status is Status.PREEMPTED:
        made.log.clear()
        computed = drive.step()
    assert computed["B.3"] == group.sequences[2].num_computed_tokens > 6  # the last of them does all in one go
    assert not kinds(made.log, Forked)


def test_the_last_of_a_group_comes_back_only_with_room_for_its_own_tokens():
    """Its prompt is 4 full blocks; with the tokens of its own it needs 5, also where only 4 are free."""
    for num_taken in range(3):
        made, drive, group = with_group(6, 16, max_tokens=5, n=2, max_num_seqs=3)
        while group.sequences[0].num_tokens < 18:
            drive.step()
        made._end(group.sequences[1], "stop")
        force_preemption(made)
        made.memory.allocator.allocate(num_taken)
        made.schedule()
        assert (group.status is Status.RUNNING) == (num_taken < 2)


def test_a_group_swapped_while_it_catches_up_comes_back_with_room_for_all_its_tokens():
    """Two samples of 9 tokens need 1 block for the prompt and 4 each; 4 of these are stored. With fewer free it would
    enter and get nothing."""
    for num_free in range(8, 11):
        made, drive, group = with_group(
            16, 2, n=2, max_tokens=9, block_size=2, max_num_batched_tokens=4, num_host_blocks=9, max_num_seqs=2
        )
        while group.sequences[0].num_tokens < 9:
            drive.step()
        made.swaps = False
        force_preemption(made)
        assert [drive.step() for _ in range(2)] == [{"A.1": 2}, {"A.1": 3, "A.2": 1}]
        made.swaps = True
        assert len(force_preemption(made)) == 4
        made.memory.allocator.allocate(16 - num_free)
        plan = made.schedule()
        assert [row.num_tokens for row in plan.rows] == ([3, 1] if num_free >= 9 else [])
        assert group.status is (Status.RUNNING if num_free >= 9 else Status.SWAPPED)


@pytest.mark.parametrize("own", [1, 2])
def test_preempted_at_exactly_one_token_over_a_block(own):
    """Prompts of a full block, or of one less; each sample has its own token right behind it."""
    made, drive, group = with_group(13, 4 if own == 1 else 3, max_tokens=5, n=3)
    while group.sequences[0].num_tokens < 5 or len(group.sequences) < 3:
        drive.step()
    force_preemption(made)
    check_scheduler(made, made.log.shadow)
    assert used(made) == 0
    assert [each.num_tokens for each in group.sequences] == [5, 5, 5]
    drive.run(limit=12)
    assert [each.num_output_tokens for each in group.sequences] == [5, 5, 5]
    assert used(made) == 0


def test_nobody_enters_behind_a_group_that_has_yet_to_be_forked():
    """Otherwise two requests could be in the middle of their prompts, and the budget might not serve whoever isn't."""
    made, drive, _ = with_group(40, 6, max_num_seqs=8, max_num_batched_tokens=12)
    for _ in range(4):
        drive.step()
    force_preemption(made)
    made.add(request("B", 9, 5))
    made.log.clear()
    assert drive.step() == {"A.1": 6}
    assert kinds(made.log, KeptWaiting) == [KeptWaiting("B", "catching up", 0, 38)]
    assert drive.step() == {"A.1": 4, "A.2": 4, "A.3": 3, "A.4": 1}  # each behind has a token, whatever is left
    assert drive.step() == {"A.1": 1, "A.2": 1, "A.3": 1, "A.4": 3, "B": 6}
    assert names(made.running) == ["A", "B"]


def aborted_in(state):
    """Group X of three in that state, in a pool of 12 blocks of 4."""
    made = scheduler(12, 4, max_num_seqs=4, max_num_batched_tokens=8)
    drive = Drive(made)
    if state in ("waiting", "preempted", "coming back"):
        made.add(request("A", 8, max_tokens=24))
        drive.step()
    made.add(request("X", 16 if state == "mid-prefill" else 6, max_tokens=10 if state != "mid-prefill" else 4, n=3))
    x = made.waiting[-1]
    if state in ("preempted", "coming back"):
        while x.status is not Status.PREEMPTED:
            drive.step()
        while state == "coming back" and x.status is Status.PREEMPTED:
            drive.step()
    elif state != "waiting":
        drive.step()
    for _ in range(2 if state == "decoding" else 0):
        drive.step()
    return made, drive, x


@pytest.mark.parametrize("state", ["waiting", "mid-prefill", "forked", "decoding", "preempted", "coming back"])
def test_e16_an_abort_gives_back_exactly_what_the_group_held(state):
    made, drive, x = aborted_in(state)
    held = {block for each in x.sequences if each.num_computed_tokens for block in made.memory.table(each.name).blocks}
    assert (
        len(held)
        == {"waiting": 0, "mid-prefill": 2, "forked": 2, "decoding": 4, "preempted": 0, "coming back": 2}[state]
    )
    assert (len(x.sequences) == 3) == (state not in ("waiting", "mid-prefill"))
    before = made.memory.allocator.num_free
    made.abort(x)
    check_scheduler(made)
    assert made.memory.allocator.num_free == before + len(held)
    assert (x.status, {each.finish_reason for each in x.sequences}) == (Status.FINISHED, {"abort"})
    drive.run(limit=60)
    assert made.memory.allocator.num_free == 12


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_is_exact(seed):
    """A group as large as the bound says finishes in a pool of just that size, and one block less is a refusal."""
    rng = random.Random(seed)
    for _ in range(5):
        size, num_tokens, n = rng.choice([1, 2, 3, 4, 16]), rng.randint(1, 30), rng.randint(1, 5)
        max_tokens = rng.randint(1, 20)
        full = num_tokens // size
        own = n if max_tokens > 1 else 1
        bound = full + own * (-(-(num_tokens + max_tokens - 1) // size) - full)
        made = scheduler(bound, size, max_num_seqs=n, max_num_batched_tokens=n + rng.randint(0, 20))
        made.add(request("A", num_tokens, max_tokens, n))
        group = made.waiting[0]
        most, drive = 0, Drive(made)
        while made.running or made.waiting:
            drive.step()
            most = max(most, used(made))
        assert not kinds(made.log, Preempted)
        assert [each.num_output_tokens for each in group.sequences] == [max_tokens] * n
        if bound > 1:
            small = scheduler(bound - 1, size, max_num_seqs=n)
            with pytest.raises(ValueError, match="can never fit"):
                small.add(request("A", num_tokens, max_tokens, n))
            assert kinds(small.log, Refused) == [Refused("A", num_tokens, max_tokens, "pool", bound, bound - 1)]
            assert not small.waiting


def test_more_sequences_than_may_run_are_refused():
    made = scheduler(100, 4, max_num_seqs=3)
    with pytest.raises(ValueError, match="n=4: at most max_num_seqs=3"):
        made.add(request("A", 5, 5, n=4))
    assert made.log == [Refused("A", 5, 5, "max_num_seqs", 4, 3)]
    made.add(request("B", 5, 5, n=3))
    Drive(made).run(limit=10)


def test_contiguous_memory_refuses_groups_with_a_word():
    from minipaged.memory.contiguous import ContiguousMemory
    from minipaged.serving.scheduler import Scheduler

    made = Scheduler(ContiguousMemory(16, 4, "oracle", 64), 4)
    with pytest.raises(ValueError, match=r"n=2: .*paged memory only"):
        made.add(request("A", 5, 5, n=2))
    assert not made.waiting


@pytest.mark.parametrize("seed", range(40))
def test_no_group_goes_back_and_forth(seed):
    """It returns only when all that it had fits: under any pressure a request yields a few times, not all the time."""
    rng = random.Random(seed)
    size, max_num_seqs = rng.choice([1, 2, 3, 4]), rng.randint(4, 8)
    made = scheduler(rng.randint(60, 120) // size, size, max_num_seqs, max_num_seqs + rng.randint(0, 30))
    for i in range(6):
        fresh = request(f"R{i}", rng.randint(1, 30), rng.randint(5, 30), rng.randint(1, 4))
        try:
            made.add(fresh)
        except ValueError as error:
            assert "never fit" in str(error)
    Drive(made).run(limit=1000)
    yielded = [event.request for event in kinds(made.log, Preempted)]
    assert max(map(yielded.count, yielded), default=0) <= 4


def beams(made, rng):
    """As a beam search would: of so many due sequences, as many continuations, of any of them."""
    plan = made.schedule()
    continuations = []
    for each in dict.fromkeys(sequence.request for sequence in plan.due):
        due = [sequence for sequence in plan.due if sequence.request is each]
        wanted = each.num_sequences if len(each.sequences) == 1 else len(due)
        parents = sorted((rng.choice(due) for _ in range(wanted)), key=due.index)
        continuations += [Continuation(parent, rng.randrange(9), -1.0, {0: (-1.0, 1)}) for parent in parents]
    reasons = []
    for parent, *_ in continuations:
        is_last = parent.num_output_tokens + 1 == parent.request.max_tokens
        reasons.append(("length", None) if is_last else ("stop", None) if rng.random() < 0.05 else (None, None))
    made.commit(plan, continuations, reasons)
    check_scheduler(made, made.log.shadow)
    return continuations


@pytest.mark.parametrize("seed", range(40))
def test_continuations_of_any_shape(seed):
    """One rule: the first goes on in its parent, each further one is a fork, and who has none gives up its blocks."""
    rng = random.Random(seed)
    made = scheduler(rng.randint(16, 30), rng.choice([2, 3, 4]), max_num_seqs=6, max_num_batched_tokens=20)
    wanted = [request(f"R{i}", rng.randint(1, 9), rng.randint(2, 9), rng.randint(1, 4)) for i in range(5)]
    for each in wanted:
        try:
            made.add(each)
        except ValueError as error:
            assert "never fit" in str(error)
    for _ in range(400):
        if not (made.running or made.waiting):
            break
        lengths = {seq: seq.num_tokens for each in made.running for seq in each.sequences}
        continuations = beams(made, rng)
        for parent in {each.parent for each in continuations}:
            tokens = [each.token for each in continuations if each.parent is parent]
            mine = [seq for seq in parent.request.sequences if seq not in lengths and seq is not parent]
            assert parent.token_ids[-1] == tokens[0]
            forked = [seq.token_ids[-1] for seq in mine if seq.token_ids[:-1] == parent.token_ids[:-1]]
            assert sorted(tokens[1:]) == sorted(forked) or len(mine) > len(tokens) - 1
        live = [seq for each in made.running for seq in each.sequences if seq.finish_reason is None]
        assert len(live) <= 6
    assert not (made.running or made.waiting)
    assert used(made) == 0
    for each in wanted:
        all_names = [sequence.name for sequence in each.sequences]
        assert len(set(all_names)) == len(all_names)
        for sequence in each.sequences:  # a fork begins with what its parent was worth
            assert -sequence.cumulative_logprob == len(sequence.logprobs) == sequence.num_output_tokens


def test_figure_9_of_the_paper_through_commit():
    """Four beams of 4 full blocks; two of them have all continuations. New sequences first, then the losers go."""
    made, drive, group = with_group(40, 4, n=4, max_tokens=30)
    for _ in range(8):
        drive.step()
    before = {each.name: list(made.memory.table(each.name).blocks) for each in group.sequences}
    made.log.clear()
    plan = made.schedule()
    _, one, two, _ = plan.due
    made.commit(plan, [Continuation(each, 1, 0.0) for each in (one, one, two, two)], [(None, None)] * 4)
    check_scheduler(made, made.log.shadow)
    happened = [
        (type(event).__name__, event.sequence if hasattr(event, "sequence") else event.child) for event in made.log
    ]
    happened = [each for each in happened if each[0] not in ("Scheduled", "BlocksTaken")]
    assert happened == [
        ("Forked", "A.5"),
        ("Forked", "A.6"),
        ("BlocksReleased", "A.1"),
        ("BlocksReleased", "A.4"),
        ("Sampled", "A.2"),
        ("Sampled", "A.5"),
        ("Sampled", "A.3"),
        ("Sampled", "A.6"),
    ]
    tables = {name: made.memory.table(name).blocks for name in made.memory.sequences()}
    assert (
        tables["A.2"] == tables["A.5"]
        and tables["A.3"] == tables["A.6"]
        and set(tables) == {"A.2", "A.3", "A.5", "A.6"}
    )
    assert tables["A.2"][:2] == before["A.2"][:2]
    assert [each.finish_reason for each in group.sequences] == ["dropped", None, None, "dropped", None, None]
    assert group.status is Status.RUNNING


def test_a_group_starts_over_without_what_a_broken_step_forked():
    made, drive, group = with_group(20, 6, n=3)
    plan = made.schedule()
    marks = group.mark()
    made.commit(
        plan, [Continuation(plan.due[0], token, -0.5, {token: (-0.5, 1)}) for token in (1, 2, 3)], [("stop", None)] * 3
    )
    assert group.status is Status.FINISHED and len(group.sequences) == 3
    group.go_back_to(marks)
    made.start_over([group])
    check_scheduler(made)
    [only] = group.sequences
    assert (only.num_tokens, only.finish_reason, only.logprobs, only.cumulative_logprob) == (6, None, [], 0.0)
    drive.run()
    assert [each.num_output_tokens for each in group.sequences] == [6, 6, 6]


def test_going_back_leaves_who_was_finished_before_finished():
    _, drive, group = with_group(20, 6, n=3)
    drive.step()
    drive.stops = lambda sequence: sequence.index == 1
    drive.step()
    marks = group.mark()
    drive.stops = lambda sequence: True
    drive.step()
    assert group.status is Status.FINISHED
    group.go_back_to(marks)
    assert [each.finish_reason for each in group.sequences] == [None, "stop", None]
    assert [each.num_output_tokens for each in group.sequences] == [2, 2, 2]


def test_a_group_comes_back_from_the_host_pool_only_with_a_token_for_each():
    """The older request, recomputed, leaves 1 token of the budget: too few for the three that were swapped."""
    made = scheduler(9, 2, max_num_seqs=5, max_num_batched_tokens=5, num_host_blocks=3)
    requests = [request("X", 5, 8), request("A", 7, 6), request("B", 2, 2, n=3)]
    for each in requests:
        made.add(each)
    Drive(made).run(limit=100)
    assert [event.request for event in made.log if isinstance(event, Preempted)] == ["B", "A"]
    swapped_in = [event for event in made.log if isinstance(event, SwappedIn)]
    assert [event.sequences for event in swapped_in] == [("B.1", "B.2", "B.3")]
    assert all(each.status is Status.FINISHED for each in requests)
