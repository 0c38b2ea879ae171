"""Reserved blocks in the visualizer: that nothing is in them and for whom they are kept is read without colour, at any
size, and every sentence is true.

The engine has no model (test_visualize.py), but for the story `reservations`.
"""

import json
import random
import re
from dataclasses import replace
from itertools import pairwise, product

import pytest
from harness import some_slow
from rich.cells import cell_len
from test_grouped import read_map
from test_recording import drawn, leaves
from test_visualize import HOSTILE, SIZES, ModelFreeEngine, check_frame, check_snapshot, played, state_of

from minipaged import events
from minipaged.memory.buddy import Buddy
from minipaged.memory.contiguous import POLICIES
from visualize.app import frames
from visualize.help import help_pages
from visualize.ink import ASCII, UNICODE
from visualize.panels import draw_memory
from visualize.recording import Recorded, Replay
from visualize.reserved import free_runs
from visualize.scenarios import RESERVATIONS, Arrival, Run, Scenario, of_prompts
from visualize.scene import Scene
from visualize.view import view
from visualize.why import sentence


class SmallModel(ModelFreeEngine):
    max_model_len = 40


# Runs of 8, 4, 2 and 1 blocks come and go; D and F find enough free blocks, and not side by side.
ARRIVALS = (
    Arrival(0, "A", "abcdefghij", 5),
    Arrival(0, "B", "klm", 6),
    Arrival(1, "C", "n", 4),
    Arrival(2, "D", "opqrstuv", 14),
    Arrival(4, "E", "wx", 9),
    Arrival(6, "F", "yzyzyz", 20),
)
SETTINGS = {"num_blocks": 21, "block_size": 4, "max_num_seqs": 6, "max_num_batched_tokens": 12}


def small(policy, num_blocks=21):
    return Scenario(policy, "", ARRIVALS, SETTINGS | {"memory": policy, "num_blocks": num_blocks})


def story(scenario, text="ab\n"):
    engine = SmallModel(**scenario.settings, text=text)
    return [(snapshot, state_of(engine)) for snapshot in Run(scenario, engine).snapshots()]


@pytest.fixture(scope="module", params=POLICIES)
def told(request):
    return story(small(request.param))


@pytest.fixture(scope="module")
def shipped():
    return played(RESERVATIONS)


def facts(snapshots, *kinds):
    return [event.fact for snapshot in snapshots for event in snapshot.events if event.kind in kinds]


def test_every_number_on_the_screen_is_the_engines(told):
    before = None
    for snapshot, state in told:
        check_snapshot(snapshot, state)
        check_frame(snapshot, before, state, 140, 60)
        check_frame(snapshot, before, state, 100, 50)
        before = snapshot


