"""Cached blocks in the visualizer: that nobody owns them and that they can be hit is read without colour, at any size,
and every sentence is true.

The engine has no model (test_visualize.py); what the stories say is tested in test_prefix_stories.py.
"""

import json
import random
import re
from dataclasses import replace
from itertools import pairwise, product

import pytest
from harness import some_slow
from rich.cells import cell_len
from test_grouped import make_snapshot, read_map
from test_recording import drawn, leaves, recorded
from test_visualize import HOSTILE, ModelFreeEngine, check_frame, check_snapshot, state_of, story

from minipaged import events
from visualize.app import frames
from visualize.grouped import draw_grouped
from visualize.ink import ASCII, CACHED, UNICODE
from visualize.panels import draw_memory
from visualize.recording import Replay
from visualize.scenarios import Arrival, Run, Scenario
from visualize.scene import Scene
from visualize.view import view
from visualize.why import sentence

SIZES = [(140, 40), (120, 36), (100, 30), (80, 24), (60, 15)]
ON = {"block_size": 4, "max_num_seqs": 8, "max_num_batched_tokens": 12, "enable_prefix_caching": True}
BEGINNING = "abcdefghijklmnop"  # a byte is a token here: 4 blocks

# Hits of blocks that somebody owns and that nobody owns, evictions, a request that lives for one step, and a long rest.
QUESTIONS = Scenario(
    "questions",
    "",
    (
        Arrival(0, "A", f"{BEGINNING} one", 9),
        Arrival(3, "B", f"{BEGINNING} two", 5),
        Arrival(14, "C", f"{BEGINNING[:9]}?", 1),
        Arrival(16, "D", f"{BEGINNING} three", 7),
        Arrival(26, "E", "something else", 9),
        Arrival(28, "F", f"{BEGINNING} four", 6),
    ),
    ON | {"num_blocks": 12},
)
TURNS = Scenario(
    "turns",
    "",
    (
        Arrival(0, "A", "How now?", 9),
        Arrival(1, "B", "Who calls?", 7),
        Arrival(2, "C", " Again.", 6, after="A"),  # which is not finished yet
        Arrival(20, "D", " And you?", 5, after="B"),
    ),
    ON | {"num_blocks": 14},
)
# Groups, beams and preemptions: whoever comes back may find what it had computed.
CROWDED = Scenario(
    "crowded",
    "",
    (
        Arrival(0, "A", f"{BEGINNING[:8]}", 9, n=3),
        Arrival(1, "B", f"{BEGINNING[:10]}", 7, n=4),
        Arrival(2, "C", f"{BEGINNING[:8]}", 8),
        Arrival(30, "D", f"{BEGINNING[:12]}x", 6, beam_width=3),
    ),
    ON | {"num_blocks": 11},
)
SCENARIOS = [QUESTIONS, TURNS, CROWDED]


@pytest.fixture(scope="module", params=SCENARIOS, ids=lambda each: each.name)
def told(request):
    return story(request.param)


@pytest.fixture(scope="module")
def questions():
    return story(QUESTIONS)


def facts(snapshots, *kinds):
    return [event.fact for snapshot in snapshots for event in snapshot.events if event.kind in kinds]


@pytest.mark.slow
def test_every_number_on_the_screen_is_the_engines(told):
    before = None
    for snapshot, state in told:
        check_snapshot(snapshot, state)
        for size in ((140, 60), (140, 40), (100, 50)):
            check_frame(snapshot, before, state, *size)
        before = snapshot
    assert facts([snapshot for snapshot, _ in told], "PrefixHit")


def test_the_scenarios_have_it_all(questions):
    snapshots = [snapshot for snapshot, _ in questions]
    hits = facts(snapshots, "PrefixHit")
    assert {hit.num_free_before for hit in hits} >= {0, 4} and facts(snapshots, "Evicted")
    crowded = [snapshot for snapshot, _ in story(CROWDED)]
    assert facts(crowded, "Preempted") and facts(crowded, "Forked") and facts(crowded, "BlockCopied")
    yields = [event.why for snapshot in crowded for event in snapshot.events if event.kind == "Preempted"]
    assert all(why.endswith("computed again later, or hit") for why in yields)


