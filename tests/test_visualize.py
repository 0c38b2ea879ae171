"""The visualizer without a terminal: what a snapshot says is what the engine holds, and what a frame shows is what the
snapshot says.

Most tests run the default scenario on an engine without a model; one runs it on the shipped model.
"""

import dataclasses
import json
import random
import re
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import harness
import pytest
from harness import some_slow
from rich.cells import cell_len

from minipaged import events
from minipaged.memory.contiguous import runs_of
from minipaged.serving.group import sample_indices, unfinished
from minipaged.serving.plan import Continuation
from visualize.ink import ASCII, UNICODE, ink_for, safe
from visualize.scenarios import MIXED, SCENARIOS, Arrival, Run, Scenario
from visualize.snapshot import SCHEMA
from visualize.view import view
from visualize.why import LANDMARKS, ROUTINE, SENTENCES, sentence

HOSTILE = "[b]A[/b] \x1b[31m\x9b\r\t\x00 \u202e\u200b e\u0301 \u65e5\u672c \U0001f469\u200d\U0001f467 \u2028[/x]\n"


class Bytes:
    """A tokenizer with a token for every byte."""

    eos_token_id = None

    def encode(self, text):
        return list(text.encode())

    def decode(self, token_ids):
        return bytes(token_ids).decode(errors="replace")


class ModelFreeEngine:
    """What the visualizer needs of an engine, with a scheduler and a memory but no model: everyone says `text`."""

    max_model_len = 1024

    def __init__(
        self,
        num_blocks,
        block_size,
        max_num_seqs,
        max_num_batched_tokens,
        enable_prefix_caching=False,
        memory="paged",
        preemption="recompute",
        swap_blocks=0,
        watermark=0.0,
        text="ab\n",
    ):
        assert (preemption == "swap") == bool(swap_blocks)
        caching_and_host = enable_prefix_caching, swap_blocks
        made = harness.memory_of(memory, num_blocks, block_size, self.max_model_len, *caching_and_host)
        self.scheduler = harness.scheduler_on(made, max_num_seqs, max_num_batched_tokens, watermark)
        self.memory, self.tokenizer, self.text = self.scheduler.memory, Bytes(), text.encode()

    def add(self, prompt, params, request_id):
        ids = prompt["prompt_token_ids"] if isinstance(prompt, dict) else self.tokenizer.encode(prompt)
        request = harness.request(request_id, 1, params.max_tokens, params.n)
        request.prompt_token_ids, request.sequences[0].token_ids, request.params = ids, list(ids), params
        self.scheduler.add(request)

    def has_unfinished(self):
        return bool(self.scheduler.running or self.scheduler.waiting)

    def step(self):
        plan = self.scheduler.schedule()
        pairs = [(seq, index) for seq in plan.due if not seq.request.is_beam_search for index in sample_indices(seq)]
        pairs += [pair for request in self.scheduler.running for pair in self.beams(request, plan.due)]
        said = [Continuation(seq, self.text[(seq.num_tokens + index) % len(self.text)], 0.0) for seq, index in pairs]
        left = [seq.request.max_tokens - seq.num_output_tokens for seq, _ in pairs]
        self.scheduler.commit(plan, said, [("length" if each == 1 else None, None) for each in left])
        log = list(self.scheduler.log)
        self.scheduler.log.clear()
        return SimpleNamespace(plan=plan, events=log, outputs=[])

    def beams(self, request, due):
        """Which beams go on, and in how many ways: any of them, as if by chance."""
        beams = [seq for seq in due if seq.request is request and request.is_beam_search]
        if not beams:
            return []
        draw = random.Random(beams[0].num_tokens)
        return [(draw.choice(beams), i) for i in range(request.params.beam_width)]


def story(scenario=MIXED, text="ab\n", **settings):
    """All snapshots of a scenario, and beside each what the engine itself held at that moment."""
    engine = ModelFreeEngine(**(scenario.settings | settings), text=text)
    return [(snapshot, state_of(engine)) for snapshot in Run(scenario, engine).snapshots()]


