"""For the checks of exercise 08: sequences that wait and run, one call of the learner's, and all that it must be."""

from collections import deque

KNOWN = ("name", "num_tokens", "num_computed_tokens")


class NotOffered(AssertionError, AttributeError):
    """Something was asked of a sequence that it doesn't have. hasattr(...) is False, as ever."""


class Sequence:
    """What a sequence says of itself, and nothing more. Its name stands for it in a message."""

    def __init__(self, name, num_tokens, num_computed_tokens=0):
        self.name, self.num_tokens, self.num_computed_tokens = name, num_tokens, num_computed_tokens

    def __getattr__(self, name):
        raise NotOffered(f"a sequence was asked for its {name!r}: it has {', '.join(KNOWN)}, and nothing else")

    def __repr__(self):
        return self.name

    @property
    def num_lacking(self):
        return self.num_tokens - self.num_computed_tokens

    def told(self):
        return f"{self.name} {self.num_computed_tokens}/{self.num_tokens}"


class World:
    """Sequences on their way from waiting to running. Each call is held against what the stub says.

    running, waiting: (name, tokens, computed) or (name, tokens), in order.
    """

    def __init__(self, impl, budget, max_num_seqs, running=(), waiting=()):
        assert budget >= max_num_seqs >= len(running)
        self.impl, self.budget, self.max_num_seqs = impl, budget, max_num_seqs
        self.running = [Sequence(*each) for each in running]
        self.waiting = deque(Sequence(*each) for each in waiting)

    def arrive(self, *sequences):
        self.waiting.extend(Sequence(*each) for each in sequences)
        return self

    def told(self):
        """The call, for a message: each sequence with its computed tokens and all of them."""
        running, waiting = (cut([each.told() for each in queue]) for queue in (self.running, self.waiting))
        return f"schedule(running {running}, waiting {waiting}, budget {self.budget}, max_num_seqs {self.max_num_seqs})"

    def schedule(self):
        """The learner's schedule, held against all that must be true of it. Returns self."""
        told, running, waiting = self.told(), list(self.running), list(self.waiting)
        before = {each: (each.name, each.num_tokens, each.num_computed_tokens) for each in running + waiting}
        rows = self.impl.schedule(self.running, self.waiting, self.budget, self.max_num_seqs)

        def demand(holds, problem):
            assert holds, f"{told} {problem}"

        for each, (name, num_tokens, num_computed) in before.items():
            same = vars(each) == {"name": name, "num_tokens": num_tokens, "num_computed_tokens": num_computed}
            now = f"{each.num_computed_tokens}/{each.num_tokens}"
            demand(
                same, f"changed {name} from {num_computed}/{num_tokens} to {now}: it must leave sequences as they are"
            )
        self.must_be_rows(demand, rows, before)
        self.rows = rows
        given = f"gave {shown(rows)}"
        left = self.continue_running(demand, given, list(rows), running)
        entered = self.let_enter(demand, given, rows[len(running) :], waiting, len(running), left)
        for name, found, right in (
            ("running", list(self.running), running + waiting[:entered]),
            ("waiting", list(self.waiting), waiting[entered:]),
        ):
            why = "who enters moves from the head of waiting to the end of running, and nobody else moves"
            demand(found == right, f"left {name} as {cut(found)}: it must be {cut(right)}; {why}")
        return self

    def must_be_rows(self, demand, rows, before):
        demand(isinstance(rows, list), f"returned {shown(rows)}: it must return a list of rows")
        for row in rows:
            is_row = isinstance(row, tuple) and len(row) == 3 and isinstance(row[0], Sequence)
            is_row = is_row and all(type(number) is int for number in row[1:])
            demand(is_row, f"gave {shown(row)} as a row: it must be a tuple (sequence, start, num_tokens)")
            demand(row[0] in before, f"gave the row {shown(row)}: {row[0]} neither runs nor waits here")
        spent, seen = sum(row[2] for row in rows), [row[0] for row in rows]
        for sequence, start, num_tokens in rows:
            said, lacks = f"gave the row {shown((sequence, start, num_tokens))}", sequence.num_lacking
            demand(seen.count(sequence) == 1, f"gave {shown(rows)}: {sequence} has two rows, and one is for each")
            demand(num_tokens != 0, f"{said}: nobody gets a row of 0 tokens")
            right = sequence.num_computed_tokens
            demand(start == right, f"{said}: it must start at {right}, for {count(right)} of {sequence} are computed")
            demand(0 < num_tokens <= lacks, f"{said}: {sequence} lacks {count(lacks)}, and can't compute {num_tokens}")
        demand(spent <= self.budget, f"gave {shown(rows)}: these are {spent} tokens, and the budget is {self.budget}")

    def continue_running(self, demand, given, rows, running):
        """Those that ran before have the first rows, in order, as many tokens as they can. Returns what is left."""
        left = self.budget
        for place, sequence in enumerate(running):
            lacks = sequence.num_lacking
            own = next((row for row in rows if row[0] is sequence), None)
            demand(own, f"{given}: no row for {sequence}, which runs and lacks {count(lacks)}: it must get one")
            right = min(lacks, left)
            what = f"it lacks {count(lacks)}, and the budget has {left} left"
            demand(own[2] == right, f"{given}: {sequence} gets {own[2]}: {what}, so it must get {right}")
            found = rows[place][0]
            order = "the oldest of the running comes first, and those that enter come last"
            demand(found is sequence, f"{given}: row {place + 1} must be that of {sequence}, not of {found}; {order}")
            left -= right
        return left

    def let_enter(self, demand, given, rows, waiting, num_running, left):
        """The others' rows are those of the waiting that may enter, in order. Returns how many these are."""
        number = 0
        while number < len(waiting) and left > 0 and num_running + number < self.max_num_seqs:
            sequence, lacks = waiting[number], waiting[number].num_lacking
            room = f"the budget has {left} left, and {num_running + number} of at most {self.max_num_seqs} run"
            found = rows[number][0] if number < len(rows) else "nobody"
            where = "at the head" if number == 0 else f"next, behind {waiting[number - 1]}"
            demand(found is sequence, f"{given}: {found} enters, but {sequence} waits {where} and must enter; {room}")
            got, right = rows[number][2], min(lacks, left)
            what = f"it lacks {count(lacks)}, and the budget has {left} left"
            demand(got == right, f"{given}: {sequence} gets {got}: {what}, so it must get {right}")
            left, number = left - right, number + 1
        if number < len(rows):
            is_full = num_running + number >= self.max_num_seqs
            why = f"at most {self.max_num_seqs} may run" if is_full else "nothing is left of the budget"
            demand(False, f"{given}, but {rows[number][0]} must not enter: {why}")
        return number

    def compute(self, leaving=()):
        """What the step does after the call: tokens are computed, who has caught up gets the next one or leaves."""
        for sequence, _, num_tokens in self.rows:
            sequence.num_computed_tokens += num_tokens
            if sequence.num_lacking == 0:
                sequence.num_tokens += 1
        self.running = [each for each in self.running if each.name not in leaving or each.num_lacking > 1]
        return self

    def step(self, leaving=()):
        return self.schedule().compute(leaving)


def count(number):
    return f"{number} token{'s' * (number != 1)}"


def shown(rows):
    """Rows as one writes them, or whatever else came back; long lists are cut."""
    return cut([repr(row) for row in rows]) if isinstance(rows, list) else repr(rows)


def cut(items):
    items = list(map(str, items))
    items = items if len(items) <= 9 else [*items[:4], f"... {len(items) - 8} more ...", *items[-4:]]
    return f"[{', '.join(items)}]"
