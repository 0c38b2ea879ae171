"""Shared blocks in the visualizer: who owns them can be read without colour, at any size, and every sentence is true.

The engine has no model (test_visualize.py); that frames show the shipped model's numbers is tested there.
"""

import random
import re
from dataclasses import replace
from itertools import pairwise, product

import pytest
from harness import some_slow
from rich.cells import cell_len
from test_grouped import make_snapshot
from test_recording import drawn, leaves, recorded
from test_visualize import (
    HOSTILE,
    SIZES,
    ModelFreeEngine,
    check_frame,
    check_snapshot,
    expanded,
    played,
    state_of,
    story,
)

from visualize.app import frames
from visualize.grouped import draw_grouped
from visualize.ink import ASCII, NEW, OKABE_ITO, UNICODE
from visualize.panels import draw_memory
from visualize.recording import Replay, read_snapshot
from visualize.requests import draw_requests
from visualize.scenarios import BEAM_SEARCH, PARALLEL_SAMPLING, Arrival, Run, Scenario
from visualize.scene import Scene
from visualize.sharing import ranges, striped, together
from visualize.view import view

# A byte is a token here: 10 tokens, as for the shipped model.
ARRIVALS = tuple(replace(each, prompt=each.prompt[-10:]) for each in PARALLEL_SAMPLING.arrivals)
PARALLEL = replace(PARALLEL_SAMPLING, arrivals=ARRIVALS)
# Two groups and a request by itself, in a pool where somebody must yield again and again.
CROWDED = Scenario(
    "crowded",
    "",
    (Arrival(0, "A", "abcdefgh", 9, n=3), Arrival(1, "B", "ijklmnopqr", 7, n=4), Arrival(2, "C", "stuvwxyz", 8)),
    {"num_blocks": 10, "block_size": 4, "max_num_seqs": 8, "max_num_batched_tokens": 8},
)


@pytest.fixture(scope="module")
def parallel():
    return story(PARALLEL)


@pytest.fixture(scope="module")
def crowded():
    return story(CROWDED)


def kinds(snapshot, kind):
    return [event.fact for event in snapshot.events if event.kind == kind]


def test_the_scenario_forks_three_times_copies_three_times_and_the_fourth_writes_in_place(parallel):
    [at] = [i for i, (snapshot, _) in enumerate(parallel) if kinds(snapshot, "Forked")]
    before, forked = parallel[at - 1][0], parallel[at][0]
    [(copied, _)] = [pair for pair in parallel if kinds(pair[0], "BlockCopied")]
    assert [(fact.parent, fact.child) for fact in kinds(forked, "Forked")] == [("A.1", f"A.{i}") for i in (2, 3, 4)]
    copies = kinds(copied, "BlockCopied")
    assert [fact.num_owners for fact in copies] == [4, 3, 2] and len({fact.source for fact in copies}) == 1
    [fourth] = [seq for seq in copied.sequences if seq.name == "A.4"]
    assert copied.step == forked.step + 1 and copies[0].source in fourth.block_table
    for size, ink in product(SIZES, (UNICODE, ASCII)):
        text = view(copied, forked, *size, ink).plain
        shown = re.search(r"copied ((?:\d+->?\d+ )+)(?:\+(\d) more )?".replace("->?", re.escape(ink.arrow)), text)
        pairs = [tuple(map(int, pair.split(ink.arrow))) for pair in shown[1].split()]
        assert pairs == [(fact.source, fact.destination) for fact in copies][: len(pairs)]
        assert len(pairs) + int(shown[2] or 0) == 3
        assert not re.search(r"copied \d", view(forked, before, *size, ink).plain)


@pytest.mark.parametrize("scenario", some_slow([PARALLEL, CROWDED], [CROWDED]), ids=lambda each: each.name)
def test_every_number_on_the_screen_is_the_engines(scenario):
    before = None
    for snapshot, state in story(scenario):
        check_snapshot(snapshot, state)
        check_frame(snapshot, before, state, 140, 60)
        check_frame(snapshot, before, state, 100, 50)
        before = snapshot