def state_of(engine):
    """The engine's own numbers, asked for by its public methods, after arrivals that the snapshot doesn't show yet."""
    memory = engine.memory
    cache = memory.prefix_cache
    hashes = [cache.hash_of(i) if cache else None for i in range(memory.num_blocks)]
    return {
        "cached": memory.cached(),
        "hashes": [each and each.hex()[:8] for each in hashes],
        "tables": {name: list(memory.table(name).blocks) for name in memory.sequences()},
        "computed": {name: memory.table(name).num_tokens for name in memory.sequences()},
        "tokens": {seq.name: seq.num_tokens for request in engine.scheduler.running for seq in unfinished(request)},
        "ref_counts": [memory.allocator.ref_count(block) for block in range(memory.num_blocks)],
        "filled": memory.filled(),
        "free_order": memory.allocator.free_order(),
        "usage": memory.usage(),
        "waiting": [seq.name for request in engine.scheduler.waiting for seq in unfinished(request)],
        "host": state_of_host(memory.host),
        "reserved": len(memory.sequences()) * engine.max_model_len,
        "runs": runs_of(memory),
        "memory": getattr(memory, "policy", "paged"),
    }


def state_of_host(host):
    return host and {
        "tables": {name: list(table.blocks) for name, table in host.tables.items()},
        "computed": {name: table.num_tokens for name, table in host.tables.items()},
        "ref_counts": [host.ref_count(block) for block in range(host.num_blocks)],
        "free_order": host.free_order(),
    }


# The prompts are three times as long in bytes as in the shipped model's tokens: so is the pool here.
POOL = {"num_blocks": 45, "block_size": 4, "max_num_batched_tokens": 24}


@pytest.fixture(scope="module")
def mixed():
    return story(**POOL)


def played(scenario):
    """A scenario on the real engine with the shipped weights."""
    from minipaged.serving.llm import LLM

    engine = LLM(**scenario.settings).engine
    return [(snapshot, state_of(engine)) for snapshot in Run(scenario, engine).snapshots()]


@pytest.fixture(scope="module")
def shipped():
    return played(MIXED)


def check_snapshot(snapshot, state):
    tables = {seq.name: list(seq.block_table) for seq in snapshot.sequences if seq.block_table and not seq.is_swapped}
    assert tables == state["tables"]
    assert {seq.name: seq.num_computed_tokens for seq in snapshot.sequences if seq.name in tables} == state["computed"]
    assert {seq.name: seq.num_tokens for seq in snapshot.sequences if seq.status == "running"} == state["tokens"]
    assert [block.ref_count for block in snapshot.blocks] == state["ref_counts"]
    assert {block.id: block.filled for block in snapshot.blocks if block.state == "used"} == state["filled"]
    assert [block.hash for block in snapshot.blocks] == state["hashes"]
    assert list(snapshot.free_order) == state["free_order"]
    assert list(snapshot.queue) == [name for name in state["waiting"] if name in {s.name for s in snapshot.sequences}]
    assert snapshot.memory == state["memory"]
    empty = [block for name, run in state["runs"].items() for block in run if block not in tables.get(name, ())]
    assert snapshot.usage.reserved_slots == snapshot.block_size * len(empty)
    for block in snapshot.blocks:
        owners = [name for name, run in state["runs"].items() if block.id in run]
        owners = owners or [name for name, blocks in tables.items() if block.id in blocks]
        unused = "reserved" if block.id in empty else "cached" if block.id in state["cached"] else "free"
        assert list(block.owners) == owners
        assert block.state == ("used" if block.id in state["filled"] else unused)
        if block.state != "used":
            assert block.filled == len(block.texts) == snapshot.block_size * (block.state == "cached")
    check_host(snapshot, state)
    for name in ("used_slots", "allocated_slots", "cached_slots", "total_slots", "saved_slots", "saved_blocks"):
        assert getattr(snapshot.usage, name) == getattr(state["usage"], name)
    assert snapshot.usage.max_would_reserve == state["reserved"]
    for seq in snapshot.sequences:
        assert len(seq.tokens) == len(seq.token_texts) == seq.num_tokens
        assert seq.device == ("host" if seq.status == "swapped" else "gpu" if seq.block_table else None)
        if seq.status not in ("running", "swapped"):
            assert not seq.block_table and seq.num_computed_tokens == 0


