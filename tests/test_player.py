"""The player without a terminal: keys, the way back, landmarks, speed; and the line that shows the whole run."""

import re

import pytest
from test_visualize import MIXED, POOL, ModelFreeEngine, story

from visualize import player as players
from visualize.help import help_pages
from visualize.ink import ASCII, UNICODE
from visualize.player import Player
from visualize.scenarios import SCENARIOS, Run, find, of_prompts
from visualize.timeline import MARKS, Timeline, draw_timeline
from visualize.view import view
from visualize.why import LANDMARKS


def make(**options):
    return Player(Run(MIXED, ModelFreeEngine(**MIXED.settings | POOL)), **options)


def settle(player):
    while player.is_hurrying:
        player.tick()


def press(player, keys):
    for key in keys:
        assert player.press(key)
        settle(player)
    return player.position


def test_there_and_back_again_gives_the_same_frames():
    player = make()
    there = [player.frame(120, 36, UNICODE).plain.splitlines()[:-2]]
    while not player.is_over:
        press(player, ["right"])
        there.append(player.frame(120, 36, UNICODE).plain.splitlines()[:-2])
    back = []
    while True:
        back.append(player.frame(120, 36, UNICODE).plain.splitlines()[:-2])
        if player.position == 0:
            break
        press(player, ["left"])
    assert back[::-1] == there and len(there) == len(player.history) > 40
    assert [snapshot.step for snapshot in player.history] == list(range(len(there)))


def test_landmarks_in_both_directions():
    player = make()
    there = []
    while not player.is_over:
        there.append(press(player, ["]"]))
    landmarks = [i for i, snapshot in enumerate(player.history) if {e.kind for e in snapshot.events} & {*LANDMARKS}]
    assert there == landmarks
    back = [player.position]
    while player.position:
        back.append(press(player, ["["]))
    assert back[::-1] == [0, *landmarks]
    assert [press(player, ["]"]) for _ in landmarks] == landmarks  # and once more, now that they are known
    assert set(MARKS) == set(LANDMARKS)


def test_first_last_and_restart():
    player = make(playing=False)
    assert press(player, ["n", " ", "right", "b"]) == 2
    assert press(player, "g") == 0 and not player.playing
    last = press(player, "G")
    assert player.is_over and last == len(player.history) - 1
    assert press(player, [" ", "right", "p"]) == last and not player.playing
    assert press(player, "r") == 0 and player.playing
    assert press(player, "b") == 0


def test_playing_takes_its_time(monkeypatch):
    now = 100.0
    monkeypatch.setattr(players.time, "monotonic", lambda: now)
    player = make()
    assert player.pause() == players.LANDMARK_SECONDS
    now += players.LANDMARK_SECONDS - 0.01
    player.tick()
    assert player.position == 0
    now += 0.02
    player.tick()
    assert player.position == 1
    press(player, "+")
    assert player.speed == 2 and player.pause() == players.LANDMARK_SECONDS / 2
    press(player, "-" * 20)
    assert player.speed == players.SPEEDS[0]
    press(player, "+" * 20)
    assert player.speed == players.SPEEDS[-1]
    assert make(fps=4).pause() == 0.25


def test_p_stops_what_goes_on_to_the_end():
    player = make()
    player.press("G")
    assert player.is_hurrying
    player.press("p")
    assert not player.is_hurrying and not player.playing and not player.is_over


def test_a_limit_is_a_number_of_snapshots():
    player = make(limit=5)
    assert press(player, "G") == 4 and player.is_over


def test_focus_goes_round_and_then_back_to_itself():
    player = make()
    assert player.focus is None  # nobody runs yet
    press(player, ["n"] * 8)
    running = [seq.name for seq in player.snapshot.sequences if seq.block_table]
    seen = []
    for _ in range(len(running) + 1):
        press(player, ["tab"])
        seen.append(player.focus)
    assert seen == [*running, running[0]] and len(running) > 2
    press(player, ["tab"] * len(running))  # once round: the last but one key made it automatic again
    assert player.focus == running[-1]
    press(player, ["g", "n"])
    assert player.focus == running[0]  # the last is not here yet: the oldest that runs
    press(player, "G")
    assert player.focus == running[-1]  # chosen is chosen, finished or not


