"""A pool too large for cells: the map of groups and the lens say what the snapshot says, in whatever room there is.

The snapshots are made by hand: sequences whose blocks are scattered over the pool, and the same a step later.
"""

import random
import re
import time
from itertools import product

import pytest
from rich.cells import cell_len
from rich.console import Console

from visualize.grouped import draw_grouped, shade
from visualize.ink import ASCII, FREED, OKABE_ITO, TAKEN, UNICODE, WRITTEN
from visualize.pool import draw_pool
from visualize.scene import Scene
from visualize.snapshot import Block, FirstOf, SequenceState, Snapshot, Usage
from visualize.view import view

MARKS = {TAKEN, WRITTEN, FREED}


def make_snapshot(num_blocks, block_size, tables, tokens, before=None):
    """A snapshot of sequences with these block tables and numbers of computed tokens."""
    owners, filled = [()] * num_blocks, [0] * num_blocks
    for name, table in tables.items():
        for logical, block in enumerate(table):
            owners[block] += (name,)
            filled[block] = min(block_size, tokens[name] - logical * block_size)
    states = ["used" if each else "free" for each in owners]
    blocks = [Block(i, states[i], len(owners[i]), filled[i], owners[i]) for i in range(num_blocks)]
    if before:  # what did not change is the same record
        blocks = [old if old == new else new for old, new in zip(before.blocks, blocks)]
    sequences = []
    for name, table in tables.items():
        length, status = tokens[name] + 1, "running" if table else "waiting"
        numbers = length, tokens[name], 1
        lists = FirstOf([0] * length, length), FirstOf([" a"] * length, length)
        sequences.append(SequenceState(name, name, 0, status, None, tuple(table), *numbers, *lists, None))
    usage = Usage(sum(filled), sum(map(len, tables.values())) * block_size, 0, num_blocks * block_size, 0)
    queue = tuple(name for name in tables if not tables[name])
    free = tuple(block.id for block in blocks if not block.owners)
    return Snapshot(1, block_size, num_blocks, 512, tuple(blocks), tuple(sequences), queue, free, None, (), usage)


