"""What a request asks for that has several sequences: it is served together or not at all.

Its samples share one prompt. That is computed once, by one sequence, and the others are forked from it; from then on
each has tokens of its own. Here they are only counted, and nothing is changed: the scheduler asks, and decides. Lesson
07 walks through it. (Paper: section 4.5: sequences of one group are preempted and come back together.)
"""

from minipaged.memory.block_table import blocks_for


def unfinished(request):
    """The sequences that go on, in the order of their index."""
    return [sequence for sequence in request.sequences if sequence.finish_reason is None]


def is_apart(group):
    """Has a group that had to yield come back, with only its first sequence in the memory so far?"""
    return len(group) > 1 and not group[-1].num_computed_tokens


def shares(request, budget):
    """Who computes how many tokens in this step, `budget` of them in all: a list of (sequence, num_tokens).

    Each takes what it lacks, in order, and leaves one token for each behind it: so whoever has caught up goes on in
    every step. budget: at least one token for each unfinished sequence, or for the one that computes the prompt.
    """
    if len(request.sequences) == 1:  # nearly every request
        [sequence] = request.sequences
        return [(sequence, min(len(sequence.token_ids) - sequence.num_computed_tokens, budget))]
    group = unfinished(request)
    if is_apart(group):  # the prompt, and there the others are forked
        return [(group[0], min(request.num_prompt_tokens - group[0].num_computed_tokens, budget))]
    given = []
    for num_behind, sequence in zip(reversed(range(len(group))), group):
        num_tokens = min(sequence.num_tokens - sequence.num_computed_tokens, budget - num_behind)
        given.append((sequence, num_tokens))
        budget -= num_tokens
    return given


def blocks_wanted(request, block_size):
    """How many blocks all known tokens fill: the prompt's full blocks once, the rest for each sequence by itself."""
    shared = request.num_prompt_tokens // block_size
    return shared + sum(blocks_for(sequence.num_tokens, block_size) - shared for sequence in unfinished(request))


def num_known(request):
    """How many different tokens are to be computed from nothing: the prompt once, and everybody's own."""
    return request.num_prompt_tokens + sum(sequence.num_output_tokens for sequence in unfinished(request))


def num_computed(request):
    """How many different tokens have K and V in the cache, counted in the same way."""
    first, *others = [each.num_computed_tokens for each in unfinished(request) if each.num_computed_tokens] or [0]
    return first + sum(computed - request.num_prompt_tokens for computed in others)


def sample_indices(sequence):
    """The samples for which a due sequence's logits are drawn from: at the end of the prompt all, then its own."""
    return (sequence.index,) if sequence.num_output_tokens else range(sequence.request.num_sequences)
