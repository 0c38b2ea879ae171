"""Caches of fewer bytes in the visualizer: what it says of them, and the story told twice in the same bytes."""

import json
import re

import pytest

from visualize.__main__ import main
from visualize.ink import UNICODE
from visualize.options import parse_args, scenario_of
from visualize.player import Player
from visualize.pressure_stories import QUANTISED
from visualize.recording import Recorded, Replay
from visualize.view import view

SIZES = [(60, 15), (60, 26), (80, 24), (120, 36), (163, 50)]


def run(*argv):
    from visualize.engines import run_of

    return run_of(scenario_of(parse_args(argv)))


@pytest.fixture(scope="module")
def story():
    """The story's run, and its snapshots."""
    told = run("--scenario", "quantised")
    return told, list(told.snapshots())


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("halves") / "run.jsonl"
    with open(path, "w", encoding="ascii") as out:
        list(Recorded(run("--scenario", "quantised"), out).snapshots())
    return path


def halves(snapshots):
    return [[each for each in snapshots if each.part == part] for part in (0, 1)]


def test_the_steps_are_counted_through(story):
    told, snapshots = story
    assert told.is_over and [each.step for each in snapshots] == list(range(len(snapshots)))
    assert [each.part for each in snapshots] == sorted(each.part for each in snapshots)
    for half, name in zip(halves(snapshots), QUANTISED.cache_dtypes, strict=True):
        assert {each.storage.cache_dtype for each in half} == {name}
        assert not half[0].events and {seq.status for seq in half[0].sequences} == {"waiting"}
        assert [seq.status for seq in half[-1].sequences] == ["finished"] * len(QUANTISED.arrivals)


def test_both_halves_have_the_same_requests_and_the_same_bytes(story):
    first, second = halves(story[1])
    for before, after in zip(first[-1].sequences, second[-1].sequences, strict=True):
        assert (before.name, before.num_prompt_tokens, before.num_tokens) == (
            *(after.name, after.num_prompt_tokens, after.num_tokens),
        )
    assert first[0].storage.num_bytes == second[0].storage.num_bytes == 72 * 1024
    assert second[0].num_blocks / first[0].num_blocks > 1.7


@pytest.mark.parametrize("cache_dtype", ["float32", "float16", "bfloat16", "int8", "fp8", "auto"])
def test_the_bytes_are_those_of_the_tensors(cache_dtype):
    from minipaged.serving.llm import LLM
    from visualize.storage import COMPARED, storage_of

    settings = {"block_size": 4, "kv_memory": "64KiB"}
    engine = LLM(cache_dtype=cache_dtype, **settings).engine
    storage = storage_of(engine, 2**16)
    tensors = [tensor for tensor in vars(engine.cache).values() if hasattr(tensor, "nbytes")]
    tensors += [each for value in vars(engine.cache).values() if isinstance(value, list) for each in value]
    distinct = {tensor.data_ptr(): tensor.nbytes for tensor in tensors if hasattr(tensor, "nbytes")}
    num_blocks = engine.memory.num_blocks
    assert sum(distinct.values()) == num_blocks * 4 * storage.bytes_per_token <= 2**16
    assert storage.cache_dtype == (cache_dtype if cache_dtype != "auto" else "float32")
    for name, number in storage.others:
        assert number == LLM(cache_dtype=name, **settings).engine.memory.num_blocks
    assert set(COMPARED) - {name for name, _ in storage.others} in ({"float32"}, {"float16"}, {"int8"})


def test_what_is_told_is_what_happened(story):
    counts = []
    for half in halves(story[1]):
        kinds = [event.kind for snapshot in half for event in snapshot.events]
        counts.append((half[0].num_blocks, len(half) - 1, kinds.count("Preempted")))
    told = [each.told for each in story[1] if each.told]
    assert len(told) == 3 and story[1][-1].told == told[2] and halves(story[1])[1][0].told == told[1]
    numbers = [tuple(map(int, re.findall(r"\b\d+\b", each.replace(",", "")))) for each in told]
    assert numbers[0] == counts[0][1:]
    assert numbers[1] == (72, 576, 1024, counts[1][0], counts[0][0])
    assert numbers[2] == (72, *counts[0], *counts[1])
    assert counts[0][2] == 2 and counts[1][2] == 0  # as its `after` says


def test_who_is_refused_is_told():
    told = [each.told for each in run("--scenario", "quantised", "--kv-memory", "20KiB").snapshots() if each.told]
    assert told[0] == "As float16: 1 step, 0 preemptions, 4 requests refused."
    assert told[2].startswith(
        "In the same 20 KiB: float16 5 blocks, 1 step, 0 preemptions, 4 requests refused; int8 8 "
    )


def test_sentences_say_how_it_is_stored(capsys):
    assert main(["--scenario", "growth", "--cache-dtype", "int8", "--plain", "--frames", "2"]) == 0
    assert "\nint8: 576 B a token, 36 KiB: 16 blocks; float32 4, float16 9\nstep 1: " in capsys.readouterr().out


def test_nothing_is_said_to_be_computed_where_the_second_half_begins(story):
    first = next(each for each in story[1] if each.part == 1)
    assert "tokens computed in" not in view(first, None, 120, 36).plain.split("\n")[0]