def two_steps(num_blocks, block_size, share=0.6, seed=0):
    """Two snapshots of A to G: in the second all have one token more, but F gave everything back and G has come."""
    draw = random.Random(seed)
    runs = [range(i, min(i + 5, num_blocks)) for i in range(0, num_blocks, 5)]
    draw.shuffle(runs)
    free = iter([block for run in runs for block in run])
    tables = {name: [] for name in "ABCDEFG"}
    for _ in range(int(share * num_blocks) // 10):
        tables[draw.choice("ABCDEF")] += [next(free) for _ in range(10)]
    tokens = {name: len(table) * block_size - draw.randrange(block_size) for name, table in tables.items() if table}
    before = make_snapshot(num_blocks, block_size, tables, tokens | {"G": 0})
    tables["F"] = []
    tokens = {name: tokens[name] + 1 for name in "ABCDE"} | {"F": 0, "G": 3 * block_size + 1}
    for name, table in tables.items():
        table += [next(free) for _ in range(-(-tokens[name] // block_size) - len(table))]
    return before, make_snapshot(num_blocks, block_size, tables, tokens, before)


@pytest.fixture(scope="module")
def pools():
    return {
        "4,000 of 16": two_steps(4000, 16),
        "65,536 of 1": two_steps(65_536, 1),
        "301 of 4": two_steps(301, 4, seed=1),
        "full": two_steps(1000, 4, share=0.99, seed=2),
    }


SIZES = [(60, 3), (63, 18), (80, 6), (97, 5), (200, 40)]


@pytest.fixture(params=["4,000 of 16", pytest.param("65,536 of 1", marks=pytest.mark.slow), "301 of 4", "full"])
def pool(pools, request):
    return pools[request.param]


@pytest.fixture(params=[UNICODE, ASCII], ids=["unicode", "ascii"])
def ink(request):
    return request.param


def plain(lines):
    return [each.plain for each in lines]


def read_map(rows, num_blocks):
    """(blocks of a group, characters) as a reader finds them; the number before a row must be its first block."""
    size = int(re.match(r"1 character = ([\d,]+) blocks?  ", rows[0])[1].replace(",", ""))
    characters = ""
    for row in rows[1:]:
        found = re.fullmatch(r" *(\d+) ((?:\S{10} )*\S{1,10}) *", row)
        if not found or len(characters) * size >= num_blocks:
            break
        assert int(found[1]) == len(characters) * size
        characters += found[2].replace(" ", "")
    assert len(characters) == -(-num_blocks // size)
    return size, characters


def groups_of(snapshot, size):
    return [snapshot.blocks[i : i + size] for i in range(0, snapshot.num_blocks, size)]


def test_the_map_says_what_the_snapshot_says(pool, ink):
    before, now = pool
    scene = Scene(now, before, ink)
    for (width, height), focus in zip(SIZES, ("A", "B", "G", "F", None)):  # G has just come, F gave everything back
        size, characters = read_map(plain(draw_grouped(scene, width, height, focus)), now.num_blocks)
        table = next((seq.block_table for seq in now.sequences if seq.name == focus), ())
        focused = {block_id // size for block_id in table}
        for group, (blocks, char) in enumerate(zip(groups_of(now, size), characters)):
            changes = {scene.mark(block.id) for block in blocks} - {" "}
            used, step = sum(block.state == "used" for block in blocks), ink.shades.find(char)
            if group in focused:
                assert char == scene.glyph(focus)
            elif changes:
                assert char == next(mark for mark in (TAKEN, FREED, WRITTEN) if mark in changes)
            else:
                assert step >= 0 and (step == 0) == (used == 0) and (step == 4) == (used == len(blocks))
                assert step in (0, 4) or (step - 1) / 3 <= used / len(blocks) < step / 3


def test_a_character_stands_for_as_few_blocks_as_there_is_room_for(pool):
    before, now = pool
    for width, height in SIZES:
        rows = plain(draw_grouped(Scene(now, before, UNICODE), width, height, "A"))
        size, _ = read_map(rows, now.num_blocks)
        in_a_row = len(re.sub(r"^ *\d+|\s", "", rows[1]))
        lens_lines = 1 if height < 5 else max(2, height // 4)
        room = in_a_row * (height - 1 - lens_lines)
        assert size * room >= now.num_blocks and (size == 1 or (size - 1) * room < now.num_blocks)


def test_colours_and_emphasis(pool):
    """One owner: its colour. A change: bold and underlined."""
    (before, now), console = pool, Console()
    scene = Scene(now, before, UNICODE)
    for focus in ("A", None):
        lines = draw_grouped(scene, 200, 40, focus)
        size, characters = read_map(plain(lines), now.num_blocks)
        indent = len(str(now.num_blocks - 1)) + 1  # the column of the first character
        drawn = [
            (row.plain[at], row.get_style_at_offset(console, at))
            for row in lines[1:]
            for at in range(indent, len(row.plain.rstrip()))
            if (at - indent) % 11 != 10
        ][: len(characters)]
        colours = {seq.name: OKABE_ITO[i][0].lower() for i, seq in enumerate(now.sequences)}
        for blocks, (char, style), expected in zip(groups_of(now, size), drawn, characters):
            owners = {owner for block in blocks for owner in block.owners}
            seen = {each.name for each in (style.color, style.bgcolor) if each and not each.is_default}
            assert colours[owners.pop()] in seen if len(owners) == 1 else not seen
            changed = any(scene.mark(block.id) != " " for block in blocks)
            assert char == expected and bool(style.bold and style.underline) == changed
            assert not changed or char in MARKS or char == UNICODE.glyphs[0]


def test_the_lens_lists_the_end_of_the_block_table(pool, ink):
    before, now = pool
    scene = Scene(now, before, ink)
    for seq in now.sequences:
        for width, height in SIZES[1:4]:
            text = "\n".join(plain(draw_grouped(scene, width, height, seq.name)))
            entry = rf"([ +*])(\d+){ink.arrow}(\d+) +(\d+)/(\d+)(?= |\n|$)"
            entries = [(mark, *map(int, rest)) for mark, *rest in re.findall(entry, text)]
            hidden = re.search(rf"{ink.ellipsis} ([\d,]+) more {ink.ellipsis}", text)
            hidden = int(hidden[1].replace(",", "")) if hidden else 0
            total = re.search(rf"{seq.name}\S +([\d,]+) blocks?  logical", text)
            assert hidden + len(entries) == len(seq.block_table)
            assert not total or int(total[1].replace(",", "")) == len(seq.block_table)
            for logical, (mark, *numbers) in enumerate(entries, hidden):
                block = now.blocks[seq.block_table[logical]]
                assert numbers == [logical, block.id, block.filled, now.block_size] and mark == scene.mark(block.id)
            assert bool(entries) == bool(seq.block_table)
            assert (f"the lens is empty: {seq.name} holds no blocks" in text) == (not seq.block_table)


def test_a_short_table_is_shown_whole():
    now = make_snapshot(2000, 4, {"A": [7], "B": [1999, 3]}, {"A": 2, "B": 8})
    scene = Scene(now, None, UNICODE)
    assert " A●  1 block  " in "\n".join(plain(draw_grouped(scene, 80, 20, "A")))
    rows = list(map(str.rstrip, plain(draw_grouped(scene, 80, 8, "B"))))
    assert rows[-2:] == [" B▲   0→1999 4/4   1→3    4/4", ""]
    assert rows[0] == "1 character = 7 blocks  ·░▒▓█ none to all used  ▲ of B  colour: one owner"
    assert rows[1].split() == ["0", "▲░········", *["··········"] * 5]


def test_without_a_focus_or_with_a_name_that_nobody_has(pools):
    before, now = pools["4,000 of 16"]
    scene = Scene(now, before, UNICODE)
    assert "the lens is empty: no sequence is in focus" in draw_grouped(scene, 80, 10, None)[-2].plain
    [*_, first, _] = draw_grouped(scene, 80, 10, "[b]nobody\n")
    assert "the lens is empty: [b]nobody↵ holds no blocks" in first.plain


@pytest.mark.slow
def test_it_fits_exactly_and_does_not_jump(pool, ink):
    before, now = pool
    scene, first = Scene(now, before, ink), Scene(before, None, ink)
    for width, height in product((60, 61, 75, 99, 120, 163, 200), (3, 4, 5, 9, 12, 19, 40)):
        if now.num_blocks > 10_000 and (width + height) % 3:  # enough of the largest
            continue
        drawn = [draw_grouped(scene, width, height, focus) for focus in ("A", "F", "no\u65e5" * 80)]
        drawn.append(draw_grouped(first, width, height, None))
        for lines in drawn:
            assert len(lines) == len(drawn[0]) <= height
            assert all(cell_len(each.plain) == width and each.plain.isprintable() for each in lines)
            assert ink is UNICODE or all(each.plain.isascii() for each in lines)


def test_long_and_wide_names_fit():
    names = [f"\u65e5\u672c request-{i}" for i in range(40)]
    tables = {name: list(range(40 * i, 40 * i + 35)) for i, name in enumerate(names)}
    now = make_snapshot(1600, 2, tables, dict.fromkeys(names, 70))
    for height in range(3, 20):
        lines = draw_grouped(Scene(now, None, UNICODE), 60, height, names[-1])
        assert len(lines) <= height and all(cell_len(each.plain) == 60 for each in lines)


def test_the_steps_of_the_shade():
    assert [shade(used, 9, 5) for used in range(10)] == [0, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert [shade(used, 1, 5) for used in (0, 1)] == [0, 4]
    assert [shade(used, 10_000, 5) for used in (1, 9_999)] == [1, 3]
    for ink in (UNICODE, ASCII):
        assert len(set(ink.shades)) == 5 and not set(ink.shades) & {*ink.glyphs, *MARKS}


def test_a_pool_uses_the_map_only_when_it_must(pools):
    before, now = pools["301 of 4"]
    scene = Scene(now, before, UNICODE)
    in_groups = plain(draw_grouped(scene, 80, 20, "A"))
    assert plain(draw_pool(scene, 80, 20, focus="A")) == in_groups != plain(draw_pool(scene, 80, 20))
    assert not any("1 character" in row for row in plain(draw_pool(scene, 80, 60, focus="A")))
    assert "1 character = 1 block  · free  █ used" in view(now, before, 140, 24).plain


def test_it_is_drawn_quickly(pools):
    before, now = pools["4,000 of 16"]
    times = []
    for _ in range(20):
        start = time.perf_counter()
        draw_grouped(Scene(now, before, UNICODE), 120, 18, "A")
        times.append(time.perf_counter() - start)
    assert min(times) < 0.03  # seconds: about 3 ms on a machine of its own
