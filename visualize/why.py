"""Facts into sentences: one plain sentence for each thing that happened in a step, with its blocks and numbers.

The engine records bare facts (minipaged.events); only this file, why_blocks.py and why_runs.py put them into words.
They decide nothing and know nothing but the fact they are given.
"""

from minipaged import events
from visualize.why_blocks import (
    block_copied,
    blocks_released,
    blocks_taken,
    evicted,
    forked,
    prefix_hit,
    swapped_in,
    swapped_out,
)
from visualize.why_runs import no_run, released_run, reserved, taken_in_run
from visualize.words import count, free, span

# What happens to every running sequence in every step.
ROUTINE = ("Sampled", "Scheduled")
# What changes who is in the pool. Playing lingers on the steps in which one of these happens.
LANDMARKS = ("Admitted", "Forked", "Preempted", "Finished", "Refused", "Aborted")
# What else a reader wants to know before the rest.
WEIGHTY = ("BlockCopied", "PrefixHit", "Evicted", "Reserved", "SwappedOut", "SwappedIn")


def importance(kind, dropped=False):
    """The larger, the sooner a reader wants to know of it. dropped: as for `sentence`."""
    if kind in ROUTINE:
        return ROUTINE.index(kind)
    return len(ROUTINE) + (2 if dropped else kind in (*LANDMARKS, *WEIGHTY))


def sentence(event, token_text=None, table=None, dropped=False, may_hit=False, in_run=False, swapped=False):
    """One of minipaged.events -> one sentence. What it needs besides is described with visualize.snapshot.Event."""
    if in_run and isinstance(event, events.BlocksTaken):
        return taken_in_run(event)
    if isinstance(event, events.BlocksReleased):
        if in_run:
            return released_run(event)
        return blocks_released(event, table, dropped)
    if isinstance(event, events.Forked):
        return forked(event, table)
    if isinstance(event, events.Preempted):
        return preempted(event, may_hit, swapped)
    if isinstance(event, events.Admitted):
        return admitted(event, swapped)
    if isinstance(event, events.SwappedOut):
        return swapped_out(event, table)
    return SENTENCES[type(event)](event) if token_text is None else sampled(event, token_text)


def arrived(e):
    return (
        f"{e.request} arrives and queues: a prompt of {count(e.num_prompt_tokens, 'token')}, "
        f"at most {e.max_tokens:,} to generate"
    )


def refused(e):
    if e.reason == "context":
        return (
            f"{e.request} is refused: its prompt of {count(e.num_prompt_tokens, 'token')} leaves no room to generate "
            f"in the model's context of {e.allowed:,}"
        )
    if e.reason == "max_num_seqs":
        return f"{e.request} is refused: its {e.needed:,} sequences must run together, and only {e.allowed:,} may"
    if e.reason == "memory":
        return (
            f"{e.request} is refused: its {e.needed:,} sequences would share the prompt, "
            "and blocks are shared in paged memory only"
        )
    return (
        f"{e.request} is refused: it could need {count(e.needed, 'block')}, and the whole pool has only {e.allowed:,}"
    )


def admitted(e, swapped=False):
    tokens, blocks = count(e.num_tokens, "token"), count(e.blocks_needed, "block")
    if swapped:
        return f"{e.request} may go on where it was: its {tokens} need {blocks}; {free(e.num_free, 'was were')} before"
    if not e.num_cached_tokens:
        return f"{e.request} may enter: its {tokens} need {blocks}, {free(e.num_free)}"
    cached = f"{e.num_cached_tokens:,} of them cached already"
    return f"{e.request} may enter: its {tokens}, {cached}, need {blocks}; {free(e.num_free, 'was were')} before"


def kept_waiting(e):
    spare = " and some to spare" * (e.needed <= e.num_free)  # a watermark, or to go on with once it is back
    reason = {
        "blocks": f"it needs {count(e.needed, 'block')}{spare}, {free(e.num_free, 'was were')} then",
        "max_num_seqs": "no more sequences may run at once",
        "budget": "this step's budget of tokens is spent",
        "catching up": "the last to enter had to yield, and its sequences have yet to catch up",
        "preemption": "someone had to yield in this step, so nobody may enter",
    }[e.reason]
    return f"{e.request} keeps waiting: {reason}"


def scheduled(e):
    positions = f"position{'s' if e.num_tokens > 1 else ''} {span(e.start, e.num_tokens)}"
    if e.start + 1 == e.total > e.num_prompt_tokens:
        return f"{e.sequence} computes K and V of its newest token, {positions}"
    left = e.total - e.start - e.num_tokens
    later = f"{left:,} {'is' if left == 1 else 'are'} left for later steps"
    if e.total > e.num_prompt_tokens:  # it had to yield; only its newest token was never computed before
        again = f"{e.sequence} had to yield and computes K and V of position"
        if left:
            return f"{again}{'s' * (e.num_tokens > 1)} {span(e.start, e.num_tokens)} again: {later}"
        old = e.num_tokens - 1
        return f"{again}{'s' * (old > 1)} {span(e.start, old)} again, and of its newest token, position {e.total - 1}"
    if e.num_tokens == e.total:
        return f"{e.sequence} reads its whole prompt: K and V of {count(e.total, 'token')}"
    return f"{e.sequence} reads a part of its prompt, {positions}: {later if left else 'the prompt is complete'}"


def preempted(e, may_hit=False, swapped=False):
    needs = "it needs" if e.needed_by == e.request else f"{e.needed_by} needs"
    what = f"more than the {count(e.num_free, 'free block')}" if e.num_free else "a block and none is free"
    cause = "the step broke off" if e.needed_by is None else f"{needs} {what}"
    if swapped:
        return f"{e.request} yields: {cause}; its tokens are kept, and in the host pool all K and V that it has"
    if not e.num_computed_tokens:
        return f"{e.request} yields: {cause}; its blocks are dropped and its tokens kept"
    again = f"K and V of {e.num_computed_tokens:,} of them computed again later{', or hit' * may_hit}"
    return f"{e.request} yields: {cause}; its blocks are dropped, its tokens kept, and {again}"


def sampled(e, token_text=None):
    text = f"token {e.token}" if token_text is None else quoted(token_text)
    return f"{e.sequence} gets its next token: {text}, at position {e.position}"


def quoted(text):
    """In quotation marks, line ends written out."""
    return '"' + text.replace("\n", "\\n") + '"'


def finished(e):
    tokens = count(e.num_output_tokens, "token")
    if e.reason == "length":
        return f"{e.sequence} is finished: it has generated {tokens}, and may have no more"
    return f"{e.sequence} is finished: after {tokens} it came to an end of text or a stop string"


def aborted(e):
    return f"{e.request} was taken away by its user"


SENTENCES = {
    events.Arrived: arrived,
    events.Refused: refused,
    events.Admitted: admitted,
    events.KeptWaiting: kept_waiting,
    events.Scheduled: scheduled,
    events.PrefixHit: prefix_hit,
    events.Reserved: reserved,
    events.NoRun: no_run,
    events.Evicted: evicted,
    events.BlocksTaken: blocks_taken,
    events.Forked: forked,
    events.BlockCopied: block_copied,
    events.BlocksReleased: blocks_released,
    events.SwappedOut: swapped_out,
    events.SwappedIn: swapped_in,
    events.Preempted: preempted,
    events.Sampled: sampled,
    events.Finished: finished,
    events.Aborted: aborted,
}
