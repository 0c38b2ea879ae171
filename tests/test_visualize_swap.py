"""Two pools in the visualizer: what is drawn of the host pool is what it holds, every sentence of swapping is true, and
where there is no host pool nothing is drawn of one.

The engine has no model (test_visualize.py); what the stories say is tested in test_pressure_stories.py.
"""

import random
import re
from dataclasses import replace
from itertools import pairwise, product

import pytest
from rich.cells import cell_len
from test_recording import drawn, recorded
from test_visualize import HOSTILE, MIXED, POOL, ModelFreeEngine, check_frame, check_snapshot, state_of, story

from minipaged import events
from visualize.__main__ import main
from visualize.app import frames
from visualize.budget import draw_budget
from visualize.host import draw_host
from visualize.ink import ASCII, UNICODE
from visualize.recording import Replay
from visualize.scenarios import Arrival, Run, Scenario
from visualize.scene import Scene
from visualize.view import view
from visualize.why import sentence

SIZES = [(140, 40), (120, 36), (120, 20), (100, 30), (80, 24), (60, 15), (60, 80)]
SETTINGS = {"block_size": 4, "max_num_seqs": 8, "max_num_batched_tokens": 16, "preemption": "swap"}

SINGLE = Scenario(
    "single",
    "",
    tuple(Arrival(i, name, "abcdefghijklm"[: 7 + i], 14) for i, name in enumerate("ABCD")),
    SETTINGS | {"num_blocks": 14, "swap_blocks": 9},
)
GROUPS = Scenario(
    "groups",
    "",
    (
        Arrival(0, "A", "abcdefgh", 12),
        Arrival(1, "B", "abcdefghij", 9, n=3),
        Arrival(2, "C", "abcdefghi", 9, n=2),
        Arrival(9, "D", "xyz", 6, beam_width=3),
    ),
    SETTINGS | {"num_blocks": 13, "swap_blocks": 12},
)
SCENARIOS = [
    SINGLE,
    GROUPS,
    replace(SINGLE, name="caching", settings=SINGLE.settings | {"enable_prefix_caching": True}),
    replace(GROUPS, name="groups, caching", settings=GROUPS.settings | {"enable_prefix_caching": True}),
    replace(SINGLE, name="full", settings=SINGLE.settings | {"swap_blocks": 4}),  # some are swapped, others recompute
]


@pytest.fixture(scope="module", params=SCENARIOS, ids=lambda each: each.name)
def told(request):
    return story(request.param)


def facts(told, *kinds):
    return [event for snapshot, _ in told for event in snapshot.events if event.kind in kinds]


@pytest.mark.slow
def test_every_number_on_the_screen_is_the_engines(told):
    assert facts(told, "SwappedOut") and facts(told, "SwappedIn")
    before = None
    for snapshot, state in told:
        check_snapshot(snapshot, state)
        for size in ((180, 60), (115, 50)):
            check_frame(snapshot, before, state, *size)
            check_host_panel(snapshot, before, *size)
            check_swapped_tables(snapshot, view(snapshot, before, *size).plain)
        before = snapshot


def check_host_panel(snapshot, before, width, height):
    """Every block of the host pool once, with its owners, how full it is, and what happened to it."""
    text, host = view(snapshot, before, width, height).plain, snapshot.host
    free = re.search(r"(\d+) of (\d+) blocks? free", text)
    assert (int(free[1]), int(free[2])) == (len(host.free_order), host.num_blocks)
    cells = re.findall(r"([ +-]) ?h(\d+) (?:(free)|([A-D]\S*)(?: ?(x\d+))? +(\d+)/(\d+))", text)
    assert [int(number) for _, number, *_ in cells] == list(range(host.num_blocks))
    for mark, number, is_free, who, times, filled, size in cells:
        block = host.blocks[int(number)]
        changed = before and before.host.blocks[block.id].owners != block.owners
        assert mark == (" " if not changed else "+" if block.owners else "-")
        assert bool(is_free) == (not block.owners)
        if block.owners:
            assert (int(filled), int(size)) == (block.filled, snapshot.block_size)
            assert times == f"x{block.ref_count}" * (len(block.owners) > 1)
            assert who.startswith(block.owners[0][0])


