"""Recordings: a run as a file of JSON lines, a header and then one snapshot a line. Replaying one needs no torch.

with record(engine, "run.jsonl"):
    ...  # whatever calls engine.step()
"""

import json
from contextlib import contextmanager
from dataclasses import is_dataclass

from minipaged import events
from visualize.camera import Camera
from visualize.snapshot import (
    SCHEMA,
    Block,
    Event,
    FirstOf,
    HostBlock,
    HostPool,
    SequenceState,
    Snapshot,
    Storage,
    Usage,
)
from visualize.sound import check_sound

KINDS = {name: each for name, each in vars(events).items() if is_dataclass(each)}
BESIDES = ("token_text", "table", "dropped", "may_hit", "in_run", "swapped")  # of an event, where it has them
ABOUT = ("title", "before", "after", "settings")


def header(about):
    """The first line of a recording. about: {each name in ABOUT: value}."""
    return json.dumps({"recording": "minipaged", "schema": SCHEMA, **about})


class Recorded:
    """A run that writes each of its snapshots into a file when it is taken. In everything else it is the run itself."""

    def __init__(self, run, file):
        self._run, self._file = run, file
        write(file, header({name: getattr(run, name) for name in ABOUT}))

    def __getattr__(self, name):
        return getattr(self._run, name)

    def snapshots(self):
        for snapshot in self._run.snapshots():
            write(self._file, snapshot.to_json())
            yield snapshot


def write(file, text):
    """One line, at once: a run that ends badly leaves all its steps. Raises OSError with the file's name."""
    try:
        file.write(text + "\n")
        file.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, file.name) from None


@contextmanager
def record(engine, path, title="a recorded run"):
    """Inside it, the state of an Engine before its first step and after every step is written to a file.

    Raises ValueError for an engine that collects no events, and for a title that is no text.
    """
    if not isinstance(title, str):
        raise ValueError(f"title={title!r}: must be a text")
    camera, step, of_instance = Camera(engine), engine.step, vars(engine).get("step")
    settings = {"num_blocks": engine.memory.num_blocks, "block_size": engine.memory.block_size}
    with open(path, "w", encoding="ascii") as file:
        about = {"title": title, "before": "", "after": "", "settings": settings}
        write(file, header(about))
        write(file, camera.take().to_json())

        def recorded_step():
            result = step()
            write(file, camera.take(result).to_json())
            return result

        engine.step = recorded_step
        try:
            yield
        finally:
            if of_instance:  # another recording, around this one
                engine.step = of_instance
            else:
                del engine.step  # the method of its class is there again


class Replay:
    """A recording as a run: its title and its snapshots. Unchanged records are shared, as they were when it was made.

    Raises ValueError for a file that is no recording, or one of another version. Where a line is damaged the replay
    ends before it, and `damage` says so.
    """

    def __init__(self, path):
        self.damage = None
        self._snapshots = []
        with open(path, encoding="utf-8", errors="replace") as file:
            about = self._header(path, file.readline())
            for name in ABOUT:
                setattr(self, name, about[name])
            for number, text in enumerate(file, start=2):
                try:
                    self._snapshots.append(read_snapshot(json.loads(text), *self._snapshots[-1:]))
                except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
                    self.damage = f"{path}: line {number} is cut off or damaged: what stands before it was replayed"
                    break
        if not self._snapshots:
            raise ValueError(f"{path}: this recording holds no complete snapshot")
        self._num_given = 0

    def _header(self, path, text):
        try:
            about = json.loads(text)
            texts = [about["recording"], about["title"], about["before"], about["after"]]
            is_recording = texts[0] == "minipaged" and all(isinstance(text, str) for text in texts)
            is_recording = is_recording and "schema" in about and isinstance(about["settings"], dict)
        except (ValueError, TypeError, KeyError, RecursionError):
            is_recording = False
        if not is_recording:
            raise ValueError(f"{path}: must be a recording, a file that --record has written")
        if about["schema"] != SCHEMA:
            raise ValueError(f"{path}: recorded with version {about['schema']!r}: this program reads version {SCHEMA}")
        return about

    @property
    def is_over(self):
        return self._num_given == len(self._snapshots)

    def snapshots(self):
        for snapshot in self._snapshots:
            self._num_given += 1
            yield snapshot


def read_snapshot(record, last=None):
    """The inverse of Snapshot.to_dict. last: the snapshot before, whose records are used again where they are equal."""
    if record["schema"] != SCHEMA:
        raise ValueError(f"schema={record['schema']!r}: must be {SCHEMA}")
    part, before = record.get("part", 0), last
    if last and last.part != part:
        last = None  # another engine's
    blocks = [
        Block(**each | {"owners": tuple(each["owners"]), "texts": tuple(each["texts"])}) for each in record["blocks"]
    ]
    old_sequences = {seq.name: seq for seq in last.sequences} if last else {}
    shallow = {name: record[name] for name in ("step", "block_size", "num_blocks", "budget", "memory")}
    snapshot = Snapshot(
        **shallow,
        blocks=tuple(map(same, blocks, last.blocks if last else blocks)),
        sequences=tuple(read_sequence(each, old_sequences.get(each["name"])) for each in record["sequences"]),
        queue=tuple(record["queue"]),
        free_order=tuple(record["free_order"]),
        host=read_host(record["host"], last and last.host),
        events=tuple(map(read_event, record["events"])),
        usage=Usage(**record["usage"]),
        storage=read_storage(record.get("storage"), last and last.storage),
        part=part,
        told=record.get("told", ""),
    )
    check_sound(snapshot, before)
    return snapshot


def same(new, old):
    """The old record, if the new one says the same."""
    return old if new == old else new


def read_storage(record, old):
    if record is None:
        return None
    return same(Storage(**record | {"others": tuple(map(tuple, record["others"]))}), old)


def read_host(record, old):
    if record is None:
        return None
    blocks = [HostBlock(**each | {"owners": tuple(each["owners"])}) for each in record["blocks"]]
    blocks = tuple(map(same, blocks, old.blocks if old else blocks))
    return same(HostPool(record["num_blocks"], blocks, tuple(record["free_order"])), old)


def read_sequence(record, old):
    record = {name: value for name, value in record.items() if name != "text"}
    record["block_table"] = tuple(record["block_table"])
    for name in ("tokens", "token_texts"):
        items = record[name]
        if old and getattr(old, name).is_start_of(items):
            record[name] = getattr(old, name).longer(items)
        else:
            record[name] = FirstOf(items, len(items))
    return same(SequenceState(**record), old)


def read_event(record):
    facts = {name: frozen(value) for name, value in record.items()}
    kind, besides = facts.pop("kind"), {name: facts.pop(name) for name in BESIDES if name in facts}
    del facts["why"]
    return Event(KINDS[kind](**facts), **besides)


def frozen(value):
    """Lists, also those in a list, as the tuples that they were."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value
