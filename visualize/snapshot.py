"""Snapshot: everything that can be shown about the moment between two steps, as plain records that never change.

Snapshot 0 is the state before the first step, snapshot N the state after the commit of step N. Each is complete, so
looking back is showing an older one, and a recording is snapshots as JSON lines. This file never looks at an engine
(camera.py does), and imports no torch.
"""

import json
from collections import abc
from dataclasses import asdict, dataclass

from visualize.why import sentence

SCHEMA = 4  # 3: without reserved blocks and a host pool; 2: without cached blocks; 1: without what sharing saves


class FirstOf(abc.Sequence):
    """The first `length` items of a list that only ever grows at its end. Many snapshots share the one list."""

    __slots__ = ("_items", "_length")

    def __init__(self, items, length):
        self._items, self._length = items, length

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self._items[i] for i in range(*index.indices(self._length))]
        return self._items[range(self._length)[index]]

    def __len__(self):
        return self._length

    def is_start_of(self, items):
        return self._length <= len(items) and self._items[: self._length] == items[: self._length]

    def longer(self, items):
        """Of `items`, which begin as these do: the shared list is made longer where it has to be."""
        if len(self._items) < len(items):
            self._items += items[len(self._items) :]
        return FirstOf(self._items, len(items))

    def __eq__(self, other):
        if isinstance(other, FirstOf) and other._items is self._items:
            return other._length == self._length
        return isinstance(other, abc.Sequence) and list(self) == list(other)


@dataclass(frozen=True, slots=True)
class Block:
    """One physical block. filled: the slots whose K and V are written. owners: names of the sequences that use it, or
    for whom it is reserved.

    hash: the first 8 hexadecimal digits of what its content is found by, if it can be hit. texts: of a cached block,
    which no sequence names, the text of each token in it; empty if the camera has not seen them.
    """

    id: int
    # "used" (in some table), "cached" (in none, but its content can be hit), "reserved" (in none, but in a run that was
    # reserved for a sequence) or "free"
    state: str
    ref_count: int
    filled: int
    owners: tuple
    hash: str | None = None
    texts: tuple = ()


@dataclass(frozen=True, slots=True)
class HostBlock:
    """One block of the host pool. Its id has nothing to do with the block of the same id in the device's pool."""

    id: int
    owners: tuple
    ref_count: int
    filled: int


@dataclass(frozen=True)
class HostPool:
    """The second pool, for the sequences that had to yield and were swapped out."""

    num_blocks: int
    blocks: tuple
    free_order: tuple  # ids of the free blocks, the next to be taken first


@dataclass(frozen=True)
class SequenceState:
    """How far one sequence has come. A finished one owns nothing (an empty table, 0 computed), its text stays."""

    name: str
    request: str
    index: int  # among its request's sequences
    status: str  # "waiting", "running", "preempted", "swapped" or "finished"
    device: str | None  # "gpu": it has blocks in the pool, wherever that is; "host": in the other; None: it has none
    block_table: tuple  # ids of blocks of that pool
    num_tokens: int
    num_computed_tokens: int
    num_prompt_tokens: int
    tokens: FirstOf
    token_texts: FirstOf
    finish_reason: str | None

    @property
    def is_swapped(self):
        return self.device == "host"

    @property
    def device_table(self):
        """Its block table, if that names blocks of the device's pool; else nothing."""
        return () if self.is_swapped else self.block_table

    @property
    def text(self):
        return "".join(self.token_texts)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in this step: one of minipaged.events, and what its sentence needs besides.

    token_text: what the token says, if it is about one. table: the blocks that a fork shares, or a sequence gives up,
    or, of those that one leaves when it is swapped out, the ones that can still be hit. dropped: whether it gives them
    up because others were preferred to it. may_hit: whether who yields may find its tokens in the prefix cache when it
    comes back. in_run: whether its blocks are in a run reserved for it. swapped: whether who yields goes to the host
    pool, or who enters comes from there.
    """

    fact: object
    token_text: str | None = None
    table: tuple | None = None
    dropped: bool = False
    may_hit: bool = False
    in_run: bool = False
    swapped: bool = False

    @property
    def kind(self):
        return type(self.fact).__name__

    @property
    def why(self):
        """The sentence. It is made when it is asked for: a long history holds many that nobody reads."""
        flags = self.dropped, self.may_hit, self.in_run, self.swapped
        return sentence(self.fact, self.token_text, self.table, *flags)

    @property
    def facts(self):
        return asdict(self.fact)

    def to_dict(self):
        text = {} if self.token_text is None else {"token_text": self.token_text}
        table = {} if self.table is None else {"table": list(self.table)}
        names = "dropped", "may_hit", "in_run", "swapped"
        flags = {name: True for name in names if getattr(self, name)}
        return {"kind": self.kind, "why": self.why, **self.facts, **text, **table, **flags}


@dataclass(frozen=True)
class Usage:
    """Slots of the pool. max_would_reserve: what one run of the model's whole context for each sequence would hold.

    saved_slots, saved_blocks: how much more there would be if nobody shared a block, each token and each entry of a
    block table stored by itself. reserved_slots: of the blocks that are in somebody's run and in no table yet.
    """

    used_slots: int
    allocated_slots: int
    cached_slots: int
    total_slots: int
    max_would_reserve: int
    saved_slots: int = 0
    saved_blocks: int = 0
    reserved_slots: int = 0


@dataclass(frozen=True)
class Storage:
    """In how many bytes K and V lie. others: (name of another type, how many blocks num_bytes bytes hold in it)."""

    cache_dtype: str
    bytes_per_token: int  # all layers, scales included
    num_bytes: int
    others: tuple


@dataclass(frozen=True)
class Snapshot:
    """The whole state. Its fields are what a recording holds; the last three only where they say something."""

    step: int
    block_size: int
    num_blocks: int
    budget: int  # the most tokens one step may compute
    blocks: tuple
    sequences: tuple  # in the order in which they arrived or were forked
    queue: tuple  # names of the waiting, the next to enter first
    free_order: tuple  # ids of the free blocks, the next to be taken first
    host: HostPool | None  # None: there is no swapping
    events: tuple
    usage: Usage
    memory: str = "paged"  # or how long the run is that each request reserves: "max", "pow2" or "oracle"
    schema: int = SCHEMA
    storage: Storage | None = None  # None: nobody asked for another type than the computed one, or for bytes
    part: int = 0  # of a story that is told twice: 1 the second time, with another engine
    told: str = ""  # what is to be said about this moment, besides the events

    def to_dict(self):
        """Made of nothing but what JSON knows."""
        names = ("schema", "step", "block_size", "num_blocks", "budget", "memory")
        shallow = {name: getattr(self, name) for name in names}
        sequences = [
            {**vars(seq), "tokens": list(seq.tokens), "token_texts": list(seq.token_texts), "text": seq.text}
            for seq in self.sequences
        ]
        besides = {"storage": self.storage and asdict(self.storage), "part": self.part, "told": self.told}
        shallow |= {name: value for name, value in besides.items() if value}
        return shallow | {
            "blocks": [asdict(block) for block in self.blocks],
            "sequences": sequences,
            "queue": list(self.queue),
            "free_order": list(self.free_order),
            "host": self.host and asdict(self.host),
            "events": [event.to_dict() for event in self.events],
            "usage": asdict(self.usage),
        }

    def to_json(self):
        """One line of ASCII."""
        return json.dumps(self.to_dict())
