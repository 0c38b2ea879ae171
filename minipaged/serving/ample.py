"""The scheduler where memory never runs out: who continues, who enters.

These are the rules of scheduler.py without blocks. That one also asks the memory for every row, takes the blocks of the
newest request when there are too few for an older one (who must yield), keeps the head of the queue waiting until there
is room for it, and serves requests with several sequences as one. With one sequence a request and a pool that is large
enough, both give the same rows in every step. Lesson 08 builds it. (Entering and leaving between any two steps: Orca,
OSDI 2022. Prompts in chunks: Sarathi-Serve, OSDI 2024. vLLM: v1/core/sched/scheduler.py.)
"""

from minipaged.serving.plan import Row


def schedule(running, waiting, budget, max_num_seqs):
    """Decide one step. Returns its rows, one for each running sequence, in the order of `running`.

    running: a list of sequences, the oldest first; those that enter are appended to it. waiting: a deque of sequences;
    those that enter are taken from its head. budget: the most tokens in the step, at least max_num_seqs. max_num_seqs:
    the most sequences that run together. Of a sequence only num_tokens and num_computed_tokens are read, and neither is
    changed: that is done after the step. All of `running` but the last lack one token, and so they do after the step.
    """
    rows = []
    for sequence in running:
        budget = _grant(rows, sequence, budget)
    while waiting and budget > 0 and len(running) < max_num_seqs:
        sequence = waiting.popleft()
        running.append(sequence)
        budget = _grant(rows, sequence, budget)
    return rows


def _grant(rows, sequence, budget):
    """Append the row in which a sequence catches up as far as the budget allows. Returns what is left of that."""
    start = sequence.num_computed_tokens
    num_tokens = min(sequence.num_tokens - start, budget)
    rows.append(Row(sequence, start, num_tokens))
    return budget - num_tokens