@pytest.mark.parametrize(
    "name", some_slow(["parallel", "crowded", "large", "hostile"], ["crowded", "large", "hostile"])
)
def test_frames_fit_exactly(name):
    arrivals = (Arrival(0, "request[/b]\n\u65e5", HOSTILE, 9, n=4), Arrival(1, "B", HOSTILE, 9, n=3))
    stories = {
        "parallel": lambda: story(PARALLEL),
        "crowded": lambda: story(CROWDED),
        "large": lambda: story(PARALLEL, num_blocks=2000),
        "hostile": lambda: story(Scenario("", HOSTILE, arrivals, CROWDED.settings), HOSTILE, num_blocks=99),
    }
    snapshots = [snapshot for snapshot, _ in stories[name]()]
    for before, snapshot in list(zip([None, *snapshots], snapshots))[:: 1 + len(snapshots) // 12]:
        for (width, height), ink in product(SIZES, (UNICODE, ASCII)):
            rows = view(snapshot, before, width, height, ink, "title", "keys", focus="A.2").plain.split("\n")
            assert [cell_len(row) for row in rows] == [width] * height
            assert all(row.isprintable() for row in rows)
            assert ink is UNICODE or all(row.isascii() for row in rows)


def test_at_the_smallest_size_sharing_is_told_without_colour(parallel):
    """In the pool, in the memory line and in the requests, which are one line for all answers to a prompt."""
    for (before, _), (snapshot, state) in pairwise(parallel):
        text = view(snapshot, before, 60, 15, ASCII).plain
        usage = state["usage"]
        assert not usage.saved_blocks or re.search(rf" {usage.saved_blocks} (?:blocks? )?saved", text)
        for block in snapshot.blocks:
            if block.ref_count > 1:
                assert re.search(rf"\b{block.id}A x{block.ref_count}\b", text)
        tables = [table for name, table in state["tables"].items() if name.startswith("A.")]
        if len(tables) > 1:
            blocks, named = len({block for table in tables for block in table}), sum(map(len, tables))
            assert f"A.1-4  {blocks} blocks, named {named} times" in text
        if "B" in state["tables"]:
            assert re.search(r"\n B\S  +running ", text)


def test_released_and_forked_tables_are_the_memorys():
    """What a sentence says of a fork or a release is what the memory did, at that moment within the step."""
    engine, told = ModelFreeEngine(**CROWDED.settings), []
    memory, release, fork = engine.memory, engine.memory.release, engine.memory.fork

    def noting_release(name):
        told.append((name, tuple(memory.table(name).blocks)))
        release(name)

    def noting_fork(parent, child):
        told.append((child, tuple(memory.table(parent).blocks)))
        fork(parent, child)

    memory.release, memory.fork = noting_release, noting_fork
    events = [event for snapshot in Run(CROWDED, engine).snapshots() for event in snapshot.events]
    events = [event for event in events if event.kind in ("Forked", "BlocksReleased")]
    assert [(getattr(event.fact, "child", None) or event.fact.sequence, event.table) for event in events] == told
    released = [event for event in events if event.kind == "BlocksReleased"]
    assert any(not event.fact.freed for event in released) and len(events) > 20
    for event in released:
        kept = set(event.table) - set(event.fact.freed)
        assert bool(kept) == ("owner" in event.why) and ("none is freed" in event.why) == (not event.fact.freed)


def test_marks_tell_a_block_taken_from_one_that_only_changed_its_owners(crowded):
    seen = set()
    for (before, _), (snapshot, _) in pairwise(crowded):
        scene = Scene(snapshot, before, UNICODE)
        taken = {block for fact in kinds(snapshot, "BlocksTaken") for block in fact.blocks}
        taken |= {fact.destination for fact in kinds(snapshot, "BlockCopied")}
        for old, new in zip(before.blocks, snapshot.blocks):
            mark = scene.mark(new.id)
            seen.add(mark)
            if mark == "+":
                assert new.id in taken and new.owners
            elif mark == "-":
                assert old.owners and not new.owners
            elif mark == "&":
                assert old.owners != new.owners and new.owners and new.id not in taken and old.filled == new.filled
            elif mark == "*":
                assert old.filled != new.filled and new.owners and new.id not in taken
            else:
                assert old.owners == new.owners and old.filled == new.filled
    assert seen == set("+-&* ")


def test_only_what_was_computed_in_a_step_is_new(crowded):
    """Not what a fork finds there, nor what was copied."""
    for (before, _), (snapshot, _) in pairwise(crowded):
        scene = Scene(snapshot, before, UNICODE)
        rows = {
            (fact.sequence, i)
            for fact in kinds(snapshot, "Scheduled")
            for i in range(fact.start, fact.start + fact.num_tokens)
        }
        parents = {fact.child: fact.parent for fact in kinds(snapshot, "Forked")}
        for seq in snapshot.sequences:
            for position in range(seq.num_computed_tokens):
                assert scene.is_new(seq, position) == ((parents.get(seq.name, seq.name), position) in rows)
            old = {each.name: each for each in before.sequences}
            if seq.name in old:
                assert scene.num_old_tokens(seq) == old[seq.name].num_tokens


def test_a_table_marks_the_entries_of_a_fork_and_of_a_copy(parallel):
    [at] = [i for i, (snapshot, _) in enumerate(parallel) if kinds(snapshot, "Forked")]
    forked, copied = parallel[at][0], parallel[at + 1][0]
    text = view(forked, parallel[at - 1][0], 140, 60).plain
    shared = [seq for seq in forked.sequences if seq.index]
    for seq in shared:
        assert all(f"&{i}→{block}" in text for i, block in enumerate(seq.block_table))
    text = view(copied, forked, 140, 60).plain
    assert all(f"+{fact.logical}→{fact.destination}" in text for fact in kinds(copied, "BlockCopied"))
    assert text.count("&") == 0


def test_a_group_that_came_back_waits_to_be_forked_and_a_dropped_one_is_only_counted(crowded):
    texts = ["\n".join(row.plain for row in draw_requests(Scene(now, None, UNICODE), 90, 20)) for now, _ in crowded]
    assert any("is forked again once the prompt is computed" in text for text in texts)
    assert any(re.search(r"C\S +waiting +.*behind B in the queue", text) for text in texts)
    snapshot = next(now for now, _ in crowded if len([seq for seq in now.sequences if seq.request == "A"]) == 3)
    record = snapshot.to_dict() | {"step": 0}
    for seq in record["sequences"]:
        if seq["name"] == "A.2":
            seq |= {"status": "finished", "finish_reason": "dropped", "block_table": [], "num_computed_tokens": 0}
    rows = draw_requests(Scene(read_snapshot(record), None, UNICODE), 90, 20)
    assert any(re.search(r"^ A .*A\.1,3 .*, 1 dropped", row.plain) for row in rows)
    assert not any("A.2" in row.plain for row in rows)


def test_the_map_and_the_lens_show_who_shares_a_block():
    tables = {"A.1": [7, 1999, 3], "A.2": [7, 1999, 4], "A.4": [7, 8], "B": [12]}
    now = make_snapshot(2000, 4, tables, {"A.1": 11, "A.2": 9, "A.4": 8, "B": 4})
    for ink in (UNICODE, ASCII):
        text = "\n".join(row.plain for row in draw_grouped(Scene(now, None, ink), 120, 40, "B"))
        assert "1 character = 1 block" in text and "2-9 owners" in text
        first, last = re.search(r"\n *0 (\S+)", text)[1], re.findall(r"(\S)\s*\n", text.split("B" + ink.glyphs[3])[0])
        assert first[7] == "3" and first[3] == ink.shades[-1] and "2" in last
        lens = "\n".join(row.plain for row in draw_grouped(Scene(now, None, ink), 120, 40, "A.1"))
        assert re.search(rf"0{ink.arrow}7 +4/4 x3", lens)
        assert re.search(rf"2{ink.arrow}3 +3/4(?: |$)(?!x)", lens)


def test_owners_in_few_cells():
    assert ranges([1]) == "1" and ranges([1, 2]) == "1-2" and ranges([5, 1, 2, 3]) == "1-3,5"
    now = make_snapshot(4, 4, {"A": [0], "B": [0]}, {"A": 3, "B": 3})
    assert together(now.sequences, UNICODE) == "A B" and list(expanded("A.1-3,5 B")) == [
        "A.1",
        "A.2",
        "A.3",
        "A.5",
        "B",
    ]
    text = striped("abcdef", ["red", "blue"])
    assert [(span.start, span.end, span.style) for span in sorted(text.spans)] == [(0, 3, "red"), (3, 6, "blue")]


def test_a_shared_block_has_a_stripe_of_every_owners_colour(parallel):
    from rich.console import Console

    [at] = [i for i, (snapshot, _) in enumerate(parallel) if kinds(snapshot, "Forked")]
    console, colours = Console(), {colour.lower() for colour, _ in OKABE_ITO[:4]}
    frame = view(parallel[at][0], parallel[at - 1][0], 100, 80)
    row = next(row for row in frame.split("\n") if re.search(r"x4.*x4", row.plain))
    seen = {row.get_style_at_offset(console, i).bgcolor for i in range(len(row.plain))}
    assert {each.name for each in seen if each} == colours
    numbers = [row.get_style_at_offset(console, found.start()) for found in re.finditer("x4", row.plain)]
    assert numbers and all(style + NEW == style for style in numbers)  # new owners since this step


def test_the_memory_line_says_what_sharing_saves_in_any_width(parallel):
    for snapshot, state in parallel:
        usage = state["usage"]
        for width, height in product((60, 70, 80, 100, 120, 140), (1, 2)):
            text = draw_memory(Scene(snapshot, None, UNICODE), width, height)[-1].plain
            assert f"{usage.used_slots} used" in text and len(text) == width
            assert ("saved" in text or "saves" in text) == bool(usage.saved_blocks)


def test_a_replay_draws_what_the_live_run_drew(tmp_path):
    for number, scenario in enumerate((CROWDED, BEAMS)):
        live = recorded(tmp_path / f"{number}.jsonl", scenario)
        replay = Replay(tmp_path / f"{number}.jsonl")
        assert drawn(replay) == live and replay.damage is None


BEAMS = Scenario("", "", (Arrival(0, "A", "abcde", 9, beam_width=4), Arrival(1, "B", "fghi", 5)), PARALLEL.settings)


def test_beams_that_are_given_up_say_so_first_and_are_only_counted():
    num_dropped = 0
    for (before, _), (snapshot, state) in pairwise(story(BEAMS)):
        check_snapshot(snapshot, state)
        check_frame(snapshot, before, state, 140, 60)
        dropped = [event for event in snapshot.events if event.dropped]
        texts = {size: re.sub(r"\s+", " ", view(snapshot, before, *size).plain) for size in ((140, 40), (60, 15))}
        assert all(
            event.kind == "BlocksReleased" and "is followed no further: it gives" in event.why for event in dropped
        )
        assert all(event.why in texts[140, 40] for event in dropped)
        assert not dropped or dropped[0].why.partition(":")[0] in texts[60, 15]
        num_dropped += len(dropped)
        ended = [seq for seq in snapshot.sequences if seq.finish_reason == "dropped"]
        assert len(ended) == num_dropped and (f"{num_dropped} dropped" in texts[140, 40]) == bool(num_dropped)
    assert num_dropped > 4


def test_the_moment_of_the_papers_figure_9():
    """Two of four beams end, all that go on come from the two others, and four blocks are freed."""
    snapshots = [snapshot for snapshot, _ in played(BEAM_SEARCH)]
    dropped = [event for event in snapshots[5].events if event.dropped]
    freed = {block for event in dropped for block in event.fact.freed}
    assert len(dropped) == 2 and len(freed) == 4 and freed < set(snapshots[5].free_order)
    kept = {block for event in dropped for block in event.table} - freed
    assert kept and all(snapshots[5].blocks[block].owners for block in kept)


@pytest.mark.slow
def test_whatever_is_changed_in_a_line_is_drawn_or_refused(tmp_path):
    import json

    file, draw = tmp_path / "run.jsonl", random.Random(0)
    recorded(file, PARALLEL)
    lines = file.read_text().splitlines()
    at = next(i for i, each in enumerate(lines) if '"kind": "BlockCopied"' in each)
    for number in (at - 1, at):
        for place in leaves(json.loads(lines[number])):
            if place[0] == "blocks" and draw.random() < 0.8:
                continue
            changed = json.loads(lines[number])
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = draw.choice([None, "x", -1, 0, 2, 10**9, [], {}, 1.5, ["x"], True])
            file.write_text("\n".join([*lines[:number], json.dumps(changed)]) + "\n")
            replay = Replay(file)
            if replay.damage is None:
                *_, player = frames(replay)
                player.frame(120, 36, UNICODE)
                player.frame(60, 15, ASCII)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_groups(seed):
    """Snapshots equal the engine, and frames fit, whatever is asked for at once."""
    draw = random.Random(seed)
    arrivals = tuple(
        Arrival(draw.randrange(9), "ABCDEF"[i], "x" * draw.randint(1, 14), draw.randint(1, 9), n=draw.choice((1, 2, 4)))
        for i in range(draw.randint(1, 6))
    )
    settings = {"num_blocks": draw.randint(12, 30), "block_size": draw.choice((1, 2, 4)), "max_num_seqs": 8}
    arrivals = tuple(sorted(arrivals, key=lambda each: each.step))
    engine = ModelFreeEngine(**settings, max_num_batched_tokens=draw.randint(8, 20))
    before = None
    for snapshot in Run(Scenario("", "", arrivals), engine).snapshots():
        check_snapshot(snapshot, state_of(engine))
        for width, height in ((120, 36), (60, 15)):
            rows = view(snapshot, before, width, height).plain.split("\n")
            assert [cell_len(row) for row in rows] == [width] * height
        before = snapshot