def check_host(snapshot, state):
    """The same of the host pool."""
    if state["host"] is None:
        assert snapshot.host is None and not any(seq.is_swapped for seq in snapshot.sequences)
        return
    host, state, block_size = snapshot.host, state["host"], snapshot.block_size
    swapped = [seq for seq in snapshot.sequences if seq.is_swapped]
    assert {seq.name: list(seq.block_table) for seq in swapped} == state["tables"]
    assert {seq.name: seq.num_computed_tokens for seq in swapped} == state["computed"]
    assert [block.ref_count for block in host.blocks] == state["ref_counts"]
    assert list(host.free_order) == state["free_order"] and host.num_blocks == len(host.blocks)
    for i, block in enumerate(host.blocks):
        homes = [(seq, logical) for seq in swapped for logical, each in enumerate(seq.block_table) if each == i]
        assert block.id == i and list(block.owners) == [seq.name for seq, _ in homes]
        filled = [min(seq.num_computed_tokens - logical * block_size, block_size) for seq, logical in homes]
        assert block.filled == max(filled, default=0)


def test_snapshots_equal_the_engine(mixed):
    for snapshot, state in mixed:
        check_snapshot(snapshot, state)
    last = mixed[-1][0]
    assert [seq.status for seq in last.sequences] == ["finished"] * 5
    assert all(seq.text.startswith(arrival.prompt) for seq, arrival in zip(last.sequences, MIXED.arrivals))


@pytest.mark.parametrize("name", some_slow(SCENARIOS, set(SCENARIOS) - {"mixed", "shared-prefix", "preemption-swap"}))
def test_snapshots_and_frames_equal_the_engine_on_the_shipped_model(shipped, name):
    """At every step of every scenario."""
    before = None
    for snapshot, state in shipped if name == MIXED.name else played(SCENARIOS[name]):
        check_snapshot(snapshot, state)
        if name != "reservations":  # drawn in cells too small for this; test_visualize_reserved.py reads them
            check_frame(snapshot, before, state, 140, 40)
            check_frame(snapshot, before, state, 100, 30)
        before = snapshot


