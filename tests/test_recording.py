"""Recordings: what is replayed is what was recorded, to the last character; damage is told with its place."""

import json
import re
import subprocess
import sys
from itertools import pairwise

import pytest
from test_visualize import HOSTILE, MIXED, POOL, ModelFreeEngine, many_with_hostile_text

from visualize.__main__ import main
from visualize.app import frames
from visualize.ink import UNICODE
from visualize.recording import Recorded, Replay, record
from visualize.scenarios import Run
from visualize.snapshot import SCHEMA

pytestmark = pytest.mark.slow  # `make check` and CI run them


def recorded(path, scenario=MIXED, text="ab\n", **settings):
    """The frames of a run that was recorded while it went on."""
    run = Run(scenario, ModelFreeEngine(**scenario.settings | settings, text=text))
    with open(path, "w", encoding="ascii") as file:
        return drawn(Recorded(run, file))


def drawn(run):
    return [str(player.frame(120, 36, UNICODE).markup) for player in frames(run)]


@pytest.mark.parametrize(
    "scenario, text, settings",
    [(MIXED, "ab\n", POOL), pytest.param(many_with_hostile_text(), HOSTILE, {}, marks=pytest.mark.slow)],
)
def test_a_replay_draws_what_the_live_run_drew(tmp_path, scenario, text, settings):
    path = tmp_path / "run.jsonl"
    live = recorded(path, scenario, text, **settings)
    replay = Replay(path)
    assert drawn(replay) == live and replay.damage is None
    assert replay.title == scenario.title and replay.settings == scenario.settings | {} and len(live) > 20


def test_a_replay_shares_what_did_not_change(tmp_path):
    recorded(tmp_path / "run.jsonl", **POOL)
    snapshots = list(Replay(tmp_path / "run.jsonl").snapshots())
    for before, now in pairwise(snapshots):
        for old, new in zip((*before.blocks, *before.sequences), (*now.blocks, *now.sequences)):
            assert (old is new) == (old == new) or type(old) is not type(new)
        for old, new in zip(before.sequences, now.sequences):
            assert old.tokens._items is new.tokens._items
    with open(tmp_path / "run.jsonl", encoding="ascii") as file:
        assert [snapshot.to_json() + "\n" for snapshot in snapshots] == file.readlines()[1:]


def test_record_around_an_engine_driven_by_hand(tmp_path):
    from minipaged import LLM, SamplingParams

    engine = LLM(block_size=4, num_blocks=32).engine
    with record(engine, tmp_path / "run.jsonl", "by hand"):
        engine.add("KING:", SamplingParams(seed=1, max_tokens=5), request_id="A")
        while engine.has_unfinished():
            engine.step()
    engine.add("KING:", SamplingParams(max_tokens=1))
    engine.step()  # is in no recording
    replay = Replay(tmp_path / "run.jsonl")
    snapshots = list(replay.snapshots())
    assert [snapshot.step for snapshot in snapshots] == [0, 1, 2, 3, 4, 5] and replay.title == "by hand"
    assert snapshots[-1].sequences[0].num_tokens == snapshots[-1].sequences[0].num_prompt_tokens + 5


def test_recordings_inside_one_another(tmp_path):
    from minipaged import LLM, SamplingParams

    engine = LLM(block_size=4, num_blocks=32).engine
    engine.add("KING:", SamplingParams(seed=1, max_tokens=9, ignore_eos=True))
    with record(engine, tmp_path / "outer"):
        engine.step()
        with record(engine, tmp_path / "inner"):
            engine.step()
            engine.step()
        engine.step()
    engine.step()
    assert "step" not in vars(engine)
    numbers = [len(list(Replay(tmp_path / name).snapshots())) for name in ("outer", "inner")]
    assert numbers == [5, 3]


def test_what_cannot_be_recorded_is_refused(tmp_path):
    from minipaged import LLM

    with pytest.raises(ValueError, match="events=True"), record(LLM(events=False).engine, tmp_path / "x"):
        pass
    with pytest.raises(ValueError, match="title=None"), record(LLM().engine, tmp_path / "x", title=None):
        pass


