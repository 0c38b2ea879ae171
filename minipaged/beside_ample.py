"""A learner's schedule with minipaged's own beside it: both decide every step of an engine, and must decide alike."""

from minipaged.learner import WrongAnswer
from minipaged.serving import ample


def beside_ample(theirs):
    """A learner's schedule, held against minipaged's for a memory that never runs out. Raises WrongAnswer."""

    def schedule(running, waiting, budget, max_num_seqs):
        right_running, right_waiting = list(running), waiting.copy()
        asked = f"schedule({shown(running)}, {shown(waiting)}, {budget}, {max_num_seqs})"
        right = ample.schedule(right_running, right_waiting, budget, max_num_seqs)
        rows = theirs(running, waiting, budget, max_num_seqs)
        if rows != right:
            raise WrongAnswer(f"{asked} gave {as_written(rows)}, and it must give {as_written(right)}")
        if running != right_running or waiting != right_waiting:
            found = f"left running {shown(running)} and waiting {shown(waiting)}"
            raise WrongAnswer(f"{asked} {found}, and it must leave {shown(right_running)} and {shown(right_waiting)}")
        return rows

    return schedule


def as_written(rows):
    """Rows for a message, or whatever else came back."""
    is_rows = isinstance(rows, list) and all(isinstance(row, tuple) for row in rows)
    told = repr([tuple(row) for row in rows] if is_rows else rows)
    return told if len(told) < 200 else f"{told[:160]} ... {told[-30:]}"


def shown(sequences):
    """A queue for a message, each sequence with what is computed of it and how many tokens it has."""
    told = [f"{each.name} {each.num_computed_tokens}/{each.num_tokens}" for each in sequences]
    return f"[{', '.join(told if len(told) < 9 else [*told[:8], '...'])}]"
