"""Swapping: what is copied to the host pool and back, what is shared there, and who moves how often."""

import random
from itertools import pairwise

import pytest
from harness import Drive, check_scheduler, request, scheduler, some_slow

from minipaged.events import (
    Admitted,
    BlockCopied,
    BlocksTaken,
    Preempted,
    Scheduled,
    SwappedIn,
    SwappedOut,
)
from minipaged.memory.check import ShadowSlots, check
from minipaged.memory.paged import PagedMemory
from minipaged.serving.sequence import Status


def holding(memory, name, num_tokens):
    """Admit a sequence and compute all its tokens."""
    tokens = list(range(num_tokens))
    cached = memory.admit(name, tokens)
    memory.grow([(name, num_tokens - cached)])
    memory.commit(name, tokens, num_tokens)


def kinds(log, kind):
    return [event for event in log if isinstance(event, kind)]


@pytest.mark.parametrize("prefix_caching", [False, True])
def test_d10_swap_out_and_in_map_exactly_the_blocks_of_the_table(prefix_caching):
    memory = PagedMemory(4, 4, prefix_caching, num_host_blocks=4)
    holding(memory, "A", 4)
    table = list(memory.table("A").blocks)
    out = memory.swap_out(["A"])
    check(memory)
    assert [device for device, _ in out] == table
    assert (memory.allocator.num_free, memory.host.num_free) == (4, 3)
    assert memory.host.tables["A"].blocks == [host for _, host in out]
    back = memory.swap_in(["A"])
    check(memory)
    assert [host for host, _ in back] == [host for _, host in out]
    assert memory.table("A").blocks == [device for _, device in back]
    assert memory.table("A").num_tokens == 4
    assert (memory.allocator.num_free, memory.host.num_free) == (3, 4)


def test_d12_a_full_host_pool_refuses_and_nothing_is_changed():
    memory = PagedMemory(8, 4, num_host_blocks=2)
    holding(memory, "A", 9)
    memory.log = []
    before = list(memory.table("A").blocks), memory.allocator.free_order(), memory.host.free_order()
    assert memory.swap_out(["A"]) is None
    assert (list(memory.table("A").blocks), memory.allocator.free_order(), memory.host.free_order()) == before
    assert memory.log == []
    check(memory)


@pytest.mark.parametrize("prefix_caching", [False, True])
def test_d12_the_engine_goes_on_by_recompute(prefix_caching):
    made = scheduler(12, 4, num_host_blocks=2, prefix_caching=prefix_caching)
    requests = [request(name, 9, max_tokens=20) for name in "ABC"]
    for each in requests:
        made.add(each)
    Drive(made).run(limit=300)
    assert kinds(made.log, Preempted) and not kinds(made.log, SwappedOut)
    assert [each.sequences[0].num_output_tokens for each in requests] == [20] * 3
    assert made.memory.host.num_free == 2


def test_two_forks_that_share_three_blocks_move_three_and_share_them_again():
    memory = PagedMemory(10, 4, num_host_blocks=5)
    holding(memory, "A.1", 10)
    memory.fork("A.1", "A.2")
    out = memory.swap_out(["A.1", "A.2"])
    check(memory)
    assert len(out) == 3 and memory.host.num_free == 2
    assert [memory.host.ref_count(host) for _, host in out] == [2, 2, 2]
    back = memory.swap_in(["A.1", "A.2"])
    check(memory)
    assert len(back) == 3 and memory.table("A.1").blocks == memory.table("A.2").blocks
    assert [memory.allocator.ref_count(device) for _, device in back] == [2, 2, 2]
    [(source, _)] = memory.grow([("A.1", 1), ("A.2", 1)])  # who writes first copies the last block, as ever
    assert source == back[-1][1]
    check(memory)


def test_what_another_owns_is_copied_and_stays():
    """A prefix that two requests share: one of them is swapped, the other goes on with the same blocks."""
    memory = PagedMemory(10, 4, num_host_blocks=5)
    holding(memory, "A", 9)
    holding(memory, "B", 9)
    shared = memory.table("A").blocks[:2]
    assert memory.table("B").blocks[:2] == shared
    assert len(memory.swap_out(["B"])) == 3
    check(memory)
    assert memory.table("A").blocks[:2] == shared
    assert [memory.allocator.ref_count(block) for block in shared] == [1, 1]


