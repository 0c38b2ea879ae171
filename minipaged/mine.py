"""An engine on a learner's own parts: every solved exercise takes the place of minipaged's solution.

The memory is checked after every step, and what goes wrong in one of these parts is told as the learner's, with file
and line.
"""

from contextlib import contextmanager
from dataclasses import dataclass

import torch

from minipaged import learner
from minipaged.attention import reference
from minipaged.beside_ample import beside_ample
from minipaged.beside_codec import beside_codec
from minipaged.exercises import EXERCISES
from minipaged.learner import WrongAnswer
from minipaged.memory import prefix_cache
from minipaged.memory.check import check
from minipaged.serving.engine import Engine
from minipaged.serving.parts import Parts


@dataclass(frozen=True)
class Mine(Parts):
    """exercises: those whose solutions these parts are. notes: why a file was not used, a line each."""

    exercises: tuple = ()
    notes: tuple = ()

    @classmethod
    def load(cls):
        """Each part from the learner's file for it, if nothing in the file is left to write."""
        parts, solved, notes = {}, [], []
        for exercise in EXERCISES.values():
            try:
                if not exercise.parts:
                    continue
                if line := learner.todo_line(exercise.path, exercise.id):
                    if exercise.path.read_bytes() != exercise.original.read_bytes():
                        notes.append(f"not used: {exercise.file}, line {line} says that it is still to be written")
                else:
                    theirs = exercise.load()
                    parts |= {part: getattr(theirs, name) for part, name in zip(exercise.parts, exercise.names)}
                    solved.append(exercise)
            except learner.WrongFile as error:
                notes.append(f"not used: {error}")
        if "attend_one" in parts:
            parts["attend_one"] = compared(parts["attend_one"])
        if "make_writable" in parts:
            parts["make_writable"] = watched(parts["make_writable"])
        if "schedule" in parts:
            parts["schedule"] = beside_ample(parts["schedule"])
        if "choose_victim" in parts:
            parts |= accounted(parts["choose_victim"], parts["preempt"], parts["resume"])
        if "prefix_cache" in parts:
            parts |= beside_ours(parts["block_hashes"], parts["prefix_cache"])
        if "encode" in parts:
            parts |= beside_codec(parts["encode"], parts["decode"])
        return cls(**parts, exercises=tuple(solved), notes=tuple(notes))

    @property
    def names(self):
        """The learner's parts, by name."""
        return ", ".join(name for exercise in self.exercises for name in exercise.names)

    @property
    def yours(self):
        """Which parts are the learner's, for a title."""
        return f"yours: {self.names or 'nothing yet'}"

    def engine_of(self, *arguments):
        return LearnersEngine(self, *arguments) if self.exercises else Engine(*arguments)

    @contextmanager
    def blamed(self):
        """Inside it, an error that comes from these parts is a ValueError that says where in the learner's files."""
        try:
            yield
        except learner.Interrupted:
            raise
        except (Exception, SystemExit) as error:
            first = error
            while first.__context__ is not None:  # what came after it, while the engine cleaned up, is no news
                first = first.__context__
            where = learner.place(first, [exercise.path for exercise in self.exercises])
            if where is None and (isinstance(error, SystemExit) or not self.exercises):
                raise
            where = where or f"while the engine used {self.names}"
            ids = " or ".join(exercise.id for exercise in self.exercises)
            to_do = f"python -m pytest -k '{ids}' --impl yours -x"
            raise ValueError(f"your code, {where}: {type(first).__name__}: {first} ({to_do})") from error


def compared(theirs):
    """A learner's attend_one, each of whose answers is held against the reference's. Raises WrongAnswer."""

    def attend_one(q, k_cache, v_cache, block_table, seq_len, scale):
        right = reference.attend_one(q, k_cache, v_cache, block_table, seq_len, scale)
        out = theirs(q, k_cache, v_cache, block_table, seq_len, scale)
        if not isinstance(out, torch.Tensor) or out.shape != right.shape:
            found = getattr(out, "shape", type(out).__name__)
            raise WrongAnswer(f"attend_one returned {found}: a tensor of {right.shape} is needed")
        error = (out - right).abs().max().item()
        if not error <= 1e-3 * max(1.0, right.abs().max().item()):  # NaN is not at most anything
            raise WrongAnswer(f"attend_one over {seq_len} keys is {error:.2g} away from minipaged's answer")
        return out

    return attend_one


