"""A walk through the decode kernel as a program and in a notebook: its keys, its options, one moment of it."""

import json
import re

import pytest

from visualize.__main__ import main
from visualize.ink import ASCII, UNICODE
from visualize.scenarios import KERNEL
from visualize.walk_help import pages
from visualize.walk_sizes import Sizes


def run_of(**sizes):
    from visualize.walk_run import WalkRun

    return WalkRun(KERNEL, **sizes)


def player(**options):
    from visualize.player import Player

    return Player(run_of(), **options)


def press(player, keys):
    for key in keys:
        assert player.press(key)
        while player.is_hurrying:
            player.tick()
    return player.position


def test_the_run_is_unsplit_and_then_split():
    run = run_of()
    moments, over = [], []
    for moment in run.snapshots():
        moments.append(moment)
        over.append(run.is_over)
    assert [moment.step for moment in moments] == list(range(20)) and over == [False] * 19 + [True]
    assert [moment.sizes.num_splits for moment in moments] == [1] * 8 + [2] * 12
    assert [moment.kind for moment in moments if moment.kernel] == ["end"] * 2


def test_keys():
    walk = player(playing=False)
    there = [walk.frame(120, 36, UNICODE)]
    while not walk.is_over:
        press(walk, ["n"])
        there.append(walk.frame(120, 36, UNICODE))
    back = []
    while True:
        back.append(walk.frame(120, 36, UNICODE))
        if not walk.position:
            break
        press(walk, ["b"])
    assert [each.plain.splitlines()[:-1] for each in back[::-1]] == [each.plain.splitlines()[:-1] for each in there]
    programs = [press(walk, ["]"]) for _ in range(12)]
    assert programs == [1, 4, 7, 8, 9, 11, 12, 14, 15, 16, 17, 18]
    assert press(walk, "[[") == 16 and press(walk, "G") == 19 and walk.is_finished
    assert press(walk, "g") == 0 and press(walk, ["tab"]) == 0 and walk.focus is None
    press(walk, "nw")
    only_why = walk.frame(120, 36, UNICODE).plain
    assert "Programs" not in only_why and "Program (0, 0, 0) begins" in only_why
    press(walk, "w?")
    assert walk.help_page == 1
    press(walk, "x")
    assert press(walk, "r") == 0 and walk.playing


def test_playing_takes_time_to_read():
    from visualize.player import LANDMARK_SECONDS

    walk = player()
    assert walk.pause() == LANDMARK_SECONDS
    press(walk, "nnn")
    assert walk.pause() == LANDMARK_SECONDS


