"""The free queue and the allocator. Names like test_a1 are scenarios that any paged memory must reproduce."""

import pytest

from minipaged.memory.allocator import BlockAllocator, DoubleFree, FreeQueue, OutOfBlocks


def state(allocator):
    return allocator.free_order(), [allocator.ref_count(block) for block in range(allocator.num_blocks)]


def test_a1_the_queue_pops_at_the_front_and_removes_from_the_middle():
    queue = FreeQueue([0, 1, 2, 3, 4])
    assert queue.pop_front() == [0]
    assert len(queue) == 4
    queue.remove(2)
    assert (len(queue), list(queue)) == (3, [1, 3, 4])
    queue.push_back([2])
    assert (len(queue), list(queue)) == (4, [1, 3, 4, 2])
    assert [queue.pop_front()[0] for _ in range(4)] == [1, 3, 4, 2]
    assert len(queue) == 0
    with pytest.raises(OutOfBlocks):
        queue.pop_front()


def test_a2_the_queue_keeps_the_order_it_was_given():
    queue = FreeQueue([1, 3, 5, 4, 0, 2])
    assert queue.pop_front(0) == []
    assert len(queue) == 6
    assert queue.pop_front(1) == [1]
    assert queue.pop_front(2) == [3, 5]
    assert list(queue) == [4, 0, 2]
    queue.push_back([5, 1])  # a popped block can come back: nothing of its old place is left
    assert list(queue) == [4, 0, 2, 5, 1]


def test_a4_nothing_and_less_than_nothing():
    queue = FreeQueue([0, 1, 2])
    queue.push_back([])
    queue.push_front([])
    assert queue.pop_front(0) == []
    with pytest.raises(ValueError, match="n=-2"):
        queue.pop_front(-2)
    assert (len(queue), list(queue)) == (3, [0, 1, 2])


def test_a5_blocks_run_out_and_come_back_once():
    allocator = BlockAllocator(4)
    blocks = []
    for left in (3, 2, 1, 0):
        blocks += allocator.allocate()
        assert allocator.num_free == left
    with pytest.raises(OutOfBlocks):
        allocator.allocate()
    for count, block in enumerate(blocks, start=1):
        allocator.release([block])
        assert allocator.num_free == count
        before = state(allocator)
        with pytest.raises(DoubleFree, match=f"block {block}:"):
            allocator.release([block])
        assert state(allocator) == before


def test_a_fresh_pool_hands_blocks_out_in_the_given_order():
    assert BlockAllocator(3).allocate(3) == [0, 1, 2]
    assert BlockAllocator(3, free_order=[2, 0, 1]).allocate(3) == [2, 0, 1]
    assert BlockAllocator(9, free_order=[7, 1, 3]).free_order() == [7, 1, 3, 0, 2, 4, 5, 6, 8]


def test_a_released_tail_is_handed_out_first():
    allocator = BlockAllocator(6)
    table = allocator.allocate(4)
    assert allocator.release(table[2:]) == [3, 2]
    assert allocator.free_order() == [3, 2, 4, 5]


def test_blocks_worth_keeping_go_to_the_back_tail_first():
    allocator = BlockAllocator(6)
    table = allocator.allocate(4)
    assert allocator.release(table, keep={0, 1, 2}) == [3, 2, 1, 0]
    assert allocator.free_order() == [3, 4, 5, 2, 1, 0]


def test_a_shared_block_is_freed_by_its_last_owner():
    allocator = BlockAllocator(4)
    table = allocator.allocate(2)
    allocator.share(table)
    assert [allocator.ref_count(block) for block in table] == [2, 2]
    assert allocator.release(table) == []
    assert allocator.num_free == 2
    assert allocator.release(table) == [1, 0]
    assert allocator.num_free == 4


def test_sharing_a_free_block_takes_it_out_of_the_queue():
    allocator = BlockAllocator(4)
    allocator.share([2])
    assert allocator.free_order() == [0, 1, 3]
    assert allocator.ref_count(2) == 1


def test_ids_may_come_from_a_generator():
    allocator = BlockAllocator(4)
    allocator.share(block for block in (0, 2))
    assert [allocator.ref_count(block) for block in range(4)] == [1, 0, 1, 0]
    assert allocator.release(block for block in (0, 2)) == [2, 0]
    assert allocator.free_order() == [2, 0, 1, 3]


def test_an_id_twice_in_one_release_counts_twice():
    allocator = BlockAllocator(3)
    table = allocator.allocate(2)
    before = state(allocator)
    with pytest.raises(DoubleFree, match="block 0: 2 to be released, and its ref_count is 1"):
        allocator.release([0, 1, 0])
    assert state(allocator) == before
    allocator.share([0])
    assert sorted(allocator.release([*table, 0])) == [0, 1]


def test_what_cannot_be_served_changes_nothing():
    allocator = BlockAllocator(4)
    allocator.allocate(2)
    before = state(allocator)
    for refused, error in [
        (lambda: allocator.allocate(3), OutOfBlocks),
        (lambda: allocator.allocate(-1), ValueError),
        (lambda: allocator.share([0, 4]), ValueError),
        (lambda: allocator.share([3, -1]), ValueError),
        (lambda: allocator.release([1, 2]), DoubleFree),
        (lambda: allocator.release([1, -1]), ValueError),
        (lambda: allocator.release([1, 9]), ValueError),
        (lambda: allocator.ref_count(-1), ValueError),
        (lambda: allocator.release([0, 1], keep=None), TypeError),
        (lambda: allocator.allocate(1.5), ValueError),
    ]:
        with pytest.raises(error):
            refused()
        assert state(allocator) == before


@pytest.mark.parametrize(
    "num_blocks, free_order, message",
    [
        (0, None, "num_blocks=0"),
        (-1, None, "num_blocks=-1"),
        (3, [0, 0], r"free_order=\[0, 0\]"),
        (3, [3], r"free_order=\[3\].* 2"),
        (3, [-1], "free_order=-1"),
        (3, [1.0], "free_order=1.0"),
        (2.5, None, "num_blocks=2.5"),
        ("3", None, "num_blocks='3'"),
    ],
)
def test_a_pool_that_cannot_be(num_blocks, free_order, message):
    with pytest.raises(ValueError, match=message):
        BlockAllocator(num_blocks, free_order)
