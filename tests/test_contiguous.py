"""Contiguous memory: the buddy allocator, the three policies, and where every slot of the pool goes."""

import copy
import random

import hypothesis.strategies as st
import pytest
from harness import Drive, Witness, check_scheduler, grow, some_slow
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from minipaged.events import BlocksReleased, BlocksTaken, NoRun, Reserved
from minipaged.memory.buddy import Buddy, power_of_two
from minipaged.memory.check import BrokenInvariant, ShadowSlots, check
from minipaged.memory.contiguous import POLICIES, ContiguousMemory, ContiguousUsage
from minipaged.memory.paged import PagedMemory
from minipaged.memory.reservations import Layout, Run
from minipaged.serving.plan import Continuation
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams, Status


def test_powers_of_two():
    assert [power_of_two(n) for n in (0, 1, 2, 3, 4, 5, 25, 32, 33)] == [0, 1, 2, 4, 4, 8, 32, 32, 64]


class TestBuddy:
    def test_a_run_is_halved_until_it_fits(self):
        buddy = Buddy(16)
        assert buddy.allocate(3) == 0  # of 16 the front half, of that again: 4 blocks
        assert buddy.allocate(1) == 4
        assert buddy.allocate(2) == 6  # 5 stays alone, since a run begins at a multiple of its length
        assert buddy.allocate(8) == 8
        assert buddy.free_order() == [5]

    def test_buddies_become_one_run_again(self):
        buddy = Buddy(8)
        starts = [buddy.allocate(2) for _ in range(4)]
        assert starts == [0, 2, 4, 6]
        buddy.free(2)
        buddy.free(4)
        assert buddy.num_free == 4
        assert buddy.allocate(4) is None  # 2 to 5 lie side by side, and are no buddies
        buddy.free(0)
        assert buddy.allocate(4) == 0
        buddy.free(6)
        assert buddy.allocate(4) == 4

    def test_a_pool_that_is_no_power_of_two_is_a_row_of_them(self):
        buddy = Buddy(13)
        assert buddy.allocate(9) is None
        assert [buddy.allocate(size) for size in (8, 4, 1)] == [0, 8, 12]
        assert buddy.num_free == 0

    def test_wrong_calls_change_nothing(self):
        buddy = Buddy(8)
        buddy.allocate(4)
        before = copy.deepcopy(vars(buddy))
        with pytest.raises(ValueError, match="size=0"):
            buddy.allocate(0)
        for start in (1, 4, 8, -1):
            with pytest.raises(ValueError, match=f"block {start} is not the first"):
                buddy.free(start)
        for block in (-1, 8):
            with pytest.raises(ValueError, match=f"block={block}"):
                buddy.ref_count(block)
        assert buddy.allocate(5) is None
        assert vars(buddy) == before
        buddy.free(0)
        with pytest.raises(ValueError, match="block 0 is not the first"):
            buddy.free(0)
        with pytest.raises(ValueError, match="num_blocks=0"):
            Buddy(0)

    @pytest.mark.parametrize("num_blocks", [1, 2, 7, 13, 32, 63])
    def test_it_finds_a_run_exactly_where_a_look_at_every_block_does(self, num_blocks):
        rng, buddy = random.Random(num_blocks), Buddy(num_blocks)
        runs, refused = {}, 0
        for step in range(1500):
            in_use = {block for blocks in runs.values() for block in blocks}
            if rng.random() < 0.6:
                size = rng.randint(1, rng.choice((2, num_blocks)))
                length = power_of_two(size)
                places = [
                    start
                    for start in range(0, num_blocks - length + 1, length)
                    if in_use.isdisjoint(range(start, start + length))
                ]
                start = buddy.allocate(size)
                assert (start in places) if places else start is None
                refused += start is None
                if places:
                    runs[start] = range(start, start + length)
            elif runs:
                start = rng.choice(list(runs))
                assert buddy.free(start) == runs.pop(start)
            in_use = {block for blocks in runs.values() for block in blocks}
            assert buddy.num_free == num_blocks - len(in_use)
            assert [buddy.ref_count(block) for block in range(num_blocks)] == [b in in_use for b in range(num_blocks)]
            if step % 50 == 0:
                one_by_one = copy.deepcopy(buddy)
                assert buddy.free_order() == [one_by_one.allocate(1) for _ in range(buddy.num_free)]
        assert refused > 100
        for start in runs:
            buddy.free(start)
        lengths = [1 << k for k in reversed(range(6)) if num_blocks >> k & 1]
        assert [buddy.allocate(length) for length in lengths] == [sum(lengths[:i]) for i in range(len(lengths))]