def test_full_blocks_can_be_hit_while_swapped_and_when_they_are_back():
    tokens = list(range(9))
    memory = PagedMemory(4, 4, num_host_blocks=3)
    holding(memory, "A", 9)
    memory.swap_out(["A"])
    assert memory.lookup([*tokens, 1]) == 8  # what they left behind on the device
    holding(memory, "B", 13)
    memory.release("B")
    memory.log = []
    memory.admit("C", [99] * 16)
    memory.grow([("C", 16)])
    memory.release("C")
    assert memory.lookup([*tokens, 1]) == 0  # lost; but the host pool knows
    memory.swap_in(["A"])
    check(memory)
    assert memory.lookup([*tokens, 1]) == 8


def test_a_block_that_a_swap_comes_back_into_is_forgotten():
    memory = PagedMemory(2, 4, num_host_blocks=1)
    holding(memory, "A", 3)
    memory.swap_out(["A"])
    holding(memory, "B", 8)
    memory.release("B")
    assert memory.cached() == [1, 0]
    assert memory.swap_in(["A"]) == [(0, 1)]
    check(memory)
    assert memory.lookup(list(range(9))) == 4 and memory.prefix_stats.evictions == 1


@pytest.mark.parametrize(
    "num_tokens, num_forks, needed", [(3, 0, 1), (4, 0, 2), (7, 1, 3), (8, 1, 4), (9, 2, 5)], ids=str
)
def test_it_comes_back_only_with_room_for_one_token_more_of_each(num_tokens, num_forks, needed):
    """Its blocks, a block for the next token where the last is full, and the copies that sharing will cost."""
    for num_free in range(needed + 2):
        memory = PagedMemory(12, 4, num_host_blocks=6)
        holding(memory, "A", num_tokens)
        names = ["A", *(f"A{i}" for i in range(num_forks))]
        for child in names[1:]:
            memory.fork("A", child)
        memory.swap_out(names)
        memory.allocator.allocate(12 - num_free)
        before = memory.allocator.free_order(), memory.host.free_order()
        came_back = memory.swap_in(names) is not None
        assert came_back == (num_free >= needed)
        if came_back:
            assert memory.grow([(name, 1) for name in names]) is not None
        else:
            assert (memory.allocator.free_order(), memory.host.free_order()) == before


def test_a_swapped_sequence_is_in_nobodys_way():
    memory = PagedMemory(4, 4, num_host_blocks=4)
    holding(memory, "A", 5)
    memory.swap_out(["A"])
    assert memory.sequences() == [] and memory.usage().allocated_slots == 0
    assert memory.reset_prefix_cache() is False  # the only table is A's, in the host pool
    holding(memory, "C", 3)
    wrong_calls = (
        lambda: memory.table("A"),
        lambda: memory.swap_out(["A"]),
        lambda: memory.admit("A", [1]),
        lambda: memory.fork("C", "A"),
    )
    for wrong in wrong_calls:
        with pytest.raises(ValueError, match="'A'"):
            wrong()
    with pytest.raises(ValueError, match="'B'"):
        memory.swap_in(["B"])
    memory.release("A")
    memory.release("C")
    check(memory)
    assert (memory.host.num_free, memory.host.tables) == (4, {})
    assert memory.reset_prefix_cache() is True


