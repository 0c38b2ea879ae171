"""The stories of preemption, by recompute and by swap, and of a prompt in chunks: what they say is true."""

from test_visualize import played

from visualize.scenarios import CHUNKED_PREFILL, PREEMPTION_RECOMPUTE, PREEMPTION_SWAP


def facts(snapshots, *kinds):
    return [(each.step, event.fact) for each in snapshots for event in each.events if event.kind in kinds]


def steps_with_a_token(snapshots, name):
    return [step for step, fact in facts(snapshots, "Sampled") if fact.sequence == name]


def test_what_is_said_of_the_preemption_is_true():
    """On the shipped model: the two stories' own words."""
    recompute = [snapshot for snapshot, _ in played(PREEMPTION_RECOMPUTE)]
    swap = [snapshot for snapshot, _ in played(PREEMPTION_SWAP)]
    assert PREEMPTION_RECOMPUTE.arrivals == PREEMPTION_SWAP.arrivals
    differ = {"preemption": "swap", "swap_blocks": 10}
    assert PREEMPTION_SWAP.settings == PREEMPTION_RECOMPUTE.settings | differ
    for snapshots in (recompute, swap):
        [(step, fact)] = facts(snapshots, "Preempted")
        assert (step, fact.request, fact.num_computed_tokens, fact.num_free) == (7, "C", 35, 0)
        assert [seq.status for seq in snapshots[-1].sequences] == ["finished"] * 3
    texts = [[seq.text for seq in snapshots[-1].sequences] for snapshots in (recompute, swap)]
    assert texts[0] == texts[1]

    again = [
        (step, fact.num_tokens) for step, fact in facts(recompute, "Scheduled") if fact.sequence == "C" and step > 7
    ]
    assert again[:3] == [(11, 15), (12, 15), (13, 6)] and again[3] == (14, 1)  # 35 once more, and the newest
    said = steps_with_a_token(recompute, "C")
    assert {6, 13} <= set(said) and not {7, 8, 9, 10, 11, 12} & set(said)

    [(out_step, out)], [(in_step, back)] = facts(swap, "SwappedOut"), facts(swap, "SwappedIn")
    assert (out_step, in_step) == (7, 11) and len(out.pairs) == len(back.pairs) == 9
    assert [block for block, _ in out.pairs] != [block for _, block in back.pairs]
    assert 11 in steps_with_a_token(swap, "C") and not {7, 8, 9, 10} & set(steps_with_a_token(swap, "C"))
    computed = [sum(fact.num_tokens for _, fact in facts(each, "Scheduled")) for each in (recompute, swap)]
    assert computed[0] - computed[1] == 35 and len(recompute) - len(swap) == 2


def test_what_is_said_of_the_chunks_is_true():
    snapshots = [snapshot for snapshot, _ in played(CHUNKED_PREFILL)]
    rows = facts(snapshots, "Scheduled")
    chunks = [(step, fact.num_tokens) for step, fact in rows if fact.sequence == "C" and fact.start < 45]
    assert [number for _, number in chunks] == [14, 14, 14, 3] and snapshots[-1].sequences[2].num_prompt_tokens == 45
    assert snapshots[0].budget == 16
    first, last = chunks[0][0], chunks[-1][0]
    assert last - first == 3
    for name in "AB":
        said = steps_with_a_token(snapshots, name)
        assert set(range(first - 2, last + 1)) <= set(said)