@pytest.mark.parametrize("size", SIZES)
def test_every_frame_says_how_it_is_stored(story, size):
    previous = None
    for snapshot in story[1]:
        frame = view(snapshot, previous, *size, title=QUANTISED.title)
        rows = frame.plain.split("\n")
        assert len(rows) == size[1] and {len(row) for row in rows} == {size[0]}
        storage, previous = snapshot.storage, snapshot
        if size[1] < 20:  # there is no room
            continue
        [line] = re.findall(rf"{storage.cache_dtype}: ([\d,]+) B a token, 72 KiB: (\d+) blocks(.*)", frame.plain)
        assert (line[0], line[1]) == (f"{storage.bytes_per_token:,}", f"{snapshot.num_blocks}")
        others = "; " + ", ".join(f"{name} {number}" for name, number in storage.others)
        assert line[2].startswith(others) or (size[0] < 63 and not line[2].strip())


def test_the_second_half_begins_with_nothing_new(story):
    """Beside a snapshot of another engine nothing counts as taken or freed."""
    first = next(each for each in story[1] if each.part == 1)
    before = story[1][first.step - 1]
    assert view(first, before, 120, 36) == view(first, None, 120, 36)


def test_back_over_the_middle_and_forth(story):
    player = Player(run("--scenario", "quantised"), playing=False)
    press = lambda *keys: [player.press(key) for key in keys]  # noqa: E731
    middle = next(each.step for each in story[1] if each.part == 1)
    press(*["n"] * (middle + 1))
    ahead = player.frame(120, 36, UNICODE)
    press("b")
    words = re.sub(r"\s+", " ", player.frame(120, 36, UNICODE).plain)
    assert player.snapshot.told in words
    press("n")
    assert player.frame(120, 36, UNICODE) == ahead
    player.press("G")
    while not player.is_over:
        player.tick()
    words = re.sub(r"\s+", " ", player.frame(120, 36, UNICODE).plain)
    assert player.is_finished and f"{player.snapshot.told} {QUANTISED.after}" in words


def test_a_recording_shows_the_same(story, file):
    assert list(Replay(str(file)).snapshots()) == story[1]


def test_a_recording_without_these_fields_is_read(file, tmp_path):
    """As they were written before there were any: no storage, no part."""
    header, *lines = file.read_text().splitlines()
    records = [json.loads(text) for text in lines]
    first = [record for record in records if not record.get("part")]
    for record in first:
        for name in ("storage", "part", "told"):
            record.pop(name, None)
    old = tmp_path / "old.jsonl"
    old.write_text("\n".join([header, *map(json.dumps, first)]) + "\n")
    snapshots = list(Replay(str(old)).snapshots())
    assert len(snapshots) == len(first) and {(each.storage, each.part, each.told) for each in snapshots} == {
        (None, 0, "")
    }
    assert " B a token" not in view(snapshots[3], snapshots[2], 120, 36).plain


@pytest.mark.parametrize(
    "damage",
    [
        {"part": 3},
        {"part": "1"},
        {"told": 7},
        {"storage": {"cache_dtype": "int8"}},
        {"storage": {"cache_dtype": "int8", "bytes_per_token": 0, "num_bytes": 9, "others": []}},
        {"storage": {"cache_dtype": "int8", "bytes_per_token": 9, "num_bytes": 9, "others": [["a", "b"]]}},
    ],
)
def test_a_damaged_recording_is_told(file, tmp_path, damage):
    lines = file.read_text().splitlines()
    lines[5] = json.dumps(json.loads(lines[5]) | damage)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text("\n".join(lines))
    replay = Replay(str(damaged))
    assert "line 6 is cut off or damaged" in replay.damage and len(list(replay.snapshots())) == 4


def test_nothing_is_said_where_nobody_asked(capsys):
    for argv in ([], ["--scenario", "growth"]):
        assert main([*argv, "--once", "3"]) == 0
        assert " B a token" not in capsys.readouterr().out


def test_any_story_can_be_stored_in_another_type(capsys):
    assert main(["--scenario", "growth", "--cache-dtype", "int8", "--once", "3"]) == 0
    assert "int8: 576 B a token, 36 KiB: 16 blocks; float32 4, float16 9" in capsys.readouterr().out
    assert main(["O", "--kv-memory", "64KiB", "--cache-dtype", "fp8", "--block-size", "8", "--once", "2"]) == 0
    assert "fp8: 576 B a token, 64 KiB: 14 blocks; float32 4, float16 8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("--kv-memory 2000", "--kv-memory='2000': must be a number and a unit, such as '2MiB'"),
        ("--kv-memory 1KiB", "kv_memory of 1,024 bytes: must be from 8,192 bytes, one block of 4 tokens"),
        ("--kv-memory 1GiB", "--kv-memory 1GiB: at most 128 MiB are allowed"),
        ("--kv-memory 100MiB", "--kv-memory 100MiB makes 12,800 blocks of 4: at most 4,096, of 8,192 bytes"),
        ("--num-blocks 3 --kv-memory 1MiB", "--num-blocks 3 with --kv-memory 1MiB: each says how many blocks"),
        ("--cache-dtype int4", "invalid choice: 'int4' (choose from 'auto'"),
        (
            "--scenario quantised --cache-dtype int8",
            "--scenario quantised with --cache-dtype int8: it compares float16",
        ),
        ("--scenario quantised --num-blocks 9", "--scenario quantised with --num-blocks 9: it compares float16 and"),
        ("--scenario kernel --cache-dtype int8", "--scenario kernel with --cache-dtype: no engine runs in it"),
        ("--replay x --kv-memory 1MiB", "--replay with --kv-memory: a recording is what it is"),
        ("--replay x --cache-dtype int8", "--replay with --cache-dtype: a recording is what it is"),
    ],
)
def test_what_cannot_be_had_is_one_clear_line(args, said, capsys):
    try:
        status = main(args.split())
    except SystemExit as ended:
        status = ended.code
    captured = capsys.readouterr()
    assert status == 2 and said in captured.err and captured.err.count("\n") == 1 and not captured.out