def test_help_and_why_come_and_go():
    player = make()
    assert not player.press("q") and not player.press("escape")
    assert player.press("?") and player.press("?") and player.help_page == 2
    assert player.press("q") and player.help_page == 0
    press(player, "?")
    assert press(player, "n") == 0 and not player.help_page  # it only left the help
    press(player, "nw")
    words = re.sub(r"\s+", " ", player.frame(80, 24, UNICODE).plain)
    assert all(event.why.split(": ")[0] in words for event in player.snapshot.events) and "Physical" not in words
    press(player, "w")
    assert "Physical" in player.frame(80, 24, UNICODE).plain


@pytest.mark.parametrize("ink", [UNICODE, ASCII])
@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
def test_the_help_fits_and_names_every_key_mark_and_word(size, ink):
    rows = []
    for page in help_pages(*size, ink):
        rows += page.plain.split("\n")
        assert len(page.plain.split("\n")) == size[1]
    assert all(len(row) == size[0] for row in rows)
    assert ink is UNICODE or all(row.isascii() for row in rows)
    for key in (
        "space",
        " b ",
        " p ",
        "+ and -",
        "] and [",
        "g and G",
        "Tab",
        " w ",
        " r ",
        "?",
        "Esc",
        "K and V",
        "cached",
        "hit",
        f"{ink.cached} {ink.cached}5",
        ink.here,
    ):
        assert any(key in row for row in rows), key


def test_the_timeline_has_every_landmark_and_the_place():
    landmarks = ((1, "Admitted"), (10, "Preempted"), (20, "Finished"))
    text = draw_timeline(Timeline(5, 20, True, landmarks), 80, UNICODE).plain
    assert len(text) == 80 and text.startswith("history  0 ") and text.rstrip().endswith(" 20")
    cells = text[text.index("│") + 1 : text.rindex("│")]
    column = {position: position * (len(cells) - 1) // 20 for position in (1, 5, 10, 20)}
    drawn = {i: cell for i, cell in enumerate(cells) if cell != "─"}
    assert drawn == {column[1]: "+", column[5]: "┃", column[10]: "!", column[20]: "x"}
    assert draw_timeline(Timeline(0, 0, False), 60, ASCII).plain.isascii()
    assert draw_timeline(Timeline(3, 3, False), 60, UNICODE).plain.rstrip().endswith("3…")


@pytest.mark.slow
def test_the_way_to_a_slot_is_the_engines():
    """Position, logical block, offset, physical block and slot of the newest K and V, read back from the frame."""
    pattern = r"position (\d+) → logical (\d+), offset (\d+) → physical (\d+) → slot (\d+)"
    num_read = 0
    for snapshot, state in story(**POOL):
        for name, table in state["tables"].items():
            for size in ((140, 40), (80, 24)):
                text = view(snapshot, None, *size, focus=name).plain
                numbers = tuple(map(int, re.search(pattern, text).groups()))
                position = state["computed"][name] - 1
                block = table[position // 4]
                assert numbers == (position, position // 4, position % 4, block, 4 * block + position % 4)
                num_read += 1
    assert num_read > 100


def test_the_story_is_told_before_and_after():
    player = make()
    words = lambda: re.sub(r"\s+", " ", player.frame(100, 30, UNICODE).plain)  # noqa: E731
    assert MIXED.before in words()
    press(player, "n")
    assert MIXED.before not in words()
    press(player, "G")
    assert MIXED.after in words()


def test_scenarios_by_name_and_the_nearest():
    assert (
        list(SCENARIOS)
        == [
            *("growth", "mixed", "pressure", "reservations", "preemption-recompute", "preemption-swap"),
            *("chunked-prefill", "parallel-sampling", "beam-search", "shared-prefix", "chat", "quantised"),
        ]
        and find("growth") is SCENARIOS["growth"]
    )
    for wrong, near in (("pressur", "pressure"), ("GROWTH", "growth"), ("", ""), ("zzz", "")):
        with pytest.raises(ValueError, match=f"--scenario '{wrong}': must be one of growth, .*{near}"):
            find(wrong)
    scenario = of_prompts(["a", "b"], 7)
    assert [(each.name, each.prompt, each.max_tokens) for each in scenario.arrivals] == [("A", "a", 7), ("B", "b", 7)]
    for each in SCENARIOS.values():
        assert each.before.count(". ") == 1 and each.before.endswith(".") and each.after.endswith(".")
