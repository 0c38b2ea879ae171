"""The animation, read back as a browser plays it: at every moment its lines say what the frame of that moment says.

The runs are those of test_visualize.py, on its engine without a model.
"""

import re
from bisect import bisect_right
from itertools import accumulate
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from test_visualize import HOSTILE, POOL, ModelFreeEngine, many_with_hostile_text

from visualize.animation import ASCENT, CELL, LINE, TITLE, animated_svg, save_animation
from visualize.app import frames as frames_of
from visualize.ink import UNICODE, owner_style, safe
from visualize.lines import fit, line
from visualize.scenarios import MIXED, Run

SVG = "{http://www.w3.org/2000/svg}"


class Film:
    """An animated SVG, and what of it is visible when."""

    def __init__(self, svg):
        self.root = ElementTree.fromstring(svg)
        self.rows = {f"#{row.get('id')}": row for row in self.root.find(f"{SVG}defs")}
        self.texts = {href: text_of(row) for href, row in self.rows.items()}
        groups = {group.get("class"): group for group in self.root.iter(f"{SVG}g")}
        self.moving, self.still = groups["moving"], groups["still"]

    def times(self):
        """The length of the loop in seconds, and every moment of it, as a fraction, at which something changes."""
        animations = list(self.moving.iter(f"{SVG}animate"))
        [seconds] = {each.get("dur") for each in animations}
        times = {float(time) for each in animations for time in each.get("keyTimes").split(";")}
        return float(seconds.removesuffix("s")), sorted(times)

    def screen(self, fraction):
        """The text of all lines at a moment, from 0 to 1."""
        return [self.texts[self.shown(use, fraction)] for use in self.moving]

    def shown(self, use, fraction):
        """The row in a line at a moment."""
        [*animations] = use
        if not animations:
            return use.get("href")
        [animation] = animations
        wanted = {"attributeName": "href", "calcMode": "discrete", "repeatCount": "indefinite"}
        assert wanted.items() <= animation.attrib.items()
        rows, starts = animation.get("values").split(";"), list(map(float, animation.get("keyTimes").split(";")))
        assert len(rows) == len(starts) and starts[0] == 0 and starts == sorted(set(starts)) and starts[-1] < 1
        return rows[bisect_right(starts, fraction) - 1]