def memory(policy="oracle", num_blocks=16, block_size=4, max_model_len=64):
    return ContiguousMemory(num_blocks, block_size, policy, max_model_len)


def admit(memory, name, num_tokens, max_new_tokens):
    """Admit, grow and commit: the prompt is computed."""
    assert memory.admit(name, [0] * num_tokens, max_new_tokens) == 0
    append(memory, name, num_tokens)


def append(memory, name, num_tokens=1):
    total = memory.table(name).num_tokens + num_tokens
    assert memory.grow([(name, num_tokens)]) == []
    memory.commit(name, [0] * total, total)


def everything(memory):
    tables = {name: (list(memory.table(name).blocks), memory.table(name).num_tokens) for name in memory.sequences()}
    return tables, memory.layout(), memory.usage(), memory.allocator.free_order(), vars(memory.allocator)


class TestPolicies:
    @pytest.mark.parametrize("policy, num_slots, num_blocks", [("max", 64, 16), ("pow2", 39, 16), ("oracle", 32, 8)])
    def test_what_is_reserved_for_7_tokens_and_25_more(self, policy, num_slots, num_blocks):
        """Pow2 rounds the output, 25 -> 32, and not the sum, which would be 32 here."""
        made = memory(policy)
        admit(made, "A", 7, 25)
        assert made.layout() == Layout(64, [Run(0, num_slots, 7, 31)])
        assert made.allocator.num_free == 16 - num_blocks
        assert made.blocks_at_most(7, 25) == num_blocks

    def test_pow2_keeps_a_power_of_two_and_never_exceeds_the_model(self):
        made = memory("pow2", num_blocks=64)
        for name, num_tokens, max_new_tokens in (("A", 7, 32), ("B", 40, 20), ("C", 5, 1), ("D", 5, 0)):
            assert made.admit(name, [0] * num_tokens, max_new_tokens) == 0
        assert [run.size for run in made.layout().runs] == [39, 64, 6, 5]

    def test_the_paper_s_pool_holds_seven_runs_of_max(self):
        """15.7 thousand slots (Table 1) and a maximum of 2,048: mean batch 7.00 in Figure 13."""
        made = ContiguousMemory(983, 16, "max", 2048)
        names = [str(i) for i in range(8)]
        assert [made.admit(name, [0] * 161, 338) for name in names] == [0] * 7 + [None]
        assert made.usage().external == 983 * 16 - 7 * 2048

    def test_oracle_s_runs_are_rounded_up_by_the_buddy(self):
        made = ContiguousMemory(983, 16, "oracle", 2048)
        admit(made, "A", 161, 352)  # 513 slots, 33 blocks
        assert made.allocator.num_free == 983 - 64

    def test_max_wastes_what_a_short_request_leaves_and_oracle_one_slot(self):
        """One: the last token is never stored."""
        for max_new_tokens in (1, 5, 20):
            internal = {}
            for policy in POLICIES:
                made = memory(policy)
                admit(made, "A", 9, max_new_tokens)
                internal[policy] = made.usage().internal
            pow2 = power_of_two(max_new_tokens) - max_new_tokens + 1
            assert internal == {"max": 64 - 8 - max_new_tokens, "pow2": pow2, "oracle": 1}


class TestUsage:
    def test_every_column_by_hand(self):
        """7 tokens now and 11 more: 18 slots reserved, 17 of them to be filled; 5 blocks, 8 with the buddy's."""
        made = memory("oracle")
        assert made.usage() == ContiguousUsage(0, 0, 0, 64, reserved=0, internal=0, rounding=0, external=64)
        made.admit("A", [0] * 7, 11)
        waiting = ContiguousUsage(0, 0, 0, 64, reserved=17, internal=1, rounding=2, external=12 + 32)
        assert made.usage() == waiting
        append(made, "A", 7)
        assert made.usage() == ContiguousUsage(7, 8, 0, 64, reserved=10, internal=1, rounding=2, external=12 + 32)
        append(made, "A", 10)
        assert made.usage() == ContiguousUsage(17, 20, 0, 64, reserved=0, internal=1, rounding=2, external=12 + 32)
        assert made.usage().states == 17

    def test_a_sequence_longer_than_it_said_uses_up_its_internal_waste(self):
        made = memory("max")
        admit(made, "A", 7, 2)
        assert (made.usage().reserved, made.usage().internal) == (1, 56)
        append(made, "A", 3)
        assert (made.usage().reserved, made.usage().internal) == (0, 54)

    def test_with_blocks_of_one_slot_nothing_is_rounded_to_blocks(self):
        made = memory("oracle", num_blocks=64, block_size=1)
        admit(made, "A", 7, 11)
        assert (made.usage().rounding, made.usage().external) == (0, 64 - 18)


