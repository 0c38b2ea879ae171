"""Scene: what the parts of a frame look up while they are drawn: whose a block is, what is new in this step.

It is derived from two snapshots and thrown away after the frame. It draws nothing.
"""

from rich.cells import cell_len

from visualize.ink import FREED, TAKEN, WRITTEN, clip_start, owner_colour, owner_style, safe


class Scene:
    """One snapshot beside the one before it (None: then nothing counts as new).

    story: what is to be said about the run at this moment. focus: the name of the sequence in focus, or None.
    """

    def __init__(self, snapshot, previous, ink, story="", focus=None):
        self.snapshot, self.previous, self.ink, self.story, self.focus = snapshot, previous, ink, story, focus
        self._number = {seq.name: i for i, seq in enumerate(snapshot.sequences)}
        self._before = {seq.name: seq for seq in previous.sequences} if previous else {}
        self._home = {}  # block id -> (its sequence, which logical block of it)
        for seq in snapshot.sequences:
            for logical, block in enumerate(seq.block_table):
                self._home.setdefault(block, (seq, logical))
        self._labels = {
            name: clip_start(safe(name, ink), 4, ink) + ink.glyphs[i % len(ink.glyphs)]
            for name, i in self._number.items()
        }
        self.label_width = max(map(cell_len, self._labels.values()), default=2)

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

    def home(self, block_id):
        """(sequence, logical block) that a physical block belongs to, or None if it is free."""
        return self._home.get(block_id)

    def mark(self, block_id):
        """What happened to a block in this step: taken, written to, freed, or a space for nothing."""
        if self.previous is None:
            return " "
        now, before = self.snapshot.blocks[block_id], self.previous.blocks[block_id]
        if now.owners != before.owners:
            return TAKEN if now.owners else FREED
        return WRITTEN if now.filled != before.filled else " "

    def changes(self):
        """The marks of all blocks to which something happened in this step: {block id: mark}."""
        if self.previous is None:
            return {}
        # What didn't change is the same record in both snapshots: most of a large pool is passed over quickly.
        pairs = zip(self.snapshot.blocks, self.previous.blocks)
        marks = {now.id: self.mark(now.id) for now, before in pairs if now is not before}
        return {block_id: mark for block_id, mark in marks.items() if mark != " "}

    def last_owner(self, block_id):
        """Name of the sequence that has just lost a block."""
        return self.previous.blocks[block_id].owners[0]

    def num_old_blocks(self, seq):
        """How many of a table's entries were there before this step."""
        before = self._before.get(seq.name)
        return len(before.block_table) if before else 0

    def num_old_tokens(self, seq):
        """How many of a sequence's tokens were there before this step."""
        before = self._before.get(seq.name)
        if before:
            return before.num_tokens
        return seq.num_prompt_tokens if self.previous else seq.num_tokens  # it came in this step; or nothing is new

    def is_new(self, seq, position):
        """Were K and V of this token written in this step?"""
        if self.previous is None:
            return False
        before = self._before.get(seq.name)
        return position >= (before.num_computed_tokens if before else 0)