def check_frame(snapshot, before, state, width, height):
    """Read the numbers back from the drawn text."""
    text = view(snapshot, before, width, height).plain
    owned = r"[ +*&-](\d+) ((?:[A-F]\S* )+) ?(x\d+)? ?"
    place = r"(?:(?:logical |\[)(\d+)\]?)?(?:, a copy of (\d+))? +(\d+)/(\d+)"
    cells = re.findall(owned + place, text)
    copies = [event.fact for event in snapshot.events if event.kind == "BlockCopied"]
    homes = {}
    for name, table in state["tables"].items():
        for logical, block in enumerate(table):
            homes.setdefault(block, []).append((name, logical))
    for block, owners, times, logical, source, filled, size in cells:
        assert not source or (int(source), int(block)) in {(fact.source, fact.destination) for fact in copies}
        names, places = zip(*homes.pop(int(block)))
        together = {name.partition(".")[0] for name in names}  # all that is said of them where room is short
        assert tuple(expanded(owners)) == names or {owners.strip()} == together
        assert times == f"x{len(names)}" * (len(names) > 1)
        assert (int(filled), int(size)) == (state["filled"][int(block)], snapshot.block_size)
        assert not logical or set(places) == {int(logical)}
    assert not homes
    free = re.findall(r"[ -](\d+) free(?:, was \S+)?(?: |$)(?! of|block)", text, flags=re.MULTILINE)
    assert sorted(map(int, free)) == sorted(set(state["free_order"]).difference(state["cached"]))
    cached = re.findall(r"(?<!≡)[ +*-](\d+) cached (?: *was \S+)?(?: +([\da-f]{8})\b)?(?: +(\d+/\d+))?", text)
    assert sorted(int(block) for block, *_ in cached) == sorted(state["cached"])
    for block, digits, fill in cached:
        assert not digits or digits == state["hashes"][int(block)]
        assert not fill or fill == f"{snapshot.block_size}/{snapshot.block_size}"

    if state["memory"] == "paged":
        queue = re.search(r"front → ([ ≡\d]*)", text).group(1).split()
        signs = {block: "≡" * (block in state["cached"]) for block in state["free_order"]}
        assert queue == [f"{signs[block]}{block}" for block in state["free_order"]][: len(queue)]
    numbers = r"█ (\d+) used +▒ (\d+) (?:tail )?waste +(?:≡ (\d+) cached +)?(?:□ ([\d,]+) reserved +)?"
    numbers = re.search(numbers + r"░ ([\d,]+) free  of ([\d,]+)", text).groups(default="0")
    used, waste, kept, reserved, left, total = (int(each.replace(",", "")) for each in numbers)
    usage = state["usage"]
    assert reserved == snapshot.usage.reserved_slots
    assert used == usage.used_slots and waste == usage.allocated_slots - usage.used_slots
    assert kept == usage.cached_slots and used + waste + kept + reserved + left == total == usage.total_slots
    above = text.split("\n── ")[0]
    saved = re.search(r"(?:sharing saves )?\b(?<!take )(\d+) blocks?(?: \((\d+) slots?\)| saved)?", above)
    assert int(saved[1] if saved else 0) == usage.saved_blocks
    assert not saved or saved[2] is None or int(saved[2]) == usage.saved_slots
    if state["memory"] != "paged" and usage.allocated_slots:
        assert re.search(
            rf"(?:paging would take \d+ blocks? \(|paging would take |paged: ){usage.allocated_slots:,}\b", text
        )
    elif state["reserved"] and state["memory"] == "paged":
        assert re.search(rf"reserv[^\n]*[: ]{state['reserved']:,}\b", text)

    for name, table in state["tables"].items():
        progress = re.search(rf"{re.escape(name)}\S +running +(\d+)(?:/| of )(\d+)( tokens[^\n]*\n)?[^\n]*", text)
        assert (int(progress[1]), int(progress[2])) == (state["computed"][name], state["tokens"][name])
        entries = [tuple(map(int, entry)) for entry in re.findall(r"(\d+)→(\d+)", progress[0])]
        assert set(entries) <= set(enumerate(table)) and entries[0] == (0, table[0])
        hidden = re.search(r"… (\d+) more …", progress[0])
        assert len(entries) + int(hidden[1] if hidden else 0) == len(table)
    running = [seq.name for seq in snapshot.sequences if seq.status == "running"]
    num_lines = len(running) + any("." in name for name in running)  # a group has one for itself
    if width < 120 and num_lines <= 4 and not snapshot.host:  # nothing stands beside the text, there is room for it
        drawn = re.sub(r"\s", "", text)
        for seq in snapshot.sequences:
            if seq.status == "running":
                assert re.sub(r"\s", "", safe(seq.text, UNICODE)[-20:]) in drawn
    queue = re.search(r"── [^\n]*logical→physical[^\n]*", text)[0]
    queue = queue.split("── Physical")[0]
    shown, hidden = re.findall(r" ([A-F]\d?(?:\.\d)?)[●▲■◆★▼♣♥]", queue), re.search(r" \+(\d+) ", queue)
    assert shown == list(snapshot.queue)[: len(shown)] and len(shown) >= min(2, len(snapshot.queue))
    assert len(shown) + int(hidden[1] if hidden else 0) == len(snapshot.queue)


def expanded(words):
    """The names behind A.1● A.2▲, or behind A.1-3,5 B."""
    for word in words.split():
        request, _, numbers = re.sub(r"[●▲■◆★▼♣♥]", "", word).partition(".")
        for each in numbers.split(","):
            first, _, last = each.partition("-")
            yield from (f"{request}.{i}" for i in range(int(first), int(last or first) + 1)) if numbers else [request]


@pytest.mark.parametrize("size", [(140, 40), (100, 30)])
def test_why_tells_every_event_or_counts_it(mixed, size):
    for (before, _), (snapshot, _) in pairwise(mixed):
        why = view(snapshot, before, *size).plain.split("── Why")[1]
        words = re.sub(r"\s+", " ", re.sub(r"\n (?:[A-F]\S)? +", "\n", why))
        told = sum(event.why + "." in words for event in snapshot.events)
        hidden = re.search(r"\+(\d+) more", why)
        assert told + int(hidden[1] if hidden else 0) == len(snapshot.events)
        for event in snapshot.events:
            if event.kind in LANDMARKS:
                assert event.why in words, f"step {snapshot.step}: {event.why}"