def check_swapped_tables(snapshot, text):
    for seq in snapshot.sequences:
        if seq.is_swapped:
            progress = re.search(
                rf"{re.escape(seq.name)}\S +swapped +(\d+)(?:/| of )(\d+)( tokens[^\n]*\n)?[^\n]*", text
            )
            assert (int(progress[1]), int(progress[2])) == (seq.num_computed_tokens, seq.num_tokens)
            entries = [tuple(map(int, entry)) for entry in re.findall(r"(\d+)→h(\d+)", progress[0])]
            assert entries and set(entries) <= set(enumerate(seq.block_table))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_frames_fit_exactly(scenario):
    snapshots = [snapshot for snapshot, _ in story(scenario, HOSTILE)]
    for before, snapshot in list(zip([None, *snapshots], snapshots))[::3]:
        for size, ink in product(SIZES, (UNICODE, ASCII)):
            rows = view(snapshot, before, *size, ink, "title", "keys", focus="B").plain.split("\n")
            assert [cell_len(row) for row in rows] == [size[0]] * size[1]
            assert all(row.isprintable() for row in rows)
            assert ink is UNICODE or all(row.isascii() for row in rows)
            assert any("Host pool" in row for row in rows)


def test_a_large_host_pool_is_counted():
    told = story(SINGLE, swap_blocks=300)
    for (before, _), (snapshot, _) in pairwise(told):
        lines = [row.plain for row in draw_host(Scene(snapshot, before, UNICODE), 60, 5)]
        shown = re.findall(r"h *(\d+) ", "\n".join(lines))
        hidden = re.search(r"\+(\d+) more", lines[-1])
        assert len(lines) <= 5 and len(shown) + int(hidden[1]) == 300
        in_use = [block.id for block in snapshot.host.blocks if block.owners]
        assert set(map(int, shown)) >= set(in_use) or len(in_use) >= len(shown)


def test_nothing_is_drawn_where_there_is_no_host_pool():
    for snapshot, _ in story(**POOL):
        assert snapshot.host is None and draw_host(Scene(snapshot, None, UNICODE), 60, 9) == []
        assert "ost pool" not in view(snapshot, None, 120, 36).plain and '"host": null' in snapshot.to_json()


def test_who_is_swapped_is_not_told_to_drop_anything(told):
    for snapshot, _ in told:
        kinds = [event.kind for event in snapshot.events]
        for i, event in enumerate(snapshot.events):
            if event.kind == "Preempted":
                assert event.swapped == (kinds[i + 1] == "SwappedOut") == ("host pool" in event.why)
                assert event.swapped != ("dropped" in event.why)
            if event.kind == "Admitted":
                assert event.swapped == (i > 0 and kinds[i - 1] == "SwappedIn") == ("may go on" in event.why)
    full = facts(told, "Preempted")
    assert any(event.swapped for event in full)


def test_the_sentences_name_what_was_copied_and_what_can_still_be_hit(told):
    """Each distinct block once, from where the sequences had it to where they have it."""
    for (before, _), (snapshot, _) in pairwise(told):
        old, new = ({seq.name: seq for seq in each.sequences} for each in (before, snapshot))
        for event in snapshot.events:
            if event.kind not in ("SwappedOut", "SwappedIn"):
                continue
            there = dict(event.fact.pairs)
            assert len(there) == len(event.fact.pairs) == len(set(there.values()))
            for name in event.fact.sequences:
                table = [there[block] for block in old[name].block_table]
                assert list(new[name].block_table[: len(table)]) == table or event.kind == "SwappedIn"
            assert set(there) == {block for name in event.fact.sequences for block in old[name].block_table}
            if event.kind == "SwappedOut":
                can_be_hit = {b for b in event.fact.freed if before.blocks[b].hash is not None}
                assert set(event.table) == can_be_hit
                assert ("can still be hit" in event.why) == bool(can_be_hit)
                if not facts([(snapshot, None)], "BlocksTaken", "BlockCopied", "PrefixHit"):
                    assert {b for b in can_be_hit if snapshot.blocks[b].state == "cached"} == can_be_hit
            else:
                assert "nothing is computed again" in event.why


