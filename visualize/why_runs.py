"""Why, of contiguous memory: facts about runs of blocks, into sentences. (why.py has all others.)"""

from visualize.words import count, free, span, these

MEANT_FOR = {
    "max": "the longest text that the model allows",
    "pow2": "its prompt and its output, that rounded up to a power of two",
    "oracle": "its prompt and all of its output",
}


def reserved(e):
    blocks = f"physical block{'s' * (e.num_blocks > 1)} {span(e.first_block, e.num_blocks)}"
    return (
        f"{e.sequence} reserves a run, {blocks}, {e.num_blocks:,} of the {e.num_free:,} that were free: "
        f"{count(e.num_slots, 'slot')} for {MEANT_FOR[e.policy]}"
    )


def no_run(e):
    """Why the head of the queue keeps waiting. Blocks that are free and not side by side are the paper's external
    fragmentation."""
    missing = f"{e.sequence} keeps waiting: no run of {count(e.num_blocks, 'block')}, {free(e.num_free, 'was were')}"
    return missing if e.num_free < e.num_blocks else f"{missing}, but no more than {e.longest:,} side by side"


def taken_in_run(e):
    """Of BlocksTaken."""
    if e.first_logical == 0:
        return f"{e.sequence} begins in {these(e.blocks, 'physical block')}, at the front of its run"
    return f"{e.sequence} goes on in {these(e.blocks, 'physical block')}, the next in its run"


def released_run(e):
    """Of BlocksReleased."""
    blocks = f"physical block{'s' * (len(e.freed) > 1)} {span(min(e.freed), len(e.freed))}"
    return f"{e.sequence} gives back its whole run, {blocks}, written or not: {free(e.num_free)} now"