def many_with_hostile_text():
    arrivals = tuple(Arrival(i // 3, f"request[/b]\n{i}" * (1 + i % 2), HOSTILE * (1 + i % 3), 9) for i in range(14))
    settings = {"num_blocks": 90, "block_size": 4, "max_num_seqs": 6, "max_num_batched_tokens": 32}
    return Scenario("hostile", HOSTILE, arrivals, settings)


POOLS = {
    "mixed": (MIXED, POOL),
    "hostile": (many_with_hostile_text(), {}),
    "block_size 1": (MIXED, {"num_blocks": 160, "block_size": 1}),
    "block_size 16": (MIXED, {"num_blocks": 12, "block_size": 16}),
    "one block": (MIXED, {"num_blocks": 1, "block_size": 64}),
    "4,000 blocks": (MIXED, {"num_blocks": 4000}),
}
SIZES = [(140, 40), (120, 36), (120, 30), (119, 50), (100, 30), (80, 24), (60, 15), (250, 15), (60, 80)]


@pytest.mark.parametrize("name", some_slow(POOLS, ["hostile", "block_size 1", "block_size 16", "4,000 blocks"]))
def test_frames_fit_exactly(name):
    scenario, settings = POOLS[name]
    snapshots = [snapshot for snapshot, _ in story(scenario, text=HOSTILE, **settings)]
    for before, snapshot in list(zip([None, *snapshots], snapshots))[:: 1 + len(snapshots) // 12]:
        for width, height in SIZES:
            for ink in (UNICODE, ASCII):
                rows = view(snapshot, before, width, height, ink, scenario.title, "keys").plain.split("\n")
                assert [cell_len(row) for row in rows] == [width] * height
                assert all(row.isprintable() for row in rows)
                assert ink is UNICODE or all(row.isascii() for row in rows)


@pytest.mark.parametrize("size", [(59, 40), (140, 14), (20, 5), (1, 1)])
def test_a_terminal_too_small_is_told_so(mixed, size):
    rows = view(mixed[5][0], mixed[4][0], *size).plain.split("\n")
    assert len(rows) <= size[1] and all(cell_len(row) <= size[0] for row in rows)
    assert rows[0].startswith("This terminal is"[: size[0] - 1])


def test_text_is_made_safe():
    assert safe("[b]x[/b]\n\x1b[31m\u202e\u00a0é\u0301", UNICODE) == "[b]x[/b]↵\ufffd[31m\ufffd é\ufffd"
    assert safe("é\n\x07", ASCII) == "?/?"
    assert ink_for("utf-8") is UNICODE
    assert ink_for("ascii") is ink_for("latin-1") is ink_for(None) is ink_for("no such encoding") is ASCII
    assert vars(ASCII).keys() == vars(UNICODE).keys() and len(ASCII.glyphs) == len(UNICODE.glyphs)


@pytest.mark.slow
def test_changes_are_marked_without_colour(mixed):
    for (before, _), (snapshot, _) in pairwise(mixed):
        text = view(snapshot, before, 140, 60).plain
        for old, new in zip(before.blocks, snapshot.blocks):
            mark = "+" if new.owners else "-"
            if old.owners == new.owners:
                mark = "*" if old.filled != new.filled else " "
            assert re.search(rf"(?:^|  |│){re.escape(mark)}{new.id:>2} ", text, flags=re.MULTILINE), (new.id, mark)


@pytest.mark.slow
def test_the_same_snapshots_give_the_same_frame(mixed):
    pairs = [(mixed[i][0], mixed[i - 1][0]) for i in range(1, len(mixed))]
    forward = [view(now, before, 120, 36).plain for now, before in pairs]
    assert [view(now, before, 120, 36).plain for now, before in reversed(pairs)] == forward[::-1]


def test_snapshots_never_change_and_share_what_did_not():
    lines, snapshots = [], []
    for snapshot, _ in story(**POOL):
        snapshots.append(snapshot)
        lines.append(snapshot.to_json())
    assert [snapshot.to_json() for snapshot in snapshots] == lines
    with pytest.raises(dataclasses.FrozenInstanceError):
        snapshots[0].step = 1
    num_shared = 0
    for before, now in pairwise(snapshots):
        for old, new in zip(before.blocks, now.blocks):
            assert (old is new) == (old == new)
            num_shared += old is new
        for old, new in zip(before.sequences, now.sequences):
            assert (old is new) == (old == new)
            assert old.tokens._items is new.tokens._items and old.token_texts._items is new.token_texts._items
    assert num_shared > 0.8 * len(snapshots) * len(snapshots[0].blocks)


def test_json_has_every_field_on_one_line(mixed):
    fields = "schema step block_size num_blocks budget memory blocks sequences queue free_order host events usage"
    block = "id state ref_count filled owners hash texts"
    sequence = "name request index status device block_table num_tokens num_computed_tokens tokens token_texts text"
    usage = (
        "used_slots allocated_slots cached_slots total_slots max_would_reserve saved_slots saved_blocks reserved_slots"
    )
    for step, (snapshot, _) in enumerate(mixed):
        line = snapshot.to_json()
        assert line.isascii() and "\n" not in line
        read = json.loads(line)
        assert json.dumps(read) == line
        assert set(read) == set(fields.split()) and read["schema"] == SCHEMA and read["step"] == step
        assert all(set(each) == set(block.split()) for each in read["blocks"])
        assert all({*sequence.split(), "finish_reason", "num_prompt_tokens"} == set(each) for each in read["sequences"])
        assert set(read["usage"]) == set(usage.split())
        assert all(each["kind"] and each["why"] for each in read["events"])
    kinds = {event.kind for snapshot, _ in mixed for event in snapshot.events}
    assert {"Arrived", "Admitted", "Preempted", "Finished"} <= kinds


def kinds():
    return [each for each in vars(events).values() if dataclasses.is_dataclass(each)]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_event_has_a_sentence(kind):
    values = {"request": "B", "sequence": "B", "needed_by": "A", "blocks": (11,), "freed": (11, 4), "kept": (4,)}
    values |= {"child": "B", "parent": "A", "sequences": ("B",), "pairs": ((11, 0), (4, 1)), "policy": "pow2"}
    reasons = {events.Refused: ("pool", "context", "max_num_seqs", "memory"), events.Finished: ("stop", "length")}
    reasons[events.KeptWaiting] = ("blocks", "max_num_seqs", "budget", "catching up", "preemption")
    told = set()
    for reason in reasons.get(kind, ("",)):
        facts = {field.name: values.get(field.name, 3) for field in dataclasses.fields(kind)} | {"reason": reason}
        event = kind(**{field.name: facts[field.name] for field in dataclasses.fields(kind)})
        said = sentence(event)
        assert said.startswith("B") and said.isprintable() and len(said.split()) > 3 and "None" not in said
        told.add(said)
    assert len(told) == len(reasons.get(kind, ("",)))
    assert set(SENTENCES) == set(kinds()) and {*ROUTINE, *LANDMARKS} <= {each.__name__ for each in kinds()}


def test_sentences_name_blocks_and_numbers():
    assert sentence(events.BlocksTaken("B", 4, True, (11,), 5)) == (
        "B's logical block 3 is full: physical block 11 taken from the front of the free queue, 5 left"
    )
    assert "full" not in sentence(events.BlocksTaken("B", 4, False, (11,), 5))
    assert "physical blocks 7, 1 and 3 " in sentence(events.BlocksTaken("B", 0, False, (7, 1, 3), 0))
    assert "and 3 more" in sentence(events.BlocksReleased("B", tuple(range(11)), 11))
    assert "A needs a block and none is free; " in sentence(events.Preempted("C", "A", 31, 0))
    assert "it needs more than the 9 free blocks; " in sentence(events.Preempted("C", "C", 31, 9))
    assert "it needs more than the 1 free block; its blocks are dropped and its tokens kept" in sentence(
        events.Preempted("C", "C", 0, 1)
    )
    assert "of position 5 again: 1 is left" in sentence(events.Scheduled("C", 5, 1, 7, 4))
    assert "K and V of 31 " in sentence(events.Preempted("C", None, 31, 0))
    assert "positions 0 to 15 again" in sentence(events.Scheduled("C", 0, 16, 31, 20))
    assert "positions 16 to 29 again, and of its newest token" in sentence(events.Scheduled("C", 16, 15, 31, 20))
    assert "whole prompt" in sentence(events.Scheduled("C", 0, 20, 20, 20))
    assert "4 are left" in sentence(events.Scheduled("C", 0, 16, 20, 20))
    assert sentence(events.Forked("A.2", "A.1", 1, 5)).endswith("it shares its only block, nothing is copied")
    assert sentence(events.Forked("A.1", "A.2", 3, 5)).endswith("it shares all 3 of its blocks, nothing is copied")
    assert sentence(events.Forked("A.1", "A.2", 2, 5), table=(7, 1)) == (
        "A.2 is forked from A.1: it shares blocks 7 and 1, nothing is copied"
    )
    assert sentence(events.BlockCopied("A.1", 1, 1, 3, 2, 5)) == (
        "A.1 writes into physical block 1, which 2 share: its content is copied to 3, which only A.1 owns"
    )
    released = {
        ((), None): "B gives up its blocks, but none is freed: each still has another owner",
        ((), (7, 1)): "B gives up blocks 7 and 1, but none is freed: each still has another owner",
        ((), (7,)): "B gives up block 7, but none is freed: it still has another owner",
        ((5, 3), (7, 1, 3, 5)): "B gives up blocks 7, 1, 3 and 5, of which 5 and 3 are freed: 9 are free now; "
        "7 and 1 still have an owner",
        ((3,), (7, 3)): "B gives up blocks 7 and 3, of which 3 is freed: 9 are free now; 7 still has an owner",
        ((3, 7), (7, 3)): "B gives back physical blocks 3 and 7, from its last to its first, "
        "to the front of the free queue: 9 are free now",
    }
    for (freed, table), said in released.items():
        assert sentence(events.BlocksReleased("B", freed, 9), table=table) == said
    assert '" be\\n"' in sentence(events.Sampled("A", 7, 3), " be\n")


def test_a_block_that_is_said_to_be_full_is_full(shipped):
    said = 0
    for (before, _), (snapshot, _) in pairwise(shipped):
        for event in snapshot.events:
            if event.kind == "BlocksTaken" and event.facts["first_logical"]:
                [sequence] = [seq for seq in before.sequences if seq.name == event.facts["sequence"]]
                last = before.blocks[sequence.block_table[-1]]
                assert event.facts["last_was_full"] == (last.filled == before.block_size)
                said += event.facts["last_was_full"]
    assert said > 10


def test_default_scenario_reuses_blocks_and_preempts_once(shipped):
    snapshots = [snapshot for snapshot, _ in shipped]
    kinds = [event.kind for snapshot in snapshots for event in snapshot.events]
    assert len(snapshots) <= 61 and kinds.count("Preempted") == 1 and kinds.count("Finished") == len(MIXED.arrivals)
    owners = [{name for snapshot in snapshots for name in snapshot.blocks[i].owners} for i in range(20)]
    assert sum(len(names) > 1 for names in owners) > 10
    lengths = [snapshots[-1].sequences[i].num_prompt_tokens for i in range(len(MIXED.arrivals))]
    assert max(lengths) > 2 * min(lengths) and len(set(lengths)) > 2
    assert snapshots[0].step == 0 and not snapshots[0].events and len(snapshots[0].queue) == 2


def test_what_can_never_fit_is_refused_with_its_sentence_and_the_rest_goes_on():
    snapshots = [snapshot for snapshot, _ in story(num_blocks=14)]
    refused = [event.why for snapshot in snapshots for event in snapshot.events if event.kind == "Refused"]
    finished = [seq.name for seq in snapshots[-1].sequences if seq.status == "finished"]
    assert len(refused) + len(finished) == len(MIXED.arrivals) and refused and finished
    assert all("the whole pool has only 14" in why for why in refused)
    nobody = [snapshot for snapshot, _ in story(num_blocks=1)]
    assert sum(event.kind == "Refused" for snapshot in nobody for event in snapshot.events) == len(MIXED.arrivals)


def test_a_name_used_again_is_another_sequence():
    engine = ModelFreeEngine(**MIXED.settings)
    run = Run(Scenario("again", "", (Arrival(0, "A", "one", 2), Arrival(9, "A", "another", 3))), engine)
    last = list(run.snapshots())[-1]
    assert [(seq.name, seq.text[:7], seq.num_tokens) for seq in last.sequences] == [("A", "another", 10)]


def test_a_character_in_several_tokens_belongs_to_the_last():
    arrivals = (Arrival(0, "A", "é日x\udce9"[:3], 1),)
    first = next(Run(Scenario("bytes", "", arrivals), ModelFreeEngine(**MIXED.settings)).snapshots())
    assert list(first.sequences[0].token_texts) == ["", "é", "", "", "日", "x"] and first.sequences[0].text == "é日x"


def test_snapshots_and_frames_import_no_torch():
    code = "import visualize.snapshot, visualize.camera, visualize.view, visualize.app, visualize.__main__, sys"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True)
