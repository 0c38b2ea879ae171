"""The block table: logical to physical, and nothing else."""

import pytest

from minipaged.memory.block_table import BlockTable


def table(block_size, blocks):
    made = BlockTable(block_size)
    made.append_blocks(blocks)
    return made


def test_g1_positions_become_slots():
    assert table(4, [7, 2]).slots(0, 6) == [28, 29, 30, 31, 8, 9]


def test_position_21_of_the_design():
    made = table(4, [0, 1, 2, 3, 4, 9])
    assert made.translate(21) == (5, 1, 9, 37)
    assert made.slot(21) == 37


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 16])
def test_every_position_has_a_slot_of_its_own(block_size):
    blocks = [5, 0, 3]
    made = table(block_size, blocks)
    slots = made.slots(0, 3 * block_size)
    assert len(set(slots)) == 3 * block_size
    assert {slot // block_size for slot in slots} == set(blocks)
    for position, slot in enumerate(slots):
        assert made.translate(position) == (position // block_size, position % block_size, slot // block_size, slot)


def test_blocks_needed_counts_what_is_still_missing():
    made = BlockTable(4)
    assert [made.blocks_needed(n) for n in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]
    made.append_blocks([3, 8])
    assert [made.blocks_needed(n) for n in (0, 1, 4, 8, 9, 12, 13)] == [0, 0, 0, 0, 1, 1, 2]


def test_a_position_without_a_slot():
    made = table(4, [7, 2])
    for position in (-1, 8, 100):
        with pytest.raises(ValueError, match=str(position)):
            made.slot(position)
        with pytest.raises(ValueError, match=str(position)):
            made.translate(position)
    with pytest.raises(ValueError, match="position 8"):
        made.slots(6, 9)
    for start in (2, 3):
        with pytest.raises(ValueError, match=f"from {start} to 1"):
            made.slots(start, 1)
    assert made.slots(2, 2) == []
    with pytest.raises(ValueError):
        BlockTable(4).slot(0)


@pytest.mark.parametrize("block_size", [0, -1, 2.5, float("nan"), "4", True, None])
def test_a_block_has_a_whole_number_of_slots(block_size):
    with pytest.raises(ValueError, match=f"block_size={block_size!r}: must be a whole number, 1 or more"):
        BlockTable(block_size)
