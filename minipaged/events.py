"""Facts of a step: one small frozen dataclass for each kind of thing that can happen, and no prose.

The engine, the scheduler and the memory append them to a list, in the order in which things happen, if somebody asked
for a list. The visualizer turns them into sentences. `request` and `sequence` are names; blocks are physical ids.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request was added and waits for its first step."""

    request: str
    num_prompt_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A request can never run: it needs more blocks than the pool has, its prompt fills the context, it has more
    sequences than may run together, or several in a memory where none can be shared."""

    request: str
    num_prompt_tokens: int
    max_tokens: int
    reason: str  # "pool": needed and allowed count blocks; "context": tokens; "max_num_seqs" and "memory": sequences
    needed: int
    allowed: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request left the waiting queue: there is room for all its known tokens."""

    request: str
    num_tokens: int  # of all its sequences, the prompt they share counted once
    num_cached_tokens: int
    blocks_needed: int
    num_free: int  # before any block is taken


@dataclass(frozen=True, slots=True)
class KeptWaiting:
    """The head of the waiting queue could not enter in this step; nobody overtakes it."""

    request: str
    # "blocks", "max_num_seqs", "budget", "preemption" (someone had to yield in this very step), or "catching up" (the
    # last to enter is a group that had to yield: its sequences are yet to be forked, or its beams wait for each other)
    reason: str
    needed: int  # blocks for "blocks"; otherwise 0
    num_free: int


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A sequence computes tokens `start` .. `start + num_tokens - 1` of its `total` in this step."""

    sequence: str
    start: int
    num_tokens: int
    total: int
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class BlocksTaken:
    """A sequence's table grew by blocks from the front of the free queue."""

    sequence: str
    first_logical: int  # the logical number of blocks[0]
    last_was_full: bool  # whether the block before them was; not so for a chunk that began in its middle
    blocks: tuple
    num_free: int  # afterwards


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """A sequence that enters begins with what is in these blocks already: its table names them, nothing is computed."""

    sequence: str
    blocks: tuple
    num_tokens: int
    num_free_before: int  # how many of these blocks nobody owned: they leave the free queue
    num_free: int  # afterwards


@dataclass(frozen=True, slots=True)
class Reserved:
    """In contiguous memory, a sequence that enters has a run of neighbouring blocks to itself, filled or not."""

    sequence: str
    policy: str  # "max", "pow2" or "oracle": how num_slots was found
    num_slots: int  # that the policy asks for; the rest of the run is what the buddy adds
    first_block: int
    num_blocks: int
    num_free: int  # before


@dataclass(frozen=True, slots=True)
class NoRun:
    """In contiguous memory, the head of the waiting queue found no free run that is long enough."""

    sequence: str
    num_blocks: int  # that it needs side by side
    num_free: int
    longest: int  # of the free runs


@dataclass(frozen=True, slots=True)
class Evicted:
    """A sequence took blocks whose content could still have been hit. It can't be from now on."""

    sequence: str
    blocks: tuple


@dataclass(frozen=True, slots=True)
class Forked:
    """A new sequence's table names all blocks of another one. Nothing was copied."""

    parent: str
    child: str
    num_blocks: int  # in the table: all of them are shared
    num_free: int  # as before: none is taken


@dataclass(frozen=True, slots=True)
class BlockCopied:
    """A sequence is about to write into a block that others share: a fresh block takes its place in its table."""

    sequence: str
    logical: int
    source: int
    destination: int
    num_owners: int  # of the source, this sequence among them, before the copy
    num_free: int  # afterwards


@dataclass(frozen=True, slots=True)
class BlocksReleased:
    """A sequence gave up its table. `freed` are the blocks that nobody owns now, in the order they were freed; `kept`
    are those of them whose content can still be hit: they went to the back of the free queue, the others to its front.
    """

    sequence: str
    freed: tuple
    num_free: int  # afterwards
    kept: tuple = ()


@dataclass(frozen=True, slots=True)
class SwappedOut:
    """The sequences of a request that had to yield were moved to the host pool. `freed` are the blocks that nobody owns
    now, in the order they were freed."""

    sequences: tuple
    pairs: tuple  # (device block, host block), each distinct block once
    freed: tuple
    num_free: int  # device blocks, afterwards
    num_host_free: int  # likewise


@dataclass(frozen=True, slots=True)
class SwappedIn:
    """They are back, in fresh blocks. Who shared blocks shares them again."""

    sequences: tuple
    pairs: tuple  # (host block, device block)
    num_free: int  # device blocks, afterwards
    num_host_free: int  # likewise


@dataclass(frozen=True, slots=True)
class Preempted:
    """A running request had to yield. Its tokens are kept; its blocks are dropped and their tokens computed again, or
    they are copied to the host pool and back (SwappedOut follows)."""

    request: str
    needed_by: str | None  # who needed blocks (itself, if it was the newest); None: the step broke off
    # To be computed again: the prompt once, then each sequence's own, though beams may share some of theirs.
    num_computed_tokens: int
    num_free: int  # blocks, before the request gave up its own


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sequence got its next token. The K and V of this token are written by the next step, not by this one."""

    sequence: str
    token: int
    position: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A sequence has its last token."""

    sequence: str
    reason: str  # "stop" (end of text, or a stop string) or "length"
    num_output_tokens: int


@dataclass(frozen=True, slots=True)
class Aborted:
    """A request was taken away by its user."""

    request: str