def watched(theirs):
    """A learner's make_writable: afterwards the block has one owner, and the pair returned is the entry replaced.

    Raises WrongAnswer: otherwise another sequence's K and V would be overwritten, and nobody would know why.
    """

    def make_writable(table, position, allocator):
        before = list(table.blocks)
        pair = theirs(table, position, allocator)
        logical = position // table.block_size
        for block in table.blocks[logical : logical + 1]:
            if (owners := allocator.ref_count(block)) != 1:
                raise WrongAnswer(f"after make_writable block {block}, about to be written, has {owners} owners")
        expected = next(((old, new) for old, new in zip(before, table.blocks) if old != new), None)
        if pair != expected:
            raise WrongAnswer(f"make_writable turned {before} into {table.blocks} and returned {pair}, not {expected}")
        return pair

    return make_writable


def accounted(choose_victim, preempt, resume):
    """A learner's three functions of preemption, held against what the memory says afterwards. Raises WrongAnswer: a
    token lost, or taken for computed, would spoil the text, and nobody would know why."""

    def newest(running):
        victim, expected = choose_victim(running), running[-1]
        if victim is not expected:
            found = getattr(victim, "request_id", repr(victim))
            raise WrongAnswer(f"choose_victim chose {found}, and the newest is {expected.request_id}")
        return victim

    def held(name, theirs, num_computed_then):
        def call(sequence, memory, *arguments):
            before, token_ids = sequence.num_computed_tokens, list(sequence.token_ids)
            pairs = theirs(sequence, memory, *arguments)
            if sequence.token_ids != token_ids:
                raise WrongAnswer(f"{name} changed the tokens of {sequence.name}")
            expected = num_computed_then(sequence.name, memory, pairs, before)
            if sequence.num_computed_tokens != expected:
                found = f"{sequence.num_computed_tokens} tokens of {sequence.name} as computed"
                raise WrongAnswer(f"{name} left {found}, and it must be {expected}")
            return pairs

        return call

    def here(name, memory, pairs, before):
        return before if pairs is None else memory.table(name).num_tokens

    preempt = held("preempt", preempt, lambda name, memory, pairs, before: before if pairs else 0)
    return {"choose_victim": newest, "preempt": preempt, "resume": held("resume", resume, here)}


def beside_ours(block_hashes, their_cache):
    """A learner's block_hashes and PrefixCache, with minipaged's own beside them: both are told the same, and must find
    the same blocks. Their hashes may be other bytes, but each must name one text. Raises WrongAnswer.
    """
    ours = {prefix_cache.ROOT: prefix_cache.ROOT}  # a hash of theirs -> minipaged's of the same text
    theirs = dict(ours)  # and the other way round

    def their_hashes(token_ids, block_size, parent=prefix_cache.ROOT):
        right = prefix_cache.block_hashes(token_ids, block_size, ours[parent])
        hashes = block_hashes(token_ids, block_size, parent)
        if not isinstance(hashes, list) or len(hashes) != len(right):
            raise WrongAnswer(f"block_hashes of {len(token_ids)} tokens gave {hashes!r}: {len(right)} are needed")
        for found, expected in zip(hashes, right):
            if ours.setdefault(found, expected) != expected:
                raise WrongAnswer(f"block_hashes gave {found!r} for two texts: one would be answered for the other")
            if theirs.setdefault(expected, found) != found:
                raise WrongAnswer(f"block_hashes gave {found!r} and {theirs[expected]!r} for the same text")
        return hashes

    class PrefixCache:
        def __init__(self, block_size):
            self._theirs, self._ours = their_cache(block_size), prefix_cache.PrefixCache(block_size)

        def longest_hit(self, token_ids):
            hit, expected = self._theirs.longest_hit(token_ids), self._ours.longest_hit(token_ids)
            if hit != expected:
                raise WrongAnswer(f"longest_hit of {len(token_ids)} tokens is {hit!r}, and it must be {expected}")
            return hit

        def hash_of(self, block):
            found, expected = self._theirs.hash_of(block), theirs.get(self._ours.hash_of(block))
            if found != expected:
                raise WrongAnswer(f"hash_of({block}) is {found!r}, and it must be {expected!r}")
            return found

        def remember(self, block, block_hash):
            self._theirs.remember(block, block_hash)
            self._ours.remember(block, ours[block_hash])

        def forget(self, block):
            self._theirs.forget(block)
            self._ours.forget(block)

        def clear(self):
            self._theirs.clear()
            self._ours.clear()

    return {"block_hashes": their_hashes, "prefix_cache": PrefixCache}


class LearnersEngine(Engine):
    """An Engine on a learner's parts. It raises ValueError for what goes wrong in them, in the step it happens."""

    def __init__(self, parts, *arguments):
        self.parts, self._num_idle = parts, 0
        super().__init__(*arguments)
        with parts.blamed():
            check(self.memory)

    def step(self):
        with self.parts.blamed():
            result = super().step()
            check(self.memory)
            self._num_idle = 0 if result.plan.rows or not self.has_unfinished() else self._num_idle + 1
            if self._num_idle > 1:
                raise WrongAnswer("requests wait, nobody runs, and the memory lets none of them in")
        return result
