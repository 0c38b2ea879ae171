"""Facts into sentences: one plain sentence for each thing that happened in a step, with its blocks and numbers.

The engine records bare facts (minipaged.events); only this file puts them into words. It decides nothing and knows
nothing but the fact it is given.
"""

from minipaged import events
from visualize.why_runs import no_run, released_run, reserved, taken_in_run
from visualize.words import count, free, listed, span, these

# What happens to every running sequence in every step.
ROUTINE = ("Sampled", "Scheduled")
# What changes who is in the pool. Playing lingers on the steps in which one of these happens.
LANDMARKS = ("Admitted", "Forked", "Preempted", "Finished", "Refused", "Aborted")


def importance(kind, dropped=False):
    """The larger, the sooner a reader wants to know of it. dropped: as for `sentence`."""
    if kind in ROUTINE:
        return ROUTINE.index(kind)
    return len(ROUTINE) + (2 if dropped else kind in (*LANDMARKS, "BlockCopied", "PrefixHit", "Evicted", "Reserved"))


def sentence(event, token_text=None, table=None, dropped=False, may_hit=False, in_run=False):
    """One of minipaged.events -> one sentence.

    token_text: what a sampled token says. table: the blocks that a fork shares, or that a sequence gives up; None where
    they aren't known. dropped: whether it gives them up because others were preferred to it. may_hit: whether who
    yields may find its tokens in the prefix cache when it comes back. in_run: whether blocks are taken from, and given
    back as, a run that is reserved for the sequence.
    """
    if in_run and isinstance(event, events.BlocksTaken):
        return taken_in_run(event)
    if isinstance(event, events.BlocksReleased):
        if in_run:
            return released_run(event)
        return blocks_released(event, table, dropped)
    if isinstance(event, events.Forked):
        return forked(event, table)
    if isinstance(event, events.Preempted):
        return preempted(event, may_hit)
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


def admitted(e):
    tokens, blocks = count(e.num_tokens, "token"), count(e.blocks_needed, "block")
    if not e.num_cached_tokens:
        return f"{e.request} may enter: its {tokens} need {blocks}, {free(e.num_free)}"
    cached = f"{e.num_cached_tokens:,} of them cached already"
    return f"{e.request} may enter: its {tokens}, {cached}, need {blocks}; {free(e.num_free, 'was were')} before"


def kept_waiting(e):
    reason = {
        "blocks": f"it needs {count(e.needed, 'block')}, {free(e.num_free, 'was were')} then",
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


def prefix_hit(e):
    blocks, one = these(e.blocks, "physical block"), len(e.blocks) == 1
    found = f"{e.sequence}'s first {count(e.num_tokens, 'token')} are found in {blocks}: nothing to compute for them"
    if not e.num_free_before:
        owners = "it has an owner and is shared now" if one else "all of these have an owner and are shared now"
    elif e.num_free_before < len(e.blocks):
        leaves = "leaves" if e.num_free_before == 1 else "leave"
        owners = f"{e.num_free_before:,} of these had no owner and {leaves} the free queue, {e.num_free:,} left"
    else:
        owners = f"nobody owned {'it, it leaves' if one else 'these, they leave'} the free queue, {e.num_free:,} left"
    return f"{found}; {owners}"


def evicted(e):
    was, it = ("was", "it") if len(e.blocks) == 1 else ("were", "they")
    waited = f"{it} had waited longest of all cached ones (LRU)"
    blocks = these(e.blocks, "physical block")
    return f"{e.sequence} must use {blocks}, which {was} cached: {waited}, and what {it} held can't be hit any more"


def blocks_taken(e):
    taken = these(e.blocks, "physical block")
    queue = f"the front of the free queue, {e.num_free:,} left"
    if e.first_logical == 0:
        return f"{e.sequence} gets {taken} from {queue}"
    if e.last_was_full:
        return f"{e.sequence}'s logical block {e.first_logical - 1} is full: {taken} taken from {queue}"
    return f"{e.sequence}'s new tokens go past its logical block {e.first_logical - 1}: {taken} taken from {queue}"


def forked(e, table=None):
    if not e.num_blocks:
        return f"{e.child} begins as {e.parent} does, which holds no block yet"
    shared = "its only block" if e.num_blocks == 1 else f"all {e.num_blocks:,} of its blocks"
    shared = these(table) if table else shared
    return f"{e.child} is forked from {e.parent}: it shares {shared}, nothing is copied"


def block_copied(e):
    return (
        f"{e.sequence} writes into physical block {e.source}, which {e.num_owners:,} share: its content is copied to "
        f"{e.destination}, which only {e.sequence} owns"
    )


def blocks_released(e, table=None, dropped=False):
    owned = [block for block in table or () if block not in e.freed]
    who = f"{e.sequence} is followed no further: it" if dropped else e.sequence
    if not e.freed:
        blocks = these(owned) if owned else "its blocks"
        each = "it" if len(owned) == 1 else "each"
        return f"{who} gives up {blocks}, but none is freed: {each} still has another owner"
    lost = [block for block in e.freed if block not in e.kept]
    if owned:
        are, have = ("are" if len(e.freed) > 1 else "is"), ("have" if len(owned) > 1 else "has")
        freed = f"{listed(e.freed)} {are} freed: {free(e.num_free)} now"
        cached = f"; {can_be_hit(e.kept, 'the back of the free queue')}" if e.kept else ""
        return f"{who} gives up {these(table)}, of which {freed}{cached}; {listed(owned)} still {have} an owner"
    order = ", from its last to its first" * (len(e.freed) > 1)
    blocks = these(e.freed, "physical block")
    if not e.kept:
        return f"{who} gives back {blocks}{order}, to the front of the free queue: {free(e.num_free)} now"
    if not lost:
        order = f"{order}, to the back of the free queue: {free(e.num_free)} now"
        holds = "it holds" if len(e.kept) == 1 else "they hold"
        return f"{who} gives back {blocks}{order}, and what {holds} can still be hit"
    goes = "goes" if len(lost) == 1 else "go"
    order = f"{order}: {free(e.num_free)} now; {listed(lost)} {goes} to the front of the free queue"
    return f"{who} gives back {blocks}{order}, {can_be_hit(e.kept, 'its back')}"


def can_be_hit(blocks, end):
    return f"{listed(blocks)} can still be hit and {'goes' if len(blocks) == 1 else 'go'} to {end}"


def preempted(e, may_hit=False):
    needs = "it needs" if e.needed_by == e.request else f"{e.needed_by} needs"
    what = f"more than the {count(e.num_free, 'free block')}" if e.num_free else "a block and none is free"
    cause = "the step broke off" if e.needed_by is None else f"{needs} {what}"
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
    events.Preempted: preempted,
    events.Sampled: sampled,
    events.Finished: finished,
    events.Aborted: aborted,
}