def test_an_unfinished_run_is_not_called_finished(tmp_path, capsys):
    path = str(tmp_path / "part.jsonl")
    assert main(["--frames", "6", "--record", path, "--plain"]) == 0
    live = capsys.readouterr().out
    assert main(["--replay", path, "--plain"]) == 0
    assert capsys.readouterr().out == live and MIXED.after not in live


def leaves(record, path=()):
    """Every path to a value inside of nested dicts and lists."""
    for key, value in record.items() if isinstance(record, dict) else enumerate(record):
        yield (*path, key)
        if isinstance(value, (dict, list)) and value:
            yield from leaves(value, (*path, key))


@pytest.mark.slow
def test_whatever_is_changed_in_a_line_is_drawn_or_refused(file):
    """A wrong value at any place of a snapshot: no traceback, whatever is shown of it."""
    lines = file.read_text().splitlines()[:9]
    num_refused = num_tried = 0
    for i, place in enumerate(leaves(json.loads(lines[-1]))):
        for wrong in [None, "x", -1, 10**9, [], {}, 1.5, ["x"], True][i % 9 :: 9]:
            changed = json.loads(lines[-1])
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = wrong
            file.write_text("\n".join([*lines[:-1], json.dumps(changed)]) + "\n")
            replay = Replay(file)
            num_tried += 1
            num_refused += replay.damage is not None
            if replay.damage is None:
                *_, player = frames(replay)
                player.frame(120, 36, UNICODE)
                player.frame(60, 15, UNICODE)
    assert num_refused > num_tried / 2 > 200


def test_record_leaves_the_engine_as_it_was_after_an_error(tmp_path):
    from minipaged import LLM

    engine = LLM(block_size=4, num_blocks=32).engine
    with pytest.raises(RuntimeError), record(engine, tmp_path / "run.jsonl"):
        raise RuntimeError
    assert "step" not in vars(engine) and len(list(Replay(tmp_path / "run.jsonl").snapshots())) == 1


@pytest.fixture
def file(tmp_path):
    recorded(tmp_path / "run.jsonl", **POOL)
    return tmp_path / "run.jsonl"


def edit_header(**changes):
    def damage(text):
        header, rest = text.split("\n", 1)
        return json.dumps(json.loads(header) | changes) + "\n" + rest

    return damage


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda text: "", "must be a recording"),
        (lambda text: text[:20], "must be a recording"),
        (lambda text: "[1]\n", "must be a recording"),
        (lambda text: "\x00\xff\n" + text, "must be a recording"),
        (edit_header(recording="music"), "must be a recording"),
        (edit_header(title=5), "must be a recording"),
        (lambda text: "[" * 100_000, "must be a recording"),
        (edit_header(schema=99), "recorded with version 99: this program reads version 4"),
        (lambda text: text.split("\n")[0] + "\n", "holds no complete snapshot"),
        (lambda text: "".join(text.splitlines(True)[:2])[:-30], "holds no complete snapshot"),
    ],
)
def test_what_is_no_recording_is_one_line_and_status_2(file, capsys, damage, said):
    file.write_text(damage(file.read_text()))
    assert main(["--replay", str(file), "--plain"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and str(file) in captured.err and said in captured.err and not captured.out


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[: len(line) // 2],
        lambda line: "{}",
        lambda line: "null",
        lambda line: line.replace('"kind": "', '"kind": "No'),
        lambda line: line.replace('"num_free": ', '"freedom": '),
        lambda line: line.replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA - 1}'),
        lambda line: line.replace('"blocks": [', '"blocks": [7, '),
    ],
)
def test_a_damaged_line_ends_the_replay_with_a_word(file, capsys, damage):
    lines = file.read_text().splitlines()
    wrong = next(i for i, each in enumerate(lines) if i > 4 and '"num_free"' in each)
    file.write_text("\n".join([*lines[:wrong], damage(lines[wrong]), *lines[wrong + 1 :]]) + "\n")
    assert main(["--replay", str(file), "--plain"]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        f"visualize: {file}: line {wrong + 1} is cut off or damaged: what stands before it was replayed\n"
    )
    assert max(map(int, re.findall(r"^step (\d+):", captured.out, flags=re.MULTILINE))) == wrong - 2


def test_a_replay_imports_no_torch(file):
    code = f"""if True:
        import sys
        from visualize.__main__ import main
        assert main(["--replay", {str(file)!r}, "--once", "7"]) == 0 and "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
