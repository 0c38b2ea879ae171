"""What a request asks for that has several sequences: it is served together or not at all.

Its samples or beams share one prompt. That is computed once, by one sequence, and the others are forked from it; from
then on each has tokens of its own. First what such a request asks for, which is only counted; at the end how it yields
and comes back, as preemption.py says it for one sequence. Lesson 07 says what a group is. (Paper: section 4.5:
sequences of one group are preempted and come back together.)
"""

from minipaged.memory.block_table import blocks_for
from minipaged.memory.contiguous import ContiguousMemory
from minipaged.serving.plan import Row
from minipaged.serving.preemption import preempt, resume


def refused(request, memory, max_num_seqs):
    """Why a request can never run, if so: (in words, in a word, how much it needs, how much there is); else None."""
    n, num_prompt_tokens, max_tokens = request.num_sequences, request.num_prompt_tokens, request.max_tokens
    name = "beam_width" if request.is_beam_search else "n"
    if n > max_num_seqs:
        why = f"{name}={n}: at most max_num_seqs={max_num_seqs} sequences run together, and these must"
        return why, "max_num_seqs", n, max_num_seqs
    reserves = isinstance(memory, ContiguousMemory)
    if n > 1 and reserves:
        return f"{name}={n}: several answers share one prompt in paged memory only; 1 is allowed here", "memory", n, 1
    if memory.fits_ever(num_prompt_tokens, max_tokens, n):
        return None
    needed = memory.blocks_at_most(num_prompt_tokens, max_tokens, n)
    by_policy = f"a run (memory={memory.policy!r}) of " if reserves else ""
    why = (
        f"the request can never fit: {num_prompt_tokens} prompt tokens and max_tokens={max_tokens}"
        f"{f' for each of {name}={n} answers' if n > 1 else ''} need {by_policy}{needed} blocks "
        f"of {memory.block_size}, the pool has {memory.num_blocks}"
    )
    return why, "pool", needed, memory.num_blocks


def unfinished(request):
    """The sequences that go on, in the order of their index."""
    return [sequence for sequence in request.sequences if sequence.finish_reason is None]


def awaits_forks(group):
    """Has a group that had to yield come back, with only its first sequence in the memory so far?"""
    return len(group) > 1 and not group[-1].num_computed_tokens


def rows_of(request, budget):
    """Who computes which tokens in this step, `budget` of them in all: a list of Rows.

    Each sequence takes what it lacks, in order, and leaves one token for each behind it: so whoever has caught up goes
    on in every step. Beams are compared with each other, so they go on in the same step: until the budget has room for
    what all of them lack, each is held one token short. budget: at least one token for each unfinished sequence, or for
    the one that computes the prompt.
    """
    group, rows = unfinished(request), []
    if awaits_forks(group):  # the prompt, and there the others are forked
        start = group[0].num_computed_tokens
        return [Row(group[0], start, min(request.num_prompt_tokens - start, budget))]
    num_held = int(request.is_beam_search and sum(map(num_lacking, group)) > budget)
    for num_behind, sequence in zip(reversed(range(len(group))), group):
        num_tokens = min(num_lacking(sequence) - num_held, budget - num_behind)
        if num_tokens:
            rows.append(Row(sequence, sequence.num_computed_tokens, num_tokens))
        budget -= num_tokens
    return rows


def num_lacking(sequence):
    """How many of its tokens are still to be computed."""
    return sequence.num_tokens - sequence.num_computed_tokens


def blocks_wanted(request, block_size):
    """How many blocks all known tokens fill: the prompt's full blocks once, the rest for each sequence by itself."""
    shared = request.num_prompt_tokens // block_size
    return shared + sum(blocks_for(sequence.num_tokens, block_size) - shared for sequence in unfinished(request))


def num_known(request):
    """How many different tokens are to be computed from nothing: the prompt once, and everybody's own."""
    return request.num_prompt_tokens + sum(sequence.num_output_tokens for sequence in unfinished(request))


def num_computed(request):
    """How many tokens a preemption makes it compute again: the prompt once, then each sequence's own; what beams share
    of these counts for each."""
    first, *others = [each.num_computed_tokens for each in unfinished(request) if each.num_computed_tokens] or [0]
    return first + sum(computed - request.num_prompt_tokens for computed in others)


def sample_indices(sequence):
    """Which samples draw from a due sequence's logits: all of them at the end of the prompt, later only its own."""
    return (sequence.index,) if sequence.num_output_tokens else range(sequence.request.num_sequences)


def resident(request):
    """Its sequences that have a table, on the device or in the host pool."""
    return [sequence for sequence in request.sequences if sequence.num_computed_tokens]


def preempt_group(request, memory, swap=False):
    """As preemption.preempt: all its sequences give up their blocks; what they share is copied once."""
    sequences = resident(request)
    if swap and (pairs := memory.swap_out([each.name for each in sequences])) is not None:
        return pairs
    for sequence in sequences:
        preempt(sequence, memory)
    return []


def resume_group(request, memory, extra_blocks=0):
    """As preemption.resume. By recompute the first sequence enters, for the prompt, and the others are forked there; if
    only one is left, it is like any other sequence."""
    first, *others = unfinished(request)
    if sequences := resident(request):
        return memory.swap_in([each.name for each in sequences], extra_blocks)
    if not others:
        return resume(first, memory, extra_blocks)
    prompt = first.token_ids[: request.num_prompt_tokens]
    num_cached = memory.admit(first.name, prompt, request.max_tokens, extra_blocks)
    if num_cached is None:
        return None
    first.num_computed_tokens = num_cached
    return []


def extra_blocks_for(request, block_size):
    """How many blocks all its known tokens need beyond what memory.admit or swap_in asks room for by itself: those of
    the sequence that enters, or of one token more for each that comes back."""
    if len(sequences := resident(request)) > 1:
        pairs = [(each.num_tokens, each.num_computed_tokens + 1) for each in sequences]
        return sum(blocks_for(known, block_size) - blocks_for(asked, block_size) for known, asked in pairs)
    first, *others = unfinished(request)
    asked_for = request.num_prompt_tokens if others else first.num_tokens
    if sequences:
        asked_for = sequences[0].num_computed_tokens + 1
    return blocks_wanted(request, block_size) - blocks_for(asked_for, block_size)
