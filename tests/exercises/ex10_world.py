"""For the checks of exercise 10: a learner's cache beside a plain list of what it was told, and the words of a message.

A text is a list of token ids. The world keeps for each block the text up to the block's end: that is what a hash names.
"""

import struct

from minipaged.memory.prefix_cache import ROOT

MADE_UP = {bytes([number]) * 32: f"hash {name}" for number, name in enumerate("abc", start=10)}
A, B, C = MADE_UP  # hashes of no text


def shown(value):
    """A value for a message: of bytes the beginning, in hexadecimal digits; other long things are cut."""
    if isinstance(value, (bytes, bytearray)):
        return MADE_UP.get(bytes(value), "ROOT" if value == ROOT else f"{value[:3].hex()}...")
    if isinstance(value, (list, tuple)) and any(isinstance(each, (bytes, bytearray)) for each in value):
        return f"[{', '.join(map(shown, value))}]"
    told = repr(value)
    return told if len(told) <= 90 else f"{told[:60]} ... {told[-20:]}"


def count(number, noun):
    return f"{number} {noun}{'es' * (noun[-1] == 'h') or 's' if number != 1 else ''}"


def asked(token_ids, block_size, parent=ROOT):
    """The call of block_hashes, for a message."""
    return f"block_hashes({shown(list(token_ids))}, {block_size}{'' if parent == ROOT else f', {shown(parent)}'})"


def hashes_of(impl, token_ids, block_size, parent=ROOT):
    """The learner's block_hashes: a list of as many as there are full blocks, of 32 bytes each, and nothing changed."""
    given, said = list(token_ids), asked(token_ids, block_size, parent)
    parents = () if parent == ROOT else (parent,)
    try:
        hashes = impl.block_hashes(given, block_size, *parents)
    except (OverflowError, struct.error) as error:
        why = "nothing is wrong with this call, token ids go up to 2**63 - 1"
        raise AssertionError(f"{said} raised {type(error).__name__} ({error}): {why}") from error
    assert isinstance(hashes, list), f"{said} returned a {type(hashes).__name__}: it must return a list"
    num_full = len(token_ids) // block_size
    why = (
        f"in {count(len(token_ids), 'token')} there {'is' if num_full == 1 else 'are'} {count(num_full, 'full block')}"
    )
    assert len(hashes) == num_full, f"{said} gave {count(len(hashes), 'hash')}: it must give {num_full}; {why}"
    for each in hashes:
        is_hash = isinstance(each, bytes) and len(each) == 32
        kind = f"{len(each)} bytes" if isinstance(each, bytes) else f"a {type(each).__name__}"
        assert is_hash, f"{said} gave a hash that is {kind}: each must be 32 bytes, as digest() of a SHA-256 is"
    assert given == list(token_ids), f"{said} changed token_ids to {shown(given)}: they are only to be read"
    return hashes


def must_differ(impl, one, other, block_size, why):
    """Two texts, equally long, whose last full blocks must have different hashes."""
    last = hashes_of(impl, one, block_size)[-1], hashes_of(impl, other, block_size)[-1]
    both = f"{asked(one, block_size)} and {asked(other, block_size)}"
    assert last[0] != last[1], f"{both} gave the same hash for the last full block: {why}"


class World:
    """A learner's cache, the texts that prompts may have, and what is known of each block."""

    def __init__(self, impl, block_size=4, texts=(), blocks=range(8)):
        self.impl, self.block_size = impl, block_size
        self.texts, self.blocks = [list(text) for text in texts], blocks
        self.held = {}  # block -> the text up to its end, or a hash that was made up; the oldest first
        self.calls = [f"PrefixCache({block_size})"]
        self.cache = impl.PrefixCache(block_size)

    def demand(self, holds, what):
        calls = self.calls if len(self.calls) < 7 else [self.calls[0], "...", *self.calls[-5:]]
        assert holds, f"after {', '.join(calls)}: {what}"

    def call(self, name, *arguments, told=None):
        """Call a method. KeyError and the like are told as what they are: nothing is wrong with the call."""
        said = f"{name}({told or ', '.join(map(shown, arguments))})"
        try:
            return getattr(self.cache, name)(*arguments)
        except (LookupError, ValueError, AttributeError) as error:
            what = ", ".join(map(shown, error.args))
            self.demand(False, f"{said} raised {type(error).__name__} ({what}): nothing is wrong with this call")

    # What a memory does with it.

    def hash(self, content):
        if isinstance(content, bytes):
            return content
        return hashes_of(self.impl, content, self.block_size)[-1]

    def remember(self, block, content):
        """content: the text up to the block's end, or a hash that was made up."""
        content = content if isinstance(content, bytes) else tuple(content)
        name = shown(content) if isinstance(content, bytes) else f"hash of {list(content)}"
        self.call("remember", block, self.hash(content), told=f"{block}, {name}")
        self.calls.append(f"remember({block}, {name})")
        if self.held.get(block) != content:
            self.held.pop(block, None)
            self.held[block] = content
        return self.look()

    def store(self, text, blocks):
        """A sequence with this text has these blocks: all full ones are remembered."""
        for number, block in zip(range(1, len(text) // self.block_size + 1), blocks):
            self.remember(block, text[: number * self.block_size])
        return self

    def forget(self, block):
        self.call("forget", block)
        self.calls.append(f"forget({block})")
        self.held.pop(block, None)
        return self.look()

    def clear(self):
        self.call("clear")
        self.calls.append("clear()")
        self.held.clear()
        return self.look()

    # What must be true then.

    def look(self):
        """Every block has the hash that it must have, and every text hits the blocks that it must hit."""
        for block in self.blocks:
            self.hash_of(block)
        for text in self.texts:
            self.longest_hit(text)
        return self

    def hash_of(self, block):
        found, content = self.call("hash_of", block), self.held.get(block)
        if content is None:
            self.demand(
                found is None, f"hash_of({block}) is {shown(found)}: it must be None, the cache doesn't know this block"
            )
        else:
            due = self.hash(content)
            self.demand(found == due, f"hash_of({block}) is {shown(found)}: it must be {shown(due)}, as remembered")

    def longest_hit(self, text):
        given = list(text)
        hit, due, why = self.call("longest_hit", given), *self.due(text)
        said = f"longest_hit({shown(list(text))})"
        self.demand(isinstance(hit, list), f"{said} returned {shown(hit)}: it must return a list of block ids")
        self.demand(hit == due, f"{said} returned {shown(hit)}: it must return {shown(due)}; {why}")
        self.demand(given == list(text), f"{said} changed token_ids to {shown(given)}: they are only to be read")
        return hit

    def due(self, text):
        """(the blocks that a text must hit, why there are no others)."""
        hit, most, is_chosen = [], max(0, len(text) - 1) // self.block_size, False
        why = f"the last token is left to be computed, so of {len(text)} at most {count(most, 'block')} can be hit"
        for number in range(1, most + 1):
            beginning = tuple(text[: number * self.block_size])
            copies = [block for block, content in self.held.items() if content == beginning]
            if not copies:
                why = f"no block has the hash of {list(beginning)}"
                break
            hit.append(copies[0])
            is_chosen = is_chosen or len(copies) > 1
        return hit, f"of several copies the oldest is hit, and {why}" if is_chosen else why
