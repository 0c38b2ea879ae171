"""The picture of a walk through the decode kernel: every moment, in every size."""

import re
import subprocess
import sys

import pytest
from harness import some_slow
from rich.cells import cell_len

from visualize.ink import ASCII, UNICODE
from visualize.scenarios import KERNEL
from visualize.walk_sizes import Sizes
from visualize.walk_view import view
from visualize.walk_why import KINDS, LANDMARKS

X = UNICODE.masked
SIZES = [(60, 15), (60, 19), (60, 20), (60, 24), (80, 24), (100, 28), (120, 36), (160, 50)]
CASES = [
    {},
    {"num_splits": 2},
    {"num_splits": 3, "seq_len": 20},
    {"seq_len": 0, "num_splits": 2},
    {"block_size": 1, "seq_len": 200, "heads": (8, 1), "num_splits": 7},
    {"block_size": 64, "seq_len": 70, "tile_size": 64},
    {"block_size": 16, "seq_len": 300, "num_splits": 64, "heads": (6, 6), "tile_size": 16},
    {"block_size": 4, "seq_len": 8, "table": (9999, 0)},
]


def walked(**sizes):
    from visualize.walk_moments import moments

    return list(moments(Sizes(**sizes)))


def frame(moment, width=120, height=36, ink=UNICODE, **looks):
    return view(moment, width=width, height=height, ink=ink, **looks).plain


def moment_of(kind, number=0, **sizes):
    return [moment for moment in walked(**sizes) if moment.kind == kind][number]


@pytest.mark.parametrize("ink", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("case", some_slow(CASES, CASES[:2] + CASES[3:]), ids=str)
def test_every_moment_in_every_size_is_exactly_that_size(case, ink):
    moments = walked(**case)
    for moment in [*moments[:3], *moments[3 : -3 : len(moments) // 8 + 1], *moments[-3:]]:
        for width, height in SIZES:
            for looks in ({}, {"footer": "keys", "story": "A story. " * 20, "only_why": height % 2 == 1}):
                text = frame(moment, width, height, ink, title="t" * 70, **looks)
                rows = text.split("\n")
                assert [cell_len(row) for row in rows] == [width] * height
                assert f"step {moment.step} " in rows[0] and not re.search(r"[\x00-\x09\x0b-\x1f]", text)
                assert ink is UNICODE or text.isascii()


@pytest.mark.parametrize("size", [(59, 15), (60, 14), (10, 2), (1, 1)])
def test_too_small_is_said(size):
    rows = frame(walked()[1], *size).split("\n")
    assert len(rows) <= size[1] and all(cell_len(row) <= size[0] for row in rows)


def test_a_frame_shows_what_the_tile_reads():
    text = frame(moment_of("tile", 1))
    assert "[(0,0,0) █▒░]" in text and " (0,1,0) ░░░ " in text
    assert "3[ 4  5  6  7] 8" in text and "12[ 5  0 14  9] 2" in text
    assert "position        16 17 18 19│20 21 22 23│24 25 26 27│28 29 30 31 " in text
    assert "slot            20 21 22 23│ 0  1  2  3│56 57 58 59│36 37 38 39 " in text
    assert re.findall(r"> ?(\d+)│([\d ]+)│", text) == [
        ("0", "20 21 22 23"), ("5", "16 17 18 19"), ("9", "28 29 30 31"), ("14", "24 25 26 27"),
    ]  # fmt: skip


def test_the_numbers_are_those_of_the_moment():
    moment = moment_of("tile", 1)
    text = frame(moment)
    for head, old, new in zip((0, 1), moment.before, moment.after):
        [row] = re.findall(rf"^head {head} .*$", text, flags=re.MULTILINE)
        shown = [float(each) for each in re.findall(r"-?\d+\.\d+", row)]
        assert shown[-4:] == [round(each, 2) for each in new.output]
        assert shown[-6:-4] == [round(old.running_sum, 2), round(new.running_sum, 2)]
        tops = [old.running_max, new.running_max] if old.running_max < new.running_max else [new.running_max]
        assert shown[: len(tops)] == [round(each, 2) for each in tops]


def test_what_is_masked_is_crossed_out_everywhere():
    text = frame(moment_of("tile", 2))
    assert f"position        32 33 34 35│36 37 38 39│40  {X}  {X}  {X}│ {X}  {X}  {X}  {X} " in text
    assert f"> 6│40  {X}  {X}  {X}│" in text
    assert "Positions 41 to 47, behind the last key, are masked" in text
    small = frame(moment_of("tile", 2), 60, 15, ASCII)
    assert "> 6|#xxx|" in small and "[ 8  9 10]" in small and "[ 2 11  6]" in small


def test_a_tile_in_the_middle_of_a_block():
    text = frame(moment_of("tile", 1, block_size=64, seq_len=70), 100, 28, ASCII)
    assert ">7|" + "=" * 16 + "#" * 16 + "=" * 32 + "|" in text and "[ 0] 1" in text
    assert "entry 0 of the table names physical block 7." in text


def test_partial_states_and_their_merge():
    moment = moment_of("merge", 1, num_splits=3, seq_len=20)
    for width, height in SIZES:
        text = frame(moment, width, height)
        assert "[head 1 ▒]" in text and all(f"split {split} " in text for split in range(3)) and "merged " in text
        assert text.count("weighs 0.000") == 1 and "not read" in text
    assert "Split 2 has no keys: it weighs 0, and its output is not even read." in frame(moment)
    with_keys = [share for share in moment.merged[-1].shares if share]
    assert all(f"weighs {share:.3f}" in frame(moment) for share in with_keys) and len(with_keys) == 2


def test_the_end_of_a_long_merge_is_shown():
    text = frame(moment_of("merge", num_splits=64, seq_len=300), 60, 15)
    assert re.search(r"\+62 more *\n(merged ).*", text) and "split 0 " in text


def test_what_runs_now_is_always_shown():
    for size in SIZES:
        assert "[(0,5,13) " in frame(moment_of("tile", 5 * 19 + 13, **CASES[6]), *size)
        assert "[head 4 " in frame(moment_of("merge", 4, **CASES[6]), *size)


def test_where_room_is_short_the_routine_goes_first():
    moment = moment_of("tile", 2)
    small, large = frame(moment, 60, 15), frame(moment)
    assert "more" in small and "No score is above" not in small and "No score is above" in large
    assert all(event.why + "." in re.sub(r" *\n", " ", frame(moment, 60, 15, only_why=True)) for event in moment.events)


def test_sentences_are_plain_text_without_an_end():
    from visualize.walk_run import WalkRun

    told = [event for moment in WalkRun(KERNEL).snapshots() for event in moment.events]
    for case in CASES:
        told += [event for moment in walked(**case) for event in moment.events]
    assert {event.kind for event in told} == {*KINDS} and {*LANDMARKS} < {*KINDS}
    for event in told:
        assert event.why.isascii() and event.why[0].isupper() and event.why[-1] not in ".;: " and "  " not in event.why


def test_no_torch_is_needed_to_draw():
    code = "import sys, visualize.walk_view, visualize.walk_help, visualize.walk_why; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