def test_the_story_is_what_it_says(shipped):
    """At most two of five run, each with 64 blocks, and hardly a slot is written; without reservations all fit."""
    snapshots = [snapshot for snapshot, _ in shipped]
    running = [[seq.name for seq in each.sequences if seq.status == "running"] for each in snapshots]
    assert max(map(len, running)) == 2 and [seq.status for seq in snapshots[-1].sequences] == ["finished"] * 5
    waited = {fact.sequence for fact in facts(snapshots, "NoRun")}
    assert waited == set("CDE") and not facts(snapshots, "Preempted", "Refused")
    assert {(fact.num_slots, fact.num_blocks) for fact in facts(snapshots, "Reserved")} == {(1024, 64)}
    crowded = [each for each in snapshots if each.queue and len([s for s in each.sequences if s.block_table]) == 2]
    assert len(crowded) > 20 and all(each.usage.used_slots < 0.05 * each.usage.total_slots for each in crowded)
    last = snapshots[-1].sequences
    blocks = [-(-(seq.num_tokens - 1) // 16) for seq in last]
    assert sum(blocks) == 12 and "filled 12 of the 128" in RESERVATIONS.after
    assert max(seq.num_tokens for seq in last) == 35 and "than 35 tokens" in RESERVATIONS.before
    paged = [each for each, _ in played(replace(RESERVATIONS, settings=RESERVATIONS.settings | {"memory": "paged"}))]
    assert not facts(paged, "NoRun", "KeptWaiting", "Reserved") and len(paged) < len(snapshots) / 1.5
    assert [seq.text for seq in paged[-1].sequences] == [seq.text for seq in last]


@pytest.mark.parametrize("ink", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_the_frames_of_the_story_are_the_engines_state(shipped, ink):
    """128 blocks, each in a tiny cell where there is room and on the map where there is not."""
    for (before, _), (snapshot, state) in pairwise(shipped):
        tables = {block: name for name, table in state["tables"].items() for block in table}
        empty = {i: name for name, run in state["runs"].items() for i in run if i not in tables}
        rows = view(snapshot, before, 120, 36, ink, "title", "keys").plain.split("\n")
        assert [cell_len(row) for row in rows] == [120] * 36
        pool = "\n".join(row[57:] for row in rows[7:-1])
        kept, owner = re.escape(ink.reserved), rf"([A-E])([{re.escape(ink.glyphs)}{re.escape(ink.reserved)}])"
        cells = re.findall(rf"[ *+-] ?(\d+){owner}", pool.split("free runs")[0])
        for number, name, sign in cells:
            assert (empty if sign == ink.reserved else tables).pop(int(number)) == name
        assert not empty and not tables

        text = view(snapshot, before, 80, 24, ink, "title", "keys").plain
        assert f"{ink.reserved} reserved" in text and re.search(
            rf"{kept} {snapshot.usage.reserved_slots:,} reserved", text
        )
        for line in (text, pool):
            shown = re.search(r"free runs  ( [^\n]*?)(?: *│| *\n)", line)[1]
            runs = re.findall(r"(\d+)-(\d+) \((\d+)\)", shown)
            free = [i for first, last, _ in runs for i in range(int(first), int(last) + 1)]
            assert free == sorted(state["free_order"]) and (free or " none" in shown)


@pytest.mark.parametrize("name", some_slow([*POLICIES, "hostile", "large"], ["max", "oracle", "hostile", "large"]))
def test_frames_fit_exactly(name):
    arrivals = tuple(Arrival(i, f"[b]\n{i}日", HOSTILE[:9], 9) for i in range(5))
    hostile = Scenario("", HOSTILE, arrivals, small("pow2").settings)
    scenario = {"hostile": hostile, "large": small("pow2", 2000)}.get(name) or small(name)
    snapshots = [snapshot for snapshot, _ in story(scenario, HOSTILE)]
    assert facts(snapshots, "Reserved")
    for before, snapshot in list(zip([None, *snapshots], snapshots))[:: 1 + len(snapshots) // 12]:
        for (width, height), ink in product(SIZES, (UNICODE, ASCII)):
            rows = view(snapshot, before, width, height, ink, "title", "keys", focus="A").plain.split("\n")
            assert [cell_len(row) for row in rows] == [width] * height
            assert all(row.isprintable() for row in rows)
            assert ink is UNICODE or all(row.isascii() for row in rows)


def test_reserved_is_told_apart_from_free_and_from_used(told):
    """In the cells and in the memory line; a run is taken as a whole, marked, and given back as a whole."""
    for (before, _), (snapshot, state) in pairwise(told):
        text = view(snapshot, before, 140, 60).plain.split("free runs")[0]
        empty = {block.id: block.owners[0] for block in snapshot.blocks if block.state == "reserved"}
        shown = {int(i): name for i, name in re.findall(r"[ *+-](\d+) ([A-F])□ reserved", text)}
        assert shown == empty
        scene = Scene(snapshot, before, UNICODE)
        for fact in facts([snapshot], "Reserved"):
            run = range(fact.first_block, fact.first_block + fact.num_blocks)
            if fact.sequence in state["runs"]:
                assert {scene.mark(block) for block in run} == {"+"} and state["runs"][fact.sequence] == run
        for fact in facts([snapshot], "BlocksReleased"):
            assert sorted(fact.freed) == list(range(min(fact.freed), max(fact.freed) + 1))
            assert all(scene.mark(block) == "-" for block in fact.freed if not snapshot.blocks[block].owners)
            [seq] = [seq for seq in snapshot.sequences if seq.name == fact.sequence]
            assert seq.status == "finished" and not seq.block_table
    assert not any(block.owners for block in told[-1][0].blocks)


def test_the_memory_line_has_room_for_all_numbers(shipped, told):
    for (snapshot, _), width in product([*shipped, *told], (60, 70, 80, 100, 120, 140)):
        bar, numbers = draw_memory(Scene(snapshot, None, UNICODE), width, 2)
        found = [int(each.replace(",", "")) for each in re.findall(r"[█▒□░] ?([\d,]+)", numbers.plain)]
        assert len(found) == 4 and sum(found) == snapshot.usage.total_slots
        assert bar.cell_len == numbers.cell_len == width and "…" not in numbers.plain
        share = snapshot.usage.reserved_slots / snapshot.usage.total_slots
        assert abs(bar.plain.count("□") - share * (width - 8)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("ink", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_the_map_shows_groups_in_which_nothing_is_written(ink):
    for num_blocks, (width, height) in product((300, 2000), ((60, 15), (80, 24))):
        for snapshot, _ in story(small("max", num_blocks)):
            rows = view(snapshot, None, width, height, ink).plain.split("\n")
            [start] = [i for i, row in enumerate(rows) if "1 character = " in row]
            size, characters = read_map(rows[start:], num_blocks)
            for group, char in enumerate(characters):
                states = {block.state for block in snapshot.blocks[group * size : group * size + size]}
                assert (char == ink.reserved) == ("reserved" in states and "used" not in states)
                assert (char == ink.shades[0]) == (states == {"free"})
            assert f"{ink.reserved} " in rows[start] and "reserved" in rows[start]


def test_why_somebody_waits_though_enough_blocks_are_free():
    """External fragmentation: told by the memory, in runs, and in the row of who waits."""
    fragmented = 0
    for snapshot, _ in [pair for policy in POLICIES for pair in story(small(policy))]:
        waits = [event for event in snapshot.events if event.kind in ("NoRun", "KeptWaiting")]
        assert len(waits) <= 1  # the scheduler says it too, in blocks
        for event in waits:
            assert event.kind == "NoRun" or event.fact.reason != "blocks"
            if event.kind == "NoRun" and event.fact.num_free >= event.fact.num_blocks:
                fragmented += 1
                assert event.fact.longest < event.fact.num_blocks
                assert f", but no more than {event.fact.longest} side by side" in event.why
                assert (
                    f"no run of {event.fact.num_blocks} blocks, {event.fact.num_free} were free"
                    in view(snapshot, None, 100, 50).plain.split("── Why")[0]
                )
    assert fragmented > 5


def test_free_runs_are_the_buddies():
    assert free_runs([12, 8, 9, 10, 11]) == [range(12, 13), range(8, 12)]
    rng = random.Random(0)
    for num_blocks in (1, 13, 64):
        buddy, runs = Buddy(num_blocks), []
        for _ in range(300):
            if rng.random() < 0.6 and (start := buddy.allocate(rng.randint(1, 6))) is not None:
                runs.append(start)
            elif runs:
                buddy.free(runs.pop(rng.randrange(len(runs))))
            expected = [range(start, start + (1 << k)) for k, starts in enumerate(buddy._free) for start in starts]
            assert sorted(free_runs(buddy.free_order()), key=str) == sorted(expected, key=str)


def test_sentences():
    said = {
        events.Reserved(
            "A", "max", 1024, 0, 64, 128
        ): "A reserves a run, physical blocks 0 to 63, 64 of the 128 that were "
        "free: 1,024 slots for the longest text that the model allows",
        events.Reserved(
            "A", "pow2", 1, 5, 1, 7
        ): "A reserves a run, physical block 5, 1 of the 7 that were free: 1 slot "
        "for its prompt and its output, that rounded up to a power of two",
        events.NoRun("C", 64, 0, 0): "C keeps waiting: no run of 64 blocks, 0 were free",
        events.NoRun(
            "C", 8, 12, 4
        ): "C keeps waiting: no run of 8 blocks, 12 were free, but no more than 4 side by side",
        events.Refused(
            "A", 3, 5, "memory", 4, 1
        ): "A is refused: its 4 sequences would share the prompt, and blocks are shared in paged memory only",
    }
    for fact, words in said.items():
        assert sentence(fact) == words
    taken = events.BlocksTaken("A", 0, False, (64, 65), 0)
    assert sentence(taken, in_run=True) == "A begins in physical blocks 64 and 65, at the front of its run"
    taken = events.BlocksTaken("A", 2, True, (66,), 0)
    assert sentence(taken, in_run=True) == "A goes on in physical block 66, the next in its run"
    released = events.BlocksReleased("A", (67, 66, 65, 64), 9)
    assert sentence(released, in_run=True) == (
        "A gives back its whole run, physical blocks 64 to 67, written or not: 9 are free now"
    )


def test_the_help_explains_the_sign():
    for ink in (UNICODE, ASCII):
        assert f"A{ink.reserved} " in "".join(page.plain for page in help_pages(80, 60, ink))


def recorded(path, scenario):
    with path.open("w") as file:
        return drawn(Recorded(Run(scenario, SmallModel(**scenario.settings)), file))


@pytest.mark.slow
def test_a_replay_draws_what_the_live_run_drew(tmp_path):
    for policy in POLICIES:
        live = recorded(tmp_path / policy, small(policy))
        replay = Replay(tmp_path / policy)
        assert drawn(replay) == live and replay.damage is None


@pytest.mark.slow
def test_whatever_is_changed_in_a_line_is_drawn_or_refused(tmp_path):
    file, draw = tmp_path / "run.jsonl", random.Random(0)
    recorded(file, small("oracle"))
    lines = file.read_text().splitlines()
    at = next(i for i, each in enumerate(lines) if '"kind": "NoRun"' in each)
    for place in leaves(json.loads(lines[at])):
        changed = json.loads(lines[at])
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = draw.choice([None, "x", "reserved", "max", -1, 0, 2, 10**9, [], {}, 1.5, ["x"], True])
        file.write_text("\n".join([*lines[:at], json.dumps(changed)]) + "\n")
        replay = Replay(file)
        if replay.damage is None:
            *_, player = frames(replay)
            player.frame(120, 36, UNICODE)
            player.frame(60, 15, ASCII)


def test_prompts_of_ones_own_have_a_pool_that_holds_a_run():
    settings = of_prompts(["a"], 7, memory="max").settings
    assert settings["num_blocks"] * settings["block_size"] == 2 * 1024
    assert "enable_prefix_caching" not in settings
