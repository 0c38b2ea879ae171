"""The stories of a shared prefix and of a chat: what they say of themselves is true; how a turn goes on."""

import re
from dataclasses import replace

from test_visualize import played, story
from test_visualize_prefix import TURNS, facts

from visualize.__main__ import main
from visualize.scenarios import CHAT, SHARED_PREFIX, Arrival


def test_a_turn_waits_for_the_one_before_it_and_goes_on_with_its_tokens():
    snapshots = [snapshot for snapshot, _ in story(TURNS)]
    by_name = {seq.name: seq for seq in snapshots[-1].sequences}
    arrived = {fact.request: snapshot.step for snapshot in snapshots for fact in facts([snapshot], "Arrived")}
    finished = {fact.sequence: snapshot.step for snapshot in snapshots for fact in facts([snapshot], "Finished")}
    assert arrived["C"] == finished["A"] + 1 and arrived["D"] == 21
    for name, before, words in (("C", "A", " Again."), ("D", "B", " And you?")):
        assert by_name[name].text.startswith(by_name[before].text + words)
    refused = replace(TURNS, arrivals=(Arrival(0, "A", "x" * 99, 9), Arrival(1, "B", "y", 2, after="A")))
    assert [seq.text[:1] for seq in [snapshot for snapshot, _ in story(refused)][-1].sequences] == ["y"]


def test_what_is_said_of_the_shared_prefix_is_true():
    """On the shipped model: see the story's own words."""
    snapshots = [snapshot for snapshot, _ in played(SHARED_PREFIX)]
    hits, names = facts(snapshots, "PrefixHit"), [each.name for each in SHARED_PREFIX.arrivals]
    assert [hit.sequence for hit in hits] == names[1:] and len(names) == 5
    assert all(hit.blocks == tuple(range(8)) and hit.num_tokens == 32 for hit in hits)
    c = next(snapshot for snapshot in snapshots if any(hit.sequence == "C" for hit in facts([snapshot], "PrefixHit")))
    before = snapshots[c.step - 1]
    assert {block.state for block in before.blocks[:8]} == {"cached"}
    assert "".join(text for block in before.blocks[:8] for text in block.texts) in SHARED_PREFIX.arrivals[2].prompt
    evicted = [block for fact in facts(snapshots, "Evicted") for block in fact.blocks]
    assert evicted and min(evicted) > 7 and not facts(snapshots, "Preempted")
    assert [seq.status for seq in snapshots[-1].sequences] == ["finished"] * 5


def test_what_is_said_of_the_chat_is_true():
    snapshots = [snapshot for snapshot, _ in played(CHAT)]
    sequences = {seq.name: seq for seq in snapshots[-1].sequences}
    hits = {hit.sequence: hit for hit in facts(snapshots, "PrefixHit")}
    later = [each for each in CHAT.arrivals if each.after]
    assert set(hits) == {each.name for each in later} and len(later) == 3
    for each in later:
        before = sequences[each.after]
        assert hits[each.name].num_tokens == (before.num_tokens - 1) // 4 * 4  # its last token was never computed
        assert list(sequences[each.name].tokens[: before.num_tokens]) == list(before.tokens)
        assert hits[each.name].num_tokens > before.num_prompt_tokens  # some of the answer's, too
        assert hits[each.name].num_free_before == len(hits[each.name].blocks)


def test_without_prefix_caching(capsys):
    assert main(["--scenario", "shared-prefix", "--no-prefix-caching", "--plain"]) == 0
    out = capsys.readouterr().out
    assert "found in" not in out and "cached" not in out and SHARED_PREFIX.after not in out
    own = ["--plain", "--max-tokens", "3", "KING HENRY:\nOnce more unto the breach, dear friends", "KING HENRY:\nOnce"]
    for args, num_hits in ((own, 1), (["--no-prefix-caching", *own], 0)):
        assert main(args) == 0
        assert len(re.findall(r"B's first \d+ tokens are found in", capsys.readouterr().out)) == num_hits
