"""Sentences about blocks: taken, found, shared, copied, given back, moved to the host pool.

Each is made of one fact of minipaged.events, in which blocks are named by their ids.
"""

from visualize.words import count, free, listed, these


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


def swapped_out(e, table=None):
    blocks, hosts = zip(*((block, f"h{host}") for block, host in e.pairs))
    is_one, is_alone = len(blocks) == 1, len(e.sequences) == 1
    moves, its = ("goes", "its") if is_alone else ("go", "their")
    copied = f"{its} {these(blocks)} {'is' if is_one else 'are'} copied to {listed(hosts)}"
    copied += ", each once, whoever shares it" * (not is_alone)
    left = [block for block in blocks if block not in e.freed]
    others = f"; {listed(left)} still {'has' if len(left) == 1 else 'have'} an owner here" if left else ""
    hit = f"; what {listed(table)} {'holds' if len(table) == 1 else 'hold'} here can still be hit" if table else ""
    now = f"{free(e.num_free)} here now and {e.num_host_free:,} there"
    return f"{listed(e.sequences)} {moves} to the host pool: {copied}; {now}{others}{hit}"


def swapped_in(e):
    hosts, blocks = zip(*((f"h{host}", block) for host, block in e.pairs))
    is_one, is_alone = len(blocks) == 1, len(e.sequences) == 1
    comes, its = ("comes", "its") if is_alone else ("come", "their")
    copied = f"{its} {these(hosts)} {'is' if is_one else 'are'} copied to {listed(blocks)} here"
    copied += ", and whoever shared blocks shares them again" * (not is_alone)
    now = f"{free(e.num_free)} here now and {e.num_host_free:,} there"
    return f"{listed(e.sequences)} {comes} back from the host pool: {copied}; nothing is computed again; {now}"