def text_of(row):
    """The text of a row, put together from where each piece of it stands."""
    cells = {}
    for element in row.iter(f"{SVG}text"):
        places = [int(x) for x in element.get("x").split()]
        if element.get("textLength"):
            assert int(element.get("textLength")) == cell_len(element.text) * CELL
            widths = [cell_len(char) * CELL for char in element.text[:-1]]
            places = list(accumulate(widths, initial=places[0]))
        assert len(places) == len(element.text)
        for x, char in zip(places, element.text):
            for i in range(cell_len(char)):
                assert x % CELL == 0 and x // CELL + i not in cells
                cells[x // CELL + i] = "" if i else char.replace("\u00a0", " ")
    return "".join(cells.get(i, " ") for i in range(max(cells, default=-1) + 1)).rstrip()


def check(frames, seconds, svg):
    film = Film(svg)
    screens = [[row.rstrip() for row in frame.plain.split("\n")] for frame in frames]
    places = [int(use.get("y")) for use in film.moving]
    assert places == [TITLE + i * LINE + ASCENT for i in range(len(screens[0]))]  # each line has one place: one row
    starts = [start / sum(seconds) for start in accumulate(seconds, initial=0)]
    shown = set()
    for screen, start, stop in zip(screens, starts, starts[1:]):
        for fraction in (start + 1e-5, (start + stop) / 2, stop - 1e-5):
            assert film.screen(fraction) == screen
        shown |= {film.shown(use, (start + stop) / 2) for use in film.moving}
    middle = screens[len(screens) // 2]
    assert [film.texts[use.get("href")] for use in film.moving] == middle  # where nothing is animated
    assert [film.texts[use.get("href")] for use in film.still] == middle  # where less motion is wanted
    assert all(len(use) == 0 for use in film.still) and "prefers-reduced-motion:reduce" in svg
    assert shown == set(film.rows)  # no row is drawn in vain, and none twice
    assert len({ElementTree.tostring(row).split(b">", 1)[1] for row in film.rows.values()}) == len(film.rows)
    return film


def played(scenario, limit=None, **settings):
    """The frames of a run and the seconds of each."""
    run = Run(scenario, ModelFreeEngine(**(scenario.settings | settings)))
    each = [(player.frame(120, 36, UNICODE), player.pause()) for player in frames_of(run, limit=limit)]
    return [frame for frame, _ in each], [pause for _, pause in each]


def test_every_frame_is_shown_for_its_time():
    frames, seconds = played(MIXED, **POOL)
    svg = animated_svg(frames, seconds, MIXED.title)
    film = check(frames, seconds, svg)
    total, times = film.times()
    assert total == sum(seconds)
    assert [time * total for time in times] == pytest.approx(
        [0, *accumulate(seconds[:-1])], abs=1e-6 * total
    )  # 6 digits
    assert len(svg.encode()) < 800_000


@pytest.mark.slow
def test_hostile_text_stays_text_in_its_cells():
    frames, seconds = played(many_with_hostile_text(), limit=30)
    check(frames, seconds, animated_svg(frames, seconds, HOSTILE))
    texts = ["<&\"'></text>]]>&amp;", "日本 語x", "\U0001f600a\U0001f600\U0001f600", " a \t b", "שלום é●●", "", HOSTILE]
    rows = [fit(line((safe(text, UNICODE), style)), 30, UNICODE) for text in texts for style in ("", "underline")]
    frames = [Text("\n").join(rows[i:] + rows[:i]) for i in range(len(rows))]
    seconds = [0.1 * (1 + i) for i in range(len(rows))]
    check(frames, seconds, animated_svg(frames, seconds, "<&\x00"))


def test_one_frame_stands_still():
    svg = animated_svg([Text("ab\ncd")], [2], "one")
    assert not list(check([Text("ab\ncd")], [2], svg).root.iter(f"{SVG}animate"))


def test_it_loads_nothing_and_says_what_it_is():
    svg = animated_svg([Text("a"), Text("b")], [1, 2], 'a <b> & "c"')
    film = Film(svg)
    assert film.root.get("role") == "img" and film.root.find(f"{SVG}title").text == 'a <b> & "c"'
    assert film.root.get("aria-labelledby") == film.root.find(f"{SVG}title").get("id")
    assert svg.count("http") == 1 and not re.search(r"script|url\(|@import|@font-face|\son\w+=", svg)
    assert all(use.get("href").startswith("#") for use in film.root.iter(f"{SVG}use"))


def test_styles_become_colours_and_grounds():
    styled = Text.assemble("plain", ("dim", "dim"), (" bold", "bold"), (" under ", "underline"), (" back ", "reverse"))
    owner, bold = owner_style(0), Style(bold=True)
    styled.append_text(Text.assemble((" A", owner), (" ", owner), ("b", owner + bold)))
    svg = animated_svg([styled], [1], "styles")
    film = check([styled], [1], svg)
    rules = dict(re.findall(r"^\.(c\d+)\{(.*)\}$", svg, flags=re.MULTILINE))
    [row] = film.rows.values()
    looks = {each.text: rules.get(each.get("class"), "") for each in row.iter(f"{SVG}text")}
    assert looks["plain"] == "" and looks["bold"] == "font-weight:bold"
    assert looks["\u00a0under\u00a0"] == "text-decoration:underline"
    assert looks["back"] == "fill:#292929" and looks["A"] == "fill:#000000"
    assert looks["b"] == "fill:#000000;font-weight:bold"
    dim = int(looks["dim"].removeprefix("fill:#"), 16)
    assert 0x292929 < dim < 0xC5C8C6
    grounds = [
        (int(rect.get("x")) // CELL, int(rect.get("width")) // CELL, rules[rect.get("class")])
        for rect in row.iter(f"{SVG}rect")
    ]
    start = len("plaindim bold under ")
    assert grounds == [(start, 6, "fill:#c5c8c6"), (start + 6, 4, "fill:#56b4e9")]


@pytest.mark.parametrize(
    "frames, seconds",
    [([], []), (["a"], [1, 1]), (["a"], [0]), (["a", "ab"], [1, 1]), (["a", "a\nb"], [1, 1]), (["a\nbc"], [1])],
)
def test_what_does_not_agree_is_refused(frames, seconds):
    with pytest.raises(ValueError, match="frames"):
        animated_svg([Text(frame) for frame in frames], seconds, "wrong")


def test_a_run_is_saved(tmp_path):
    path = tmp_path / "run.svg"
    save_animation(lambda: Run(MIXED, ModelFreeEngine(**(MIXED.settings | POOL))), path)
    film = Film(path.read_text(encoding="utf-8"))
    assert film.screen(0)[0].startswith(f"minipaged · {MIXED.title}") and "step 0" in film.screen(0)[0]
    assert MIXED.after in " ".join(film.screen(0.999999))
    assert film.screen(0)[-2].rstrip().endswith(film.screen(0.999999)[-2].rstrip()[-3:])  # the whole run's timeline