class TestVerbs:
    def test_a_table_gets_the_run_s_blocks_as_tokens_come(self):
        made = memory("oracle")
        admit(made, "A", 9, 8)
        admit(made, "B", 5, 8)
        assert (made.table("A").blocks, made.table("B").blocks) == ([0, 1, 2], [8, 9])
        assert made.filled() == {0: 4, 1: 4, 2: 1, 8: 4, 9: 1}
        append(made, "B", 4)
        assert made.table("B").blocks == [8, 9, 10]
        for num_tokens in range(10, 18):  # prompt and output, though the last is never computed
            append(made, "A")
            assert made.table("A").blocks == list(range(-(-num_tokens // 4)))
        assert made.table("A").slots(0, 17) == list(range(17))

    def test_grow_serves_several_or_none(self):
        made = memory("oracle")
        admit(made, "A", 4, 2)
        admit(made, "B", 4, 5)
        before = everything(made)
        with pytest.raises(ValueError, match="'A': 7 tokens need as many slots, 6 slots"):
            made.grow([("B", 1), ("A", 3)])
        assert everything(made) == before
        assert made.grow([("B", 1), ("A", 2)]) == []
        assert (made.table("A").num_tokens, made.table("B").num_tokens) == (6, 5)
        assert made.grow([]) == []

    def test_no_room_changes_nothing(self):
        made = memory("oracle", num_blocks=8, block_size=1)
        for name in "ABCD":
            admit(made, name, 1, 1)
        made.release("B")
        made.release("C")
        before = everything(made)
        assert made.allocator.num_free == 4
        assert made.admit("E", [0, 0], 2) is None  # not side by side
        assert made.admit("E", [0, 0, 0], 2) is None  # not so many
        assert made.admit("E", [0], 1, extra_blocks=3) is None
        assert everything(made) == before
        assert made.admit("E", [0], 1, extra_blocks=2) == 0
        assert made.allocator.num_free == 2

    def test_a_released_run_serves_the_next(self):
        made = memory("max")
        admit(made, "A", 5, 5)
        assert made.admit("B", [0], 1) is None
        made.release("A")
        assert made.usage().external == 64
        admit(made, "B", 1, 1)
        assert made.sequences() == ["B"]

    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("num_blocks, block_size", [(16, 4), (13, 4), (63, 1), (7, 3)])
    def test_what_ever_fits_is_what_an_empty_pool_admits(self, policy, num_blocks, block_size):
        made, seen = memory(policy, num_blocks, block_size, max_model_len=40), set()
        for num_tokens in range(1, 40):
            for max_new_tokens in range(1, 41 - num_tokens):
                admitted = made.admit("A", [0] * num_tokens, max_new_tokens)
                fits = made.fits_ever(num_tokens, max_new_tokens)
                assert fits == (admitted == 0)
                seen.add(fits)
                if fits:
                    assert made.blocks_at_most(num_tokens, max_new_tokens) == num_blocks - made.allocator.num_free
                    made.grow([("A", num_tokens + max_new_tokens - 1)])
                    made.release("A")
        longest = 1 << (num_blocks.bit_length() - 1)
        assert (False in seen) == (longest * block_size < 40)
        assert not made.fits_ever(20, 21)  # the model's maximum

    @pytest.mark.parametrize(
        "wrong, message",
        [
            (lambda memory: memory.admit("A", [1], 1), "'A' is in this memory"),
            (lambda memory: memory.admit("C", [], 1), "'C' has no tokens"),
            (lambda memory: memory.admit("C", [1], -1), "max_new_tokens=-1"),
            (lambda memory: memory.admit("C", [1], 1, extra_blocks=-9), "extra_blocks=-9"),
            (lambda memory: memory.admit("C", [1] * 40, 25), "40 tokens and max_new_tokens=25 .* max_model_len=64"),
            (lambda memory: memory.grow([("A", 1), ("C", 1)]), "'C'"),
            (lambda memory: memory.grow([("A", 1), ("A", 1)]), "only once"),
            (lambda memory: memory.grow([("A", 0)]), "num_new_tokens=0"),
            (lambda memory: memory.grow([("A", 1.0)]), "num_new_tokens=1.0"),
            (lambda memory: memory.grow([("A", 6)]), "'A': 9 tokens need as many slots, 8 slots were reserved"),
            (lambda memory: memory.commit("A", [1, 2, 3], 4), "4 tokens computed, but 3"),
            (lambda memory: memory.release("C"), "'C'"),
            (lambda memory: memory.table("C"), "'C'"),
            (lambda memory: memory.fork("A", "C"), "'A' into 'C'.*paged memory only"),
            (lambda memory: memory.swap_out(["A"]), "'A'.*paged memory only"),
            (lambda memory: memory.swap_in(["A"]), "'A'.*paged memory only"),
            (lambda memory: memory.fits_ever(3, 5, 2), "n=2.*paged memory only"),
        ],
    )
    def test_a_wrong_call_names_what_is_wrong_and_changes_nothing(self, wrong, message):
        made = memory("oracle")
        admit(made, "A", 3, 5)
        before = everything(made)
        with pytest.raises(ValueError, match=message):
            wrong(made)
        assert everything(made) == before

    @pytest.mark.parametrize(
        "arguments, message",
        [
            ((0, 4, "max", 64), "num_blocks=0"),
            ((4, 0, "max", 64), "block_size=0"),
            ((4, 4, "max", 0), "max_model_len=0"),
            ((4, 4, "min", 64), "policy='min': must be one of 'max', 'pow2', 'oracle'"),
        ],
    )
    def test_a_memory_that_cannot_be(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            ContiguousMemory(*arguments)

    def test_it_has_every_verb_that_paged_memory_has(self):
        paged = PagedMemory(4, 4)
        verbs = {name for name in dir(paged) if not name.startswith("_") and callable(getattr(paged, name))}
        verbs |= {"fork", "swap_out", "swap_in", "reset_prefix_cache"}
        assert verbs <= set(dir(memory()))
        assert memory().lookup([1, 2, 3]) == 0
        assert memory().reset_prefix_cache() is True
        assert memory().prefix_cache is memory().host is None

    def test_a_cleared_memory_is_a_fresh_one(self):
        made = memory("oracle")
        admit(made, "A", 9, 8)
        made.clear()
        assert everything(made) == everything(memory("oracle"))
        assert made.take_moved() == ([], [])
        admit(made, "A", 9, 8)

    def test_the_log_tells_which_blocks_moved(self):
        made = memory("oracle")
        made.log = []
        admit(made, "A", 5, 12)
        append(made, "A", 3)
        append(made, "A", 1)
        made.release("A")
        assert made.log == [
            Reserved("A", "oracle", 17, 0, 8, 16),
            BlocksTaken("A", 0, False, (0, 1), 8),
            BlocksTaken("A", 2, True, (2,), 8),
            BlocksReleased("A", (7, 6, 5, 4, 3, 2, 1, 0), 16),
        ]
        assert made.take_moved() == ([0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 7])
        assert made.take_moved() == ([], [])

    def test_the_log_tells_that_the_free_blocks_are_not_side_by_side(self):
        made = memory("oracle", num_blocks=8, block_size=1)
        for name in "ABCD":
            admit(made, name, 1, 1)
        made.release("B")
        made.release("C")
        made.log = []
        assert made.admit("E", [0, 0], 2) is None
        assert made.log == [NoRun("E", 4, 4, 2)]
        assert made.allocator.longest == 2
        assert memory("oracle", num_blocks=13).allocator.longest == 8

    def test_runs_name_every_block_that_is_reserved(self):
        made = memory("oracle")
        admit(made, "A", 7, 11)
        admit(made, "B", 1, 1)
        assert made.runs() == {"A": range(8), "B": range(8, 9)}
        assert made.allocator.run(0) == range(8)
        with pytest.raises(ValueError, match="block 1 is not the first"):
            made.allocator.run(1)


class TestComingBack:
    def test_who_comes_back_asks_for_the_run_that_it_had(self):
        """Of Pow2, which rounds up the whole output: 7 + 32 at any time, though 15 + 32 would be asked for anew."""
        for policy, num_slots in (("max", 64), ("pow2", 39), ("oracle", 32)):
            for num_generated in range(25):
                made = memory(policy)
                tokens = [0] * (7 + num_generated)
                assert made.admit("A", tokens, 25 - num_generated, num_generated=num_generated) == 0
                assert made.layout() == Layout(64, [Run(0, num_slots, 0, 31)])
                check(made)

    @pytest.mark.parametrize("num_generated", [3, -1, 1.5])
    def test_a_prompt_has_a_token_at_least(self, num_generated):
        made = memory("pow2")
        before = everything(made)
        with pytest.raises(ValueError, match=f"num_generated={num_generated}: must be .* 0 to 2"):
            made.admit("A", [0] * 3, 5, num_generated=num_generated)
        assert everything(made) == before

    @pytest.mark.parametrize("policy, num_blocks", [("max", 16), ("pow2", 10), ("oracle", 10)])
    @pytest.mark.parametrize("when", range(1, 26))
    def test_a_step_that_breaks_off_leaves_nobody_who_can_never_enter(self, policy, num_blocks, when):
        """Pow2 reserves 7 + 32 slots, 8 blocks of 5, and the pool has no longer run. Asked anew for 8 tokens more and 8
        less to come, 15 + 32, it would want one of 16 blocks."""
        scheduler = Scheduler(memory(policy, num_blocks, block_size=5), 4, 40)
        scheduler.log = scheduler.memory.log = Witness(scheduler.memory, ShadowSlots())
        assert scheduler.memory.fits_ever(7, 25) and (policy != "pow2" or not scheduler.memory.fits_ever(15, 17))
        requests = [Request(name, None, [0] * 7, SamplingParams(max_tokens=25), 25, seed=0) for name in "AB"]
        for each in requests:
            scheduler.add(each)
        drive = Drive(scheduler)
        for _ in range(when):
            drive.step()
        scheduler.schedule()
        scheduler.start_over([each for each in requests if each.status is not Status.FINISHED])
        check_scheduler(scheduler)
        assert drive.run(limit=60) <= 50
        assert [each.sequences[0].num_output_tokens for each in requests] == [25, 25]


class TestCheck:
    def broken(self, break_it, message):
        made = memory("oracle")
        for name in "AB":
            admit(made, name, 7, 4)
        check(made)
        break_it(made)
        with pytest.raises(BrokenInvariant, match=message):
            check(made)

    def test_a_consistent_memory(self):
        made = memory("pow2")
        check(made)
        admit(made, "A", 7, 4)
        made.admit("B", [0], 9)
        check(made)
        made.release("A")
        check(made)

    @pytest.mark.parametrize(
        "break_it, message",
        [
            (lambda made: made.allocator._orders.update({4: 3}), "doesn't begin at a multiple"),
            (lambda made: made.allocator._orders.update({0: 3}), "several runs"),
            (lambda made: made.allocator._orders.update({0: 1, 2: 1}), "isn't in|aren't in its run|ref_count"),
            (lambda made: made.allocator._free[3].clear(), "ref_count 1, but 0 runs hold it"),
            (lambda made: made.allocator._free[2].update({0: None}), "ref_count 0, but 1 runs hold it"),
            (lambda made: made._tables.update(A=made._tables["B"]), "isn't the beginning of its run"),
            (lambda made: made.table("A").blocks.reverse(), "isn't the beginning of its run"),
            (lambda made: made._runs.update(C=made._runs["A"]), "there are runs of"),
            (lambda made: setattr(made.table("A"), "num_tokens", 12), "A: 12 tokens fill 3 blocks"),
        ],
    )
    def test_whatever_is_broken_shows(self, break_it, message):
        self.broken(break_it, message)


class ContiguousMachine(RuleBasedStateMachine):
    """Sequences come, grow and go. The model is each one's length, announced length and run."""

    def __init__(self, policy="oracle", num_blocks=13, block_size=3):
        super().__init__()
        self.memory = ContiguousMemory(num_blocks, block_size, policy, max_model_len=30)
        self.shadow = ShadowSlots()
        self.sequences = {}  # name -> [tokens stored, tokens stored at the end, slots reserved, blocks of the run]

    @rule(name=st.sampled_from("ABCDE"), num_tokens=st.integers(1, 20), max_new_tokens=st.integers(0, 10))
    def admit(self, name, num_tokens, max_new_tokens):
        if name in self.sequences:
            return
        slots = {"max": 30, "pow2": min(30, num_tokens + power_of_two(max_new_tokens))}.get(
            self.memory.policy, num_tokens + max_new_tokens
        )
        length = power_of_two(-(-slots // self.memory.block_size))
        in_use = {block for *_, blocks in self.sequences.values() for block in blocks}
        starts = range(0, self.memory.num_blocks - length + 1, length)
        has_room = any(in_use.isdisjoint(range(start, start + length)) for start in starts)
        assert (self.memory.admit(name, [0] * num_tokens, max_new_tokens) == 0) == has_room
        if has_room:
            start = self.memory.layout().runs[-1].start // self.memory.block_size
            final = num_tokens + max_new_tokens - (max_new_tokens > 0)
            self.sequences[name] = [0, final, slots, range(start, start + length)]

    @rule(data=st.data())
    def grow(self, data):
        names = data.draw(st.lists(st.sampled_from("ABCDE"), unique=True))
        wanted = [(name, data.draw(st.integers(1, 9))) for name in names if name in self.sequences]
        if any(self.sequences[name][0] + n > self.sequences[name][2] for name, n in wanted):
            with pytest.raises(ValueError, match="reserved"):
                grow(self.memory, wanted)
            return
        assert grow(self.memory, wanted) == []
        for name, n in wanted:
            start = self.sequences[name][0]
            self.sequences[name][0] += n
            self.shadow.write(self.memory, name, start, start + n)
            self.memory.commit(name, [], start + n)

    @rule(name=st.sampled_from("ABCDE"))
    def release(self, name):
        if name in self.sequences:
            self.memory.release(name)
            del self.sequences[name]

    @invariant()
    def agrees_with_the_model(self):
        memory, size = self.memory, self.memory.block_size
        check(memory, self.shadow)
        assert memory.runs() == {name: blocks for name, (*_, blocks) in self.sequences.items()}
        assert memory.sequences() == list(self.sequences)
        for name, (stored, _, _, blocks) in self.sequences.items():
            table = memory.table(name)
            assert table.num_tokens == stored
            assert table.blocks == list(blocks)[: -(-stored // size)]  # neighbours, as many as the tokens fill
            self.shadow.demand_holds(name, table)
        in_use = [block for *_, blocks in self.sequences.values() for block in blocks]
        assert len(set(in_use)) == len(in_use)
        assert set(memory.allocator.free_order()) == set(range(memory.num_blocks)) - set(in_use)

    @invariant()
    def every_slot_is_in_one_column(self):
        usage, size = self.memory.usage(), self.memory.block_size
        columns = usage.states, usage.reserved, usage.internal, usage.rounding, usage.external
        assert sum(columns) == usage.total_slots == self.memory.num_blocks * size
        use = ["external"] * usage.total_slots
        for stored, final, slots, blocks in self.sequences.values():
            for position in range(-(-slots // size) * size):
                ends = ("states", stored), ("reserved", final), ("internal", slots), ("rounding", 10**9)
                use[blocks[0] * size + position] = next(kind for kind, end in ends if position < end)
        assert columns == tuple(use.count(kind) for kind in ("states", "reserved", "internal", "rounding", "external"))
        assert usage.used_slots == sum(self.memory.filled().values())
        assert usage.allocated_slots == len(self.memory.filled()) * size
        assert usage.cached_slots == 0

    def teardown(self):
        for name in self.sequences:
            self.memory.release(name)
        assert self.memory.usage().external == self.memory.usage().total_slots


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pool", some_slow([(13, 3), (31, 1), (64, 4)], [(31, 1), (64, 4)]))
def test_random_walks(policy, pool):
    run_state_machine_as_test(
        lambda: ContiguousMachine(policy, *pool),
        settings=settings(
            max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.parametrize("policy, most", [("max", 2), ("pow2", 4), ("oracle", 4)])
def test_the_scheduler_runs_on_it_and_nobody_has_to_yield(policy, most):
    scheduler = Scheduler(memory(policy, num_blocks=32, max_model_len=64), max_num_seqs=8, max_num_batched_tokens=16)
    scheduler.log = scheduler.memory.log = []
    for i in range(8):  # 20 to 24 tokens at the end
        scheduler.add(Request(f"r{i}", None, [0] * (8 + i % 5), SamplingParams(max_tokens=12), 12, seed=0))
    resident = 0
    while scheduler.running or scheduler.waiting:
        plan = scheduler.schedule()
        resident = max(resident, len(scheduler.running))
        continuations = [Continuation(sequence, 0, 0.0, None) for sequence in plan.due]
        reasons = [("length" if s.num_output_tokens == 11 else None, None) for s in plan.due]
        scheduler.commit(plan, continuations, reasons)
    assert resident == most
    assert not [event for event in scheduler.log if type(event).__name__ == "Preempted"]
    assert sum(type(event).__name__ == "Finished" for event in scheduler.log) == 8
    assert scheduler.memory.usage().external == 32 * 4
