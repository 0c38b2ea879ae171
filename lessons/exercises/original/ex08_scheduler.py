"""Exercise 08: the scheduler, with memory enough for everybody.

Goal: decide one step. Who continues, who enters, and how many tokens does each of them compute?

    sequence      has a name, num_tokens (prompt and generated) and num_computed_tokens (those whose K and V are
                  stored). It lacks the difference, always at least 1 token: the newest is never among the computed
    running       a list of sequences, the oldest first. All of them but the last lack 1 token: they decode. The last
                  one may lack more: it is in the middle of its prompt
    waiting       a deque of sequences, the one that came first at its head. Most have 0 tokens computed, but the
                  beginning of one may have been found in the cache
    budget        the most tokens that this step computes, all sequences together; at least max_num_seqs
    max_num_seqs  the most sequences that may run together; so many or fewer are in `running`
    row           a tuple (sequence, start, num_tokens): the sequence computes num_tokens tokens, from position start on

Edit below the line, not the tests. About 12 lines, 25 minutes. It fails now on purpose, as TODO. To check it:

    python -m pytest -k ex08 --impl yours -x

Hints: python -m minipaged.exercises hint ex08
"""

# ------------------------------------------------------------------------------------------------ edit below this line


def schedule(running, waiting, budget, max_num_seqs):
    """The rows of this step: a list with one row for each running sequence, in the order of `running`.

    First the running continue, the oldest first. Each catches up: it computes the tokens that it lacks, all of them or
    as many as are left of the budget.

    Then the waiting enter in their order, nobody before the head, as long as tokens are left of the budget and fewer
    than max_num_seqs run. Who enters moves from the head of `waiting` to the end of `running` (change these two, not
    copies), and catches up like the others in this very step: all that it lacks, or what is left.

    A row begins at the sequence's num_computed_tokens, and nobody gets a row of 0 tokens. Nothing but `running` and
    `waiting` changes: the tokens are computed later, and what a sequence says of itself is not yours to change.
    """
    raise NotImplementedError("ex08: schedule is yours to write")