@pytest.mark.parametrize("ink", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_help_explains_what_is_drawn(ink):
    text = "\n".join(page.plain for page in pages(80, 60, ink))
    for what in ("] and [", "correction", "log-sum-exp", "masked", "tile ", f"{ink.levels[0]} to {ink.levels[-1]}"):
        assert what in text
    assert "Tab" not in text and "preempted" not in text and (ink is UNICODE or text.isascii())


def told(capsys, *args):
    assert main(["--scenario", "kernel", *args]) == 0
    return capsys.readouterr().out


def test_a_pipe_gets_every_frame(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    out = told(capsys, "--ascii")
    assert out.isascii() and max(map(len, out.splitlines())) <= 80
    assert [int(step) for step in re.findall(r"step (\d+)\n", out)] == list(range(20))
    assert len(told(capsys, "--frames", "3").split("\n\nminipaged")) == 3


def test_plain_is_a_sentence_a_line(capsys):
    lines = told(capsys, "--plain").splitlines()
    assert lines[0] == KERNEL.title and lines[1] == KERNEL.before and lines[-1] == KERNEL.after
    assert all(re.fullmatch(r"step \d+: [A-Z].*\.", each) for each in lines[2:-1])
    assert sum("gives the same: the largest difference is below 1e-06" in each for each in lines) in (0, 2)


def test_json_is_a_moment_a_line_and_repeatable(capsys):
    first = told(capsys, "--json")
    records = [json.loads(each) for each in first.splitlines()]
    assert [each["step"] for each in records] == list(range(20))
    assert [each["tile"]["positions"] for each in records[1:4]] == [[*range(16)], [*range(16, 32)], [*range(32, 41)]]
    assert told(capsys, "--json", "--seed", "0") == first != told(capsys, "--json", "--seed", "1")
    one = json.loads(told(capsys, "--json", "--block-size", "16", "--frames", "1"))
    assert one["sizes"]["block_size"] == 16 and one["sizes"]["table"] == [7, 1, 3]


def test_json_has_no_infinities():
    from visualize.walk_moments import moments

    for moment in moments(Sizes(num_splits=3, seq_len=20)):
        record = json.loads(moment.to_json(), parse_constant=pytest.fail)
        assert record["step"] == moment.step and record["kind"] == moment.kind
        assert record["why"] == [event.why for event in moment.events] and record["why"]


def test_once_and_pictures(capsys, tmp_path):
    assert "[head 3 ▒]" in told(capsys, "--once", "18") and "step 18" in told(capsys, "--once", "18")
    told(capsys, "--once", "2", "--save-svg", str(tmp_path / "once.svg"))
    told(capsys, "--save-animation", str(tmp_path / "moving.svg"), "--frames", "4", "--fps", "2")
    for name in ("once", "moving"):
        svg = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert svg.startswith("<svg") and "rises" in svg and "url(http" not in svg


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("--mine", "with --mine: no engine runs in it"),
        ("--num-blocks 9", "with --num-blocks: no engine runs in it"),
        ("--memory max", "with --memory: no engine runs in it"),
        ("--preemption recompute", "with --preemption: "),
        ("--swap-blocks 3", "with --swap-blocks: "),
        ("--watermark 0.1", "with --watermark: "),
        ("--no-prefix-caching", "with --no-prefix-caching: "),
        ("--record x", "with --record: no engine runs in it"),
        ("--block-size 65", "with --block-size 65: at most 64 are shown there"),
        ("--once 20", "--once 20: must be a step of this run, which has steps 0 to 19"),
    ],
)
def test_what_it_does_not_have_is_one_clear_line(args, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--scenario", "kernel", *args.split()]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert not list(tmp_path.iterdir())


def test_a_near_name_finds_it(capsys):
    assert main(["--scenario", "kernl"]) == 2
    assert "Did you mean 'kernel'?" in capsys.readouterr().err


def test_one_moment_in_a_notebook():
    from visualize import walk

    shown = walk(2)
    assert "[(0,0,0) █▒░]" in repr(shown) and repr(shown).splitlines()[0].endswith("step 2")
    assert (
        shown._repr_svg_().startswith("<svg") and "░]" not in shown.alt and "Tile 1 is positions 16 to 31" in shown.alt
    )
    assert repr(walk(-3, num_splits=2)).splitlines()[0].endswith("step 9") and "[head 2 ▒]" in repr(
        walk(-3, num_splits=2)
    )
    assert repr(walk(2, width=60, height=15)).count("\n") <= 14
    mine = walk(1, table=[5, 0, 7, 2, 9], seq_len=18, block_size=4, heads=(2, 1))
    assert "[ 5  0  7  2]" in repr(mine).replace("[5", "[ 5") or "5 0 7 2" in re.sub(" +", " ", repr(mine))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"moment": 8}, "moment=8: must be a whole number, from -8 to 7"),
        ({"moment": -9}, "moment=-9: must be a whole number, from -8 to 7"),
        ({"moment": 12, "num_splits": 2}, "moment=12: must be a whole number, from -12 to 11"),
        ({"moment": 1.0}, "moment=1.0: must be a whole number"),
        ({"moment": 0, "num_splits": 0}, "num_splits=0: must be a whole number, from 1 to 64"),
        ({"moment": 0, "width": 59}, "width=59: must be a whole number, 60 or more"),
        ({"moment": 0, "height": 9}, "height=9: must be a whole number, 15 or more"),
    ],
)
def test_a_moment_that_is_not_there(arguments, said):
    from visualize import walk

    with pytest.raises(ValueError) as error:
        walk(**arguments)
    assert said in str(error.value)
