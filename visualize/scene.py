"""Scene: what the parts of a frame look up while they are drawn: whose a block is, what is new in this step.

It is derived from two snapshots and thrown away after the frame. It draws nothing.
"""

from rich.cells import cell_len

from visualize.ink import FREED, SHARED, TAKEN, WRITTEN, clip_start, owner_colour, owner_style, safe


class Scene:
    """One snapshot beside the one before it (None, or another engine's: then nothing counts as new).

    story: what is to be said about the run at this moment. focus: the name of the sequence in focus, or None.
    """

    def __init__(self, snapshot, previous, ink, story="", focus=None):
        if previous and previous.part != snapshot.part:
            previous = None
        self.snapshot, self.previous, self.ink, self.story, self.focus = snapshot, previous, ink, story, focus
        self._number = {seq.name: i for i, seq in enumerate(snapshot.sequences)}
        self._before = {seq.name: seq for seq in previous.sequences} if previous else {}
        self._homes = {}  # block id -> [(a sequence, which logical block of it), ...]
        for seq in snapshot.sequences:
            for logical, block in enumerate(seq.device_table):
                self._homes.setdefault(block, []).append((seq, logical))
        self._labels = {
            name: clip_start(safe(name, ink), 4, ink) + ink.glyphs[i % len(ink.glyphs)]
            for name, i in self._number.items()
        }
        self.label_width = max(map(cell_len, self._labels.values()), default=2)
        is_group = any(seq.name != seq.request for seq in snapshot.sequences)
        self.may_share = is_group or any(len(homes) > 1 for homes in self._homes.values())
        facts = of_the_last_try(snapshot.events) if previous else []
        self.may_hit = any(block.hash is not None for block in snapshot.blocks)
        self.may_reserve = snapshot.memory != "paged"
        self.copies = [fact for kind, fact in facts if kind == "BlockCopied"]
        self._hits = {fact.sequence: fact for kind, fact in facts if kind == "PrefixHit"}
        self._hit_blocks = {block for fact in self._hits.values() for block in fact.blocks}
        self._parents = {fact.child: fact.parent for kind, fact in facts if kind == "Forked"}

    def label(self, name):
        """A sequence's letter (of a long name, the end) and its glyph."""
        return self._labels[name]

    def glyph(self, name):
        return self.label(name)[-1]

    def chip(self, name):
        """The label on its colour, as a part of a line."""
        return f" {self.label(name)} ", self.style(name)

    def style(self, name):
        return owner_style(self._number[name])

    def colour(self, name):
        """Its colour without letters on it."""
        return owner_colour(self._number[name])

    def knows(self, name):
        """False for a request that was refused: it never became a sequence."""
        return name in self._number

    def sequence(self, name):
        """The sequence of this name, or None if there is none."""
        return self.snapshot.sequences[self._number[name]] if self.knows(name) else None

    def homes(self, block_id):
        """[(sequence, logical block), ...] of everyone to whom a physical block belongs: none if it is free."""
        return self._homes.get(block_id, [])

    def is_cached(self, block_id):
        return self.snapshot.blocks[block_id].state == "cached" and not self.homes(block_id)

    def is_shared(self, block_id):
        return len(self.homes(block_id)) > 1

    def source(self, block_id):
        """The block whose content was copied into this one in this step, or None."""
        return next((fact.source for fact in self.copies if fact.destination == block_id), None)

    def mark(self, block_id):
        """What happened to a block in this step: taken, written to, freed, its owners changed, or a space for nothing.

        A copy was taken; a block that only changed its owners was not: a fork of one of them has it now, or it was hit.
        """
        if self.previous is None:
            return " "
        now, before = self.snapshot.blocks[block_id], self.previous.blocks[block_id]
        if now.owners != before.owners:
            if not now.owners:
                return FREED
            if block_id in self._hit_blocks:
                return SHARED
            if not any(self._line(owner) & set(before.owners) for owner in now.owners):
                return TAKEN
        if (now.filled, now.hash) != (before.filled, before.hash):
            return WRITTEN if now.filled else FREED  # freed: nobody owned it, and now it can't be hit any more
        return SHARED if now.owners != before.owners else " "

    def _line(self, name):
        """A sequence and those from which it was forked in this step, one from the other: a set of names."""
        line = {name}
        while (name := self._parents.get(name, name)) not in line:
            line.add(name)
        return line

    def changes(self):
        """The marks of all blocks to which something happened in this step: {block id: mark}."""
        if self.previous is None:
            return {}
        # What didn't change is the same record in both snapshots: most of a large pool is passed over quickly.
        pairs = zip(self.snapshot.blocks, self.previous.blocks)
        marks = {now.id: self.mark(now.id) for now, before in pairs if now is not before}
        return {block_id: mark for block_id, mark in marks.items() if mark != " "}

    def last_owners(self, block_id):
        """The sequences that have just lost a block."""
        owners = map(self.sequence, self.previous.blocks[block_id].owners)
        return [seq for seq in owners if seq]

    def entry_mark(self, seq, logical):
        """What is new about an entry of a block table: a block taken, one that is shared since a fork, or ""."""
        if self.previous is None:
            return ""
        before = self._before.get(seq.name)
        if (
            before
            and before.device == seq.device
            and before.block_table[logical : logical + 1] == seq.block_table[logical : logical + 1]
        ):
            return ""
        hit = self._hits.get(seq.name)
        return SHARED if seq.name in self._parents or (hit and logical < len(hit.blocks)) else TAKEN

    def num_old_tokens(self, seq):
        """How many of a sequence's tokens were there before this step."""
        if self.previous is None:
            return seq.num_tokens
        before = self._before.get(seq.name) or self._before.get(self._ancestor(seq.name))
        return before.num_tokens if before else seq.num_prompt_tokens  # it came in this step

    def _ancestor(self, name):
        """From which sequence, that was there before this step, one was forked in it: itself if it wasn't forked."""
        seen = set()
        while name in self._parents and name not in seen:
            seen.add(name)
            name = self._parents[name]
        return name

    def is_new(self, seq, position):
        """Were K and V of this token written in this step?"""
        if self.previous is None:
            return False
        name = self._ancestor(seq.name)
        before, hit = self._before.get(name), self._hits.get(name)
        return position >= (hit.num_tokens if hit else before.num_computed_tokens if before else 0)


def of_the_last_try(events):
    """[(kind, fact), ...] of a step; if it broke off and was tried again, of the last try."""
    facts = []
    for event in events:
        if event.kind == "Preempted" and event.fact.needed_by is None:
            facts = []
        facts.append((event.kind, event.fact))
    return facts
