"""Plan: what one step will do, decided before anything is computed. Continuation: what came of it.

Both are plain Python, so that the scheduler can be driven without a model. (vLLM: v1/core/sched/output.py,
SchedulerOutput.)
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from minipaged.serving.sequence import Sequence


class Row(NamedTuple):
    """A sequence computes num_tokens tokens in this step, from position `start` on."""

    sequence: Sequence
    start: int
    num_tokens: int


new_row = partial(tuple.__new__, Row)  # of one tuple; as Row(...), whose own constructor takes three times as long


class Continuation(NamedTuple):
    """A due sequence goes on with this token.

    logprobs, where its parameters ask for them: token -> (log-probability, rank from 1) of this and the likeliest
    tokens.
    """

    parent: Sequence
    token: int
    logprob: float
    logprobs: dict | None = None


@dataclass
class Plan:
    """One step. Every position that a row covers has a slot when the plan is made.

    due: the sequences that this step catches up, in the order of the rows: each of them gets its next token.
    copies: (source block, destination block) pairs, to be copied before anything is written.
    handed_out, released: block ids that changed hands since the last plan. Nothing in them may be read before it is
    written; tests poison them, so that it shows if something does.
    swap_out: (device block, host block) pairs, swap_in: (host block, device block) pairs; one step has never both.
    """

    rows: list = field(default_factory=list)
    due: list = field(default_factory=list)
    copies: list = field(default_factory=list)
    handed_out: list = field(default_factory=list)
    released: list = field(default_factory=list)
    swap_out: list = field(default_factory=list)
    swap_in: list = field(default_factory=list)