def test_without_a_host_pool_there_is_no_swapping():
    memory = PagedMemory(4, 4)
    holding(memory, "A", 3)
    for verb in (memory.swap_out, memory.swap_in):
        with pytest.raises(ValueError, match=r"\['A'\].*num_host_blocks=0"):
            verb(["A"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bytes_come_back_equal(dtype):
    torch = pytest.importorskip("torch")
    from minipaged.attention.kv_cache import KVCache
    from minipaged.serving.plan import Plan

    memory = PagedMemory(6, 4, num_host_blocks=6)
    holding(memory, "A", 11)
    memory.fork("A", "B")
    cache = KVCache(3, 6, 4, 2, 8, cache_dtype=dtype, num_host_blocks=6)
    for tensor in cache.tensors:
        tensor.normal_()
    before = [tensor[memory.table("A").blocks].clone() for tensor in cache.tensors]
    cache.apply(Plan(swap_out=memory.swap_out(["A", "B"])))
    memory.allocator.release(memory.allocator.allocate(1))  # so that it comes back elsewhere
    for tensor in cache.tensors:
        tensor.fill_(float("nan"))
    cache.apply(Plan(swap_in=memory.swap_in(["A", "B"])))
    for name in "AB":
        blocks = memory.table(name).blocks
        assert all(torch.equal(tensor[blocks], kept) for tensor, kept in zip(cache.tensors, before))
    unowned = [block for block in range(6) if not memory.allocator.ref_count(block)]
    assert all(tensor[unowned].isnan().all() for tensor in cache.tensors)


def test_a_swap_that_names_a_block_that_is_not_there():
    pytest.importorskip("torch")
    from minipaged.attention.kv_cache import KVCache

    cache = KVCache(1, 4, 4, 1, 8, num_host_blocks=2)
    for verb, pairs in ((cache.swap_out, [(0, 2)]), (cache.swap_in, [(2, 0)]), (cache.swap_out, [(4, 0)])):
        with pytest.raises(ValueError, match=r"block [24] is not in this cache"):
            verb(pairs)
    with pytest.raises(ValueError, match="destination of only one"):
        cache.swap_out([(0, 1), (1, 1)])


@pytest.mark.parametrize("seed", some_slow(range(40), range(4, 40)))
def test_random_walks_keep_every_invariant(seed):
    """Sequences are admitted, grow, fork, leave, and move between the pools in groups; a shadow follows each slot."""
    rng = random.Random(seed)
    memory = PagedMemory(rng.randint(4, 16), rng.randint(1, 4), rng.random() < 0.7, num_host_blocks=rng.randint(1, 12))
    shadow, names, texts, swapped = ShadowSlots(), iter(range(10_000)), {}, []
    for _ in range(250):
        here = memory.sequences()
        action = rng.choice(["admit", "grow", "grow", "fork", "out", "in", "release"])
        if action == "admit":
            name, text = str(next(names)), [rng.randrange(2) for _ in range(rng.randint(1, 12))]
            if (cached := memory.admit(name, text)) is not None:
                texts[name] = text
                shadow.hit(name, memory.table(name).blocks, memory.block_size)
                memory.grow([(name, len(text) - cached)])
                shadow.write(memory, name, cached, len(text))
                memory.commit(name, text, len(text))
        elif action == "grow" and here:
            name = rng.choice(here)
            length = len(texts[name])
            if (copies := memory.grow([(name, 1)])) is not None:
                for pair in copies:
                    shadow.copy(*pair, memory.block_size)
                texts[name].append(rng.randrange(2))
                shadow.write(memory, name, length, length + 1)
                memory.commit(name, texts[name], length + 1)
        elif action == "fork" and here:
            parent, child = rng.choice(here), str(next(names))
            memory.fork(parent, child)
            shadow.fork(parent, child)
            texts[child] = list(texts[parent])
        elif action == "out" and here:
            group = rng.sample(here, rng.randint(1, min(3, len(here))))
            if (pairs := memory.swap_out(group)) is not None:
                shadow.swap_out(pairs, memory.block_size)
                swapped.append(group)
        elif action == "in" and swapped:
            group = rng.choice(swapped)
            if (pairs := memory.swap_in(group)) is not None:
                shadow.swap_in(pairs, memory.block_size)
                swapped.remove(group)
        elif action == "release" and texts:
            name = rng.choice(sorted(texts))
            if not any(name in group for group in swapped) or rng.random() < 0.3:
                memory.release(name)
                swapped = [[each for each in group if each != name] for group in swapped]
                swapped = [group for group in swapped if group]
                del texts[name]
        check(memory, shadow)
    for name in texts:
        memory.release(name)
    check(memory)
    assert (memory.allocator.num_free, memory.host.num_free) == (memory.num_blocks, memory.host.num_blocks)


# Who moves how often


def test_one_out_and_one_in():
    made = scheduler(21, 4, num_host_blocks=40)
    made.add(request("A", 11, max_tokens=40))
    made.add(request("B", 27, max_tokens=26))
    b = made.waiting[1]
    Drive(made).run(limit=200)
    [out], [back] = kinds(made.log, SwappedOut), kinds(made.log, SwappedIn)
    assert [device for device, _ in out.pairs] and len(out.pairs) == len(back.pairs)
    timeline = b.timeline
    assert (timeline.num_preemptions, timeline.num_swapped_blocks) == (1, 2 * len(out.pairs))
    assert timeline.num_recomputed_tokens == 0


@pytest.mark.parametrize("num_host_blocks", [0, 7, 200])
@pytest.mark.parametrize("seed", some_slow(range(40), range(2, 40)))
def test_who_comes_back_gets_on_before_it_yields_again(seed, num_host_blocks):
    """Between two times that a request yields it computes something, and somebody older takes a block."""
    rng = random.Random(seed)
    block_size, caching = rng.choice([1, 2, 4]), rng.random() < 0.5
    made = scheduler(rng.randint(40, 80) // block_size, block_size, 6, 40, caching, num_host_blocks)
    requests = []
    for i in range(12):
        fresh = request(f"R{i}", rng.randint(1, 30), rng.randint(1, 25), rng.randint(1, 4))
        try:
            made.add(fresh)
            requests.append(fresh)
        except ValueError:
            continue
    Drive(made).run(limit=3_000)
    order = [each.request_id for each in requests]
    for each in requests:
        times = [i for i, e in enumerate(made.log) if isinstance(e, Preempted) and e.request == each.request_id]
        older = set(order[: order.index(each.request_id)])
        for first, second in pairwise(times):
            between = made.log[first + 1 : second]
            assert any(isinstance(e, Scheduled) and owner(e) == each.request_id for e in between)
            took = [owner(e) for e in between if isinstance(e, (BlocksTaken, BlockCopied))]
            by_itself = made.log[second].needed_by == each.request_id
            assert older & set(took) or by_itself or made.log[second].needed_by in older
        entered = [e for e in made.log if isinstance(e, Admitted) and e.request == each.request_id]
        assert len(entered) == len(times) + 1 and each.timeline.num_preemptions == len(times)


def owner(event):
    """The request whose sequence an event is about."""
    return event.sequence.partition(".")[0]


@pytest.mark.parametrize("n", [1, 2])
def test_e16_an_abort_while_swapped_gives_back_the_host_blocks(n):
    made = scheduler(8, 4, num_host_blocks=8)
    made.add(request("A", 8, max_tokens=16))
    made.add(request("B", 6, max_tokens=12 if n == 1 else 9, n=n))
    b, drive = made.waiting[1], Drive(made)
    while b.status is not Status.SWAPPED:
        drive.step()
    held = made.memory.host.num_blocks - made.memory.host.num_free
    free = made.memory.allocator.num_free
    assert held > 0
    made.abort(b)
    check_scheduler(made)
    assert (made.memory.host.num_free, made.memory.allocator.num_free) == (8, free)
    drive.run(limit=40)
    assert made.memory.allocator.num_free == 8


def test_a_step_that_breaks_off_drops_the_host_pool_too():
    made = scheduler(8, 4, num_host_blocks=8)
    made.add(request("A", 8, max_tokens=16))
    made.add(request("B", 6, max_tokens=12))
    (a, b), drive = made.waiting, Drive(made)
    while b.status is not Status.SWAPPED:
        drive.step()
    num_computed = b.sequences[0].num_computed_tokens
    made.start_over([a, b])
    check_scheduler(made)
    assert (b.status, made.memory.host.num_free) == (Status.PREEMPTED, 8)
    drive.run(limit=100)
    assert b.timeline.num_recomputed_tokens >= num_computed > 0
    assert [each.sequences[0].num_output_tokens for each in (a, b)] == [16, 12]