def test_some_group_shares_in_the_host_pool():
    blocks = [block for snapshot, _ in story(GROUPS) for block in snapshot.host.blocks]
    assert max(block.ref_count for block in blocks) > 1


def test_sentences():
    out = events.SwappedOut(("C",), ((8, 0), (1, 1)), (1, 8), 9, 1)
    assert (
        sentence(out)
        == "C goes to the host pool: its blocks 8 and 1 are copied to h0 and h1; 9 are free here now and 1 there"
    )
    assert sentence(out, table=(8,)).endswith("; what 8 holds here can still be hit")
    assert sentence(out, table=(8, 1)).endswith("; what 8 and 1 hold here can still be hit")
    both = events.SwappedOut(("C.1", "C.2"), ((8, 0), (1, 1)), (1,), 1, 0)
    assert sentence(both) == (
        "C.1 and C.2 go to the host pool: their blocks 8 and 1 are copied to h0 and h1, each once, whoever shares it; "
        "1 is free here now and 0 there; 8 still has an owner here"
    )
    back = events.SwappedIn(("C",), ((0, 5),), 3, 10)
    assert sentence(back) == (
        "C comes back from the host pool: its block h0 is copied to 5 here; nothing is computed again; "
        "3 are free here now and 10 there"
    )
    assert "and whoever shared blocks shares them again" in sentence(replace(back, sequences=("C.1", "C.2")))
    assert sentence(events.Preempted("C", "A", 9, 0), swapped=True).endswith(
        "its tokens are kept, and in the host pool all K and V that it has"
    )
    assert sentence(events.Admitted("C", 10, 9, 3, 5), swapped=True) == (
        "C may go on where it was: its 10 tokens need 3 blocks; 5 were free before"
    )
    assert "it needs 3 blocks and some to spare, 5 were free then" in sentence(events.KeptWaiting("C", "blocks", 3, 5))


def test_a_swapped_one_in_focus_says_where_its_k_and_v_are():
    for snapshot, _ in story(SINGLE):
        for seq in snapshot.sequences:
            text = view(snapshot, None, 120, 36, focus=seq.name).plain
            assert ("its K and V are in the host pool" in text) == seq.is_swapped


@pytest.mark.slow
def test_a_replay_draws_what_the_live_run_drew(tmp_path):
    for number, scenario in enumerate(SCENARIOS):
        path = tmp_path / f"{number}.jsonl"
        live = recorded(path, scenario)
        replay = Replay(path)
        assert drawn(replay) == live and replay.damage is None
        lines = path.read_text().splitlines()[1:]
        assert [snapshot.to_json() for snapshot in Replay(path).snapshots()] == lines


def test_looking_back_is_showing_an_older_frame():
    *_, player = frames(Run(SINGLE, ModelFreeEngine(**SINGLE.settings)))
    drawn_forward = {}
    for player in frames(Run(SINGLE, ModelFreeEngine(**SINGLE.settings))):
        drawn_forward[player.snapshot.step] = player.frame(120, 36, UNICODE).plain.split("── Why")[0]
    while player.snapshot.step:
        player.press("b")
        assert player.frame(120, 36, UNICODE).plain.split("── Why")[0] == drawn_forward[player.snapshot.step]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_random_requests(seed):
    """Snapshots equal the engine, and frames fit, whatever is asked for at once."""
    draw = random.Random(seed)
    arrivals = tuple(
        Arrival(
            draw.randrange(9),
            name,
            "abcdefghijklmn"[: draw.randint(1, 14)],
            draw.randint(1, 12),
            n=draw.choice((1, 1, 3)),
        )
        for name in "ABCDEF"
    )
    sizes = {"num_blocks": draw.randint(14, 20), "swap_blocks": draw.randint(1, 20), "watermark": draw.choice((0, 0.2))}
    engine, before = ModelFreeEngine(**SETTINGS | sizes, enable_prefix_caching=draw.random() < 0.5), None
    for snapshot in Run(Scenario("", "", arrivals), engine).snapshots():
        check_snapshot(snapshot, state_of(engine))
        assert all(event.why for event in snapshot.events)
        for width, height in ((120, 36), (60, 15)):
            rows = view(snapshot, before, width, height).plain.split("\n")
            assert [cell_len(row) for row in rows] == [width] * height
        before = snapshot