@pytest.mark.parametrize("name", some_slow(["questions", "crowded", "large", "hostile"], ["crowded", "hostile"]))
def test_frames_fit_exactly(name):
    hostile = Scenario("", HOSTILE, tuple(Arrival(5 * i, f"[b]\n{i}日", HOSTILE, 9) for i in range(5)), ON)
    scenario = {"crowded": CROWDED, "hostile": hostile}.get(name, QUESTIONS)
    settings = {"large": {"num_blocks": 2000}, "hostile": {"num_blocks": 90}}.get(name, {})
    snapshots = [snapshot for snapshot, _ in story(scenario, HOSTILE, **settings)]
    for before, snapshot in list(zip([None, *snapshots], snapshots))[:: 1 + len(snapshots) // 12]:
        for size, ink in product(SIZES, (UNICODE, ASCII)):
            rows = view(snapshot, before, *size, ink, "title", "keys", focus="A").plain.split("\n")
            assert [cell_len(row) for row in rows] == [size[0]] * size[1]
            assert all(row.isprintable() for row in rows)
            assert ink is UNICODE or all(row.isascii() for row in rows)


@pytest.mark.parametrize("ink", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("size", some_slow(SIZES, SIZES[1:]), ids=lambda size: f"{size[0]}x{size[1]}")
def test_cached_is_told_without_colour(questions, size, ink):
    """In the cells, also tiny ones, in the memory line and in the free queue."""
    for (before, _), (snapshot, state) in [*pairwise(questions), *pairwise(story(QUESTIONS, num_blocks=28))]:
        text = view(snapshot, before, *size, ink).plain
        cached = set(state["cached"])
        for block in snapshot.blocks:
            pattern = rf"(?<!{re.escape(ink.cached)})[ *+-]{block.id}(?:{re.escape(ink.cached)}| cached )"
            is_cached = re.search(pattern, text.split("free queue")[0])
            assert bool(is_cached) == (block.id in cached)
        kept = re.search(rf" {re.escape(ink.cached)} (\d+) cached ", text)
        assert int(kept[1] if kept else 0) == 4 * len(cached) == state["usage"].cached_slots
        queue = re.search(rf"front {ink.arrow} ((?: [≡c]?\d+)*)", text)[1].split()
        shown = [f"{ink.cached * (block in cached)}{block}" for block in state["free_order"]]
        assert queue == shown[: len(queue)] and (len(queue) == len(shown) or "more" in text)


def test_what_a_cached_block_holds_is_what_was_written_there(told, request):
    """Also of sequences that came and went within one step: the texts are compared with every commit."""
    engine = ModelFreeEngine(**request.node.callspec.params["told"].settings)
    memory, commit, written = engine.memory, engine.memory.commit, {}

    def noting_commit(name, token_ids, num_computed_tokens):
        commit(name, token_ids, num_computed_tokens)
        for logical, block in enumerate(memory.table(name).blocks[: num_computed_tokens // 4]):
            written[block] = tuple(map(chr, token_ids[4 * logical : 4 * logical + 4]))

    memory.commit, num_cached = noting_commit, 0
    for snapshot in Run(request.node.callspec.params["told"], engine).snapshots():
        for block in snapshot.blocks:
            assert block.texts == (written[block.id] if block.state == "cached" else ())
            num_cached += block.state == "cached"
    assert num_cached > 50
    late = Run(Scenario("", "", ()), engine)  # a camera that has not seen what came before it
    [snapshot] = late.snapshots()
    assert {block.texts for block in snapshot.blocks} == {()} and " cached " in view(snapshot, None, 140, 60).plain


def test_the_text_is_drawn_on_nobodys_colour(questions):
    from rich.console import Console

    console = Console()
    for (before, _), (snapshot, state) in pairwise(questions):
        frame = view(snapshot, before, 140, 60)
        for row in frame.split("\n"):
            for found in re.finditer(r"(?<!≡)[ *+-]\d+( cached )", row.plain):
                assert row.get_style_at_offset(console, found.start(1)).bgcolor == CACHED.bgcolor
        for block in state["cached"]:
            words = [text.strip() or "␣" for text in snapshot.blocks[block].texts]
            assert all(word.replace("\n", "↵") in frame.plain for word in words)


def test_marks_tell_a_hit_from_a_block_taken(told):
    seen = set()
    for (before, _), (snapshot, _) in pairwise(told):
        scene = Scene(snapshot, before, UNICODE)
        taken = {block for fact in facts([snapshot], "BlocksTaken") for block in fact.blocks}
        taken |= {fact.destination for fact in facts([snapshot], "BlockCopied")}
        hit = {block: fact for fact in facts([snapshot], "PrefixHit") for block in fact.blocks}
        for old, new in zip(before.blocks, snapshot.blocks):
            mark = scene.mark(new.id)
            if new.id in hit and old.owners != new.owners:
                assert mark == ("&" if new.owners else "-")
                seen.add(old.state)
            assert (mark == "+") == (new.id in taken and bool(new.owners))
        for fact in facts([snapshot], "PrefixHit"):
            seq = scene.sequence(fact.sequence)
            assert [scene.is_new(seq, i) for i in range(seq.num_computed_tokens)] == [
                i >= fact.num_tokens for i in range(seq.num_computed_tokens)
            ]
            entries = [scene.entry_mark(seq, logical) for logical in range(len(seq.block_table))]
            assert set(entries[: len(fact.blocks)]) <= {"&"} and set(entries[len(fact.blocks) :]) <= {"+"}
    assert seen


def test_the_events_tell_what_became_of_every_block(told):
    """Who is hit leaves the queue, who can be hit goes to its back, and evicted is who has been there longest."""
    queue = []
    for snapshot, state in told:
        for event in snapshot.events:
            fact = event.fact
            if event.kind == "PrefixHit":
                free = [block for block in fact.blocks if block in queue]
                assert len(free) == fact.num_free_before and fact.num_tokens == 4 * len(fact.blocks)
                queue = [block for block in queue if block not in free]
            elif event.kind == "Evicted":
                assert queue[: len(fact.blocks)] == list(fact.blocks)
                del queue[: len(fact.blocks)]
            elif event.kind == "BlocksReleased":
                assert set(fact.kept) <= set(fact.freed)
                queue += fact.kept
        assert queue == state["cached"]
        cached = {f.request: f.num_cached_tokens for f in facts([snapshot], "Admitted")}
        hits = {f.sequence.partition(".")[0]: f.num_tokens for f in facts([snapshot], "PrefixHit")}
        assert {name: number for name, number in cached.items() if number} == hits


def test_sentences():
    hit, free = (
        "B's first 8 tokens are found in physical blocks 7 and 1: nothing to compute for them; ",
        "the free queue",
    )
    said = {
        events.PrefixHit("B", (7, 1), 8, 2, 5): f"{hit}nobody owned these, they leave {free}, 5 left",
        events.PrefixHit("B", (7, 1), 8, 1, 5): f"{hit}1 of these had no owner and leaves {free}, 5 left",
        events.PrefixHit("B", (7, 1), 8, 0, 5): f"{hit}all of these have an owner and are shared now",
        events.Evicted("B", (7,)): "B must use physical block 7, which was cached: it had waited longest of all cached "
        "ones (LRU), and what it held can't be hit any more",
        events.Admitted(
            "B", 21, 8, 6, 9
        ): "B may enter: its 21 tokens, 8 of them cached already, need 6 blocks; 9 were free before",
        events.BlocksReleased("B", (3, 7), 9, (3, 7)): "B gives back physical blocks 3 and 7, from its last to its "
        "first, to the back of the free queue: 9 are free now, and what they hold can still be hit",
        events.BlocksReleased(
            "B", (3, 7), 9, (7,)
        ): "B gives back physical blocks 3 and 7, from its last to its first: "
        "9 are free now; 3 goes to the front of the free queue, 7 can still be hit and goes to its back",
    }
    for fact, words in said.items():
        assert sentence(fact) == words
    assert "in physical block 7: nothing to compute for them; nobody owned it, it leaves" in sentence(
        events.PrefixHit("B", (7,), 4, 1, 5)
    )
    assert sentence(events.PrefixHit("B", (7,), 4, 0, 5)).endswith("it has an owner and is shared now")
    assert "7 and 8, which were cached: they had waited longest" in sentence(events.Evicted("B", (7, 8)))
    assert sentence(events.BlocksReleased("B", (5, 3), 9, (3,)), table=(7, 3, 5)).endswith(
        "of which 5 and 3 are freed: 9 are free now; 3 can still be hit and goes to the back of the free queue; "
        "7 still has an owner"
    )


def with_cached(num_blocks, cached):
    now = make_snapshot(num_blocks, 4, {"A": [7, 1, 30]}, {"A": 11})
    blocks = [
        replace(each, state="cached", filled=4, hash="0" * 8) if each.id in cached else each for each in now.blocks
    ]
    usage = replace(now.usage, cached_slots=4 * len(cached))
    return replace(now, blocks=tuple(blocks), usage=usage)


@pytest.mark.parametrize("ink", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_the_map_shows_groups_in_which_only_cached_blocks_are(ink):
    for num_blocks, (width, height) in product((400, 4000), ((60, 9), (80, 12), (140, 20))):
        now = with_cached(num_blocks, {0, 6, 31, 32, num_blocks - 1})
        rows = [row.plain for row in draw_grouped(Scene(now, None, ink), width, height, None)]
        assert f"{ink.cached} cached" in rows[0] or f"{ink.cached} none used, some cached" in rows[0]
        size, characters = read_map(rows, num_blocks)
        for group, char in enumerate(characters):
            states = {block.state for block in now.blocks[group * size : group * size + size]}
            assert (char == ink.cached) == ("cached" in states and "used" not in states)
            assert (char == ink.shades[0]) == (states == {"free"})


def test_the_memory_line_has_room_for_all_numbers(questions):
    large = with_cached(4000, set(range(100, 3900)))
    for snapshot, width in product([each for each, _ in questions] + [large], (60, 70, 80, 100, 120, 140)):
        bar, numbers = draw_memory(Scene(snapshot, None, UNICODE), width, 2)
        found = [int(each.replace(",", "")) for each in re.findall(r"[█▒≡░] ?([\d,]+)", numbers.plain)]
        [total] = re.findall(r"of ([\d,]+) slots", numbers.plain)
        assert sum(found) == int(total.replace(",", "")) == snapshot.usage.total_slots
        assert bar.cell_len == numbers.cell_len == width and "…" not in numbers.plain
        share = snapshot.usage.cached_slots / snapshot.usage.total_slots
        assert abs(bar.plain.count("≡") - share * (width - 8)) <= 1


@pytest.mark.slow
def test_a_replay_draws_what_the_live_run_drew(tmp_path):
    for number, scenario in enumerate(SCENARIOS):
        live = recorded(tmp_path / f"{number}.jsonl", scenario)
        replay = Replay(tmp_path / f"{number}.jsonl")
        assert drawn(replay) == live and replay.damage is None


@pytest.mark.slow
def test_whatever_is_changed_in_a_line_is_drawn_or_refused(tmp_path):
    file, draw = tmp_path / "run.jsonl", random.Random(0)
    recorded(file, QUESTIONS)
    lines = file.read_text().splitlines()
    at = next(i for i, each in enumerate(lines) if '"kind": "Evicted"' in each)
    for place in leaves(json.loads(lines[at])):
        changed = json.loads(lines[at])
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = draw.choice([None, "x", "cached", -1, 0, 2, 10**9, [], {}, 1.5, ["x"], True])
        file.write_text("\n".join([*lines[:at], json.dumps(changed)]) + "\n")
        replay = Replay(file)
        if replay.damage is None:
            *_, player = frames(replay)
            player.frame(120, 36, UNICODE)
            player.frame(60, 15, ASCII)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_requests(seed):
    """Snapshots equal the engine, and frames fit, whatever is asked for at once."""
    draw = random.Random(seed)
    steps = sorted(draw.randrange(30) for _ in range(6))
    arrivals = tuple(
        Arrival(step, name, BEGINNING[: draw.randint(1, 14)], draw.randint(1, 9), n=draw.choice((1, 1, 2, 4)))
        for step, name in zip(steps, "ABCDEF")
    )
    settings = ON | {"num_blocks": draw.randint(12, 30), "block_size": draw.choice((1, 2, 4))}
    engine, before = ModelFreeEngine(**settings), None
    for snapshot in Run(Scenario("", "", arrivals), engine).snapshots():
        check_snapshot(snapshot, state_of(engine))
        for width, height in ((120, 36), (60, 15)):
            rows = view(snapshot, before, width, height).plain.split("\n")
            assert [cell_len(row) for row in rows] == [width] * height
        before = snapshot