@pytest.mark.parametrize("ink", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_the_budget_line_shares_the_budget(ink):
    """It is there exactly in the steps that compute a part of a prompt, and its numbers are the events'."""
    seen = 0
    for snapshot, _ in [*story(MIXED, **POOL), *story(GROUPS)]:
        rows = [event.fact for event in snapshot.events if event.kind == "Scheduled"]
        chunks = [row for row in rows if row.start < row.num_prompt_tokens != row.num_tokens]
        for width in (60, 80, 120):
            lines = draw_budget(Scene(snapshot, None, ink), width)
            assert len(lines) == bool(chunks)
            for text in lines:
                assert text.cell_len == width and text.plain.startswith(f"budget {snapshot.budget}")
                seen += 1
                told = re.findall(r" ([A-F](?:\.\d)?)\S (\d+)(?:, prompt (\d+)/(\d+))? ", text.plain)
                others = re.search(r" (\d+) others, 1 each", text.plain)
                left = re.search(r" (\d+) unused", text.plain)
                tokens = sum(int(each[1]) for each in told) + int(others[1] if others else 0)
                assert tokens == sum(row.num_tokens for row in rows)
                assert tokens + int(left[1] if left else 0) == snapshot.budget
                ends = {(row.sequence, row.start + row.num_tokens, row.num_prompt_tokens) for row in chunks}
                assert {(name, int(end), int(total)) for name, _, end, total in told if end} == ends
    assert seen > 10


def test_the_budget_line_takes_no_line_elsewhere():
    for snapshot, _ in story(MIXED, **POOL):
        has_line = bool(draw_budget(Scene(snapshot, None, UNICODE), 80))
        for size in ((120, 36), (80, 24), (60, 15)):
            text = view(snapshot, None, *size).plain
            assert (f"\nbudget {snapshot.budget} " in text) == (has_line and size[1] >= 20)


@pytest.mark.parametrize(
    "args, said",
    [
        ("--preemption swap", "preemption='swap' with swap_blocks=0: must be 1 or more, to have where to swap to"),
        ("--swap-blocks 5", "swap_blocks=5 with preemption='recompute': only 'swap' has use for them"),
        ("--preemption swap --swap-blocks -1", "swap_blocks=-1: must be a whole number, from 0 to 4096"),
        ("--watermark 1", "watermark=1.0: must be a number from 0 to below 1"),
        ("--watermark nan", "watermark=nan: must be a number from 0 to below 1"),
    ],
)
def test_what_cannot_be_had_is_one_clear_line(args, said, capsys):
    assert main(args.split()) == 2
    captured = capsys.readouterr()
    assert captured.err == f"visualize: {said}\n" and not captured.out


def test_another_preemption_than_the_storys(capsys):
    assert main(["--scenario", "preemption-swap", "--preemption", "recompute", "--plain"]) == 0
    out = capsys.readouterr().out
    assert "its blocks are dropped" in out and "the host pool:" not in out
    assert main(["--preemption", "swap", "--swap-blocks", "9", "--plain"]) == 0
    assert "comes back from the host pool" in capsys.readouterr().out
    assert main(["--watermark", "0.4", "--plain", "--frames", "9"]) == 0
    assert " and some to spare, " in capsys.readouterr().out
