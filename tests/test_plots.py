"""The lessons' figures and the visualizer's frame in a notebook: what they show, and that anybody can read them.

The figures are skipped where matplotlib isn't installed; minipaged and the visualizer run without it.
"""

import importlib
import re
import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import numpy as np
import pytest
from test_visualize import MIXED, POOL, ModelFreeEngine

import visualize
from minipaged.memory.contiguous import ContiguousMemory
from minipaged.memory.paged import PagedMemory
from minipaged.memory.reservations import Layout, Run
from minipaged.serving.sequence import SamplingParams
from visualize.ink import OKABE_ITO, UNICODE

LIMIT = 60_000  # bytes of a picture
SPEECH = ["Four", "score", "and", "seven", "years", "ago", "our", "fathers", "brought"]
NOVEL = ["It", "was", "the", "best", "of", "times,", "it", "was"]
TEXTS = {"A": SPEECH, "B": NOVEL, "C": NOVEL}


@pytest.fixture(scope="module")
def plots():
    pytest.importorskip("matplotlib", reason='the figures need matplotlib: pip install -e ".[lessons]"')
    return importlib.import_module("visualize.plots")


def memory(num_blocks=9, block_size=4, **num_tokens):
    """A pool with sequences of so many tokens, on blocks 7, 1, 3 and so on, where there are as many."""
    first = [block for block in (7, 1, 3, 5, 2) if block < num_blocks]
    order = first + [block for block in range(num_blocks) if block not in first]
    made = PagedMemory(num_blocks, block_size, prefix_caching=False, free_order=order)
    for name, number in num_tokens.items():
        assert made.admit(name, [0] * number) == 0
        assert made.grow([(name, number)]) == []
    return made


def step(block, positions, scores, running_max, running_sum, output):
    """As minipaged.attention.reference.Step, of one head, with numpy's arrays in the place of torch's."""
    arrays = {"scores": scores, "running_max": running_max, "running_sum": running_sum, "output": output}
    return SimpleNamespace(block_id=block, positions=positions, **{name: np.array([x]) for name, x in arrays.items()})


def batch(**columns):
    return SimpleNamespace(**{name: np.array(column) for name, column in columns.items()})


STEPS = [
    step(7, range(4), [0.5, -1.25, 0.0, 0.75], 0.75, 2.39, [0.1, -0.001, 3.0]),
    step(1, range(4, 7), [1.5, -0.5, 0.25], 1.5, 2.55, [0.2, 0.4, -2.0]),
]
BATCH = batch(
    token_ids=[5, 4, 3, 2, 1, 9],
    positions=[0, 1, 2, 3, 4, 12],
    slot_mapping=[28, 29, 30, 31, 4, 13],
    block_tables=[[7, 1, -1, -1], [0, 2, 4, 3]],
    seq_lens=[5, 13],
    query_start_loc=[0, 5, 6],
    logit_rows=[4, 5],
)
LAYOUT = Layout(64, [Run(0, 32, 8, 14), Run(32, 8, 3, 5), Run(48, 16, 7, 16)])
BARS = {"Max": (20.1, 13.1, 57.9, 8.9), "Max (paper)": (20.4, 13.3, 57.3, 8.9), "paged": (31, 0, 1, 0)}

# Each figure at the size of a lesson: how to draw it, and some of what must be written in it.
FIGURES = {
    "pool": (
        lambda p: p.draw_pool(memory(A=9, B=6), TEXTS, "A pool"),
        ["A pool", "free", "fathers", "A●", "[2]", "B▲"],
    ),
    "cached": (
        lambda p: p.draw_pool(memory(A=9), TEXTS, "A pool", cached={5: NOVEL[:4]}),
        ["cached", NOVEL[1], "free", "A●"],
    ),
    "tables": (lambda p: p.draw_tables(memory(10, A=9, B=13, C=6), TEXTS), ["7", "brought", "13 tokens", "C■", "·"]),
    "tables_of": (
        lambda p: p.draw_tables_of({"A": ([7, 1, 3], 9), "B": ([7, 1], 7)}, 4, 8, {"A": SPEECH, "B": SPEECH}, "Two"),
        ["A●B▲", "ref_count", "2", "brought"],
    ),
    "layout": (lambda p: p.draw_layout(LAYOUT, "Runs"), ["18", "8 slots in no run, in 1 gap"]),
    "waste": (lambda p: p.draw_waste(BARS, "Waste"), ["Max (paper)", "57.3", "96.9", "token states", "100%"]),
    "steps": (lambda p: p.draw_steps(STEPS, 0, "Softmax"), ["0..3", "4..6", "1.50", "* 0.47", "0.00", "the answer"]),
    "lines": (lambda p: p.draw_lines({"paged": [(1, 2), (8, 15)]}, "batch", "$/s"), ["paged", "batch", "$/s"]),
    "batch": (lambda p: p.draw_batch(BATCH, 4), ["token_ids", "7,3", "query_start_loc", "-1", "13", "B▲"]),
    "work": (lambda p: p.draw_work({"step 2": (7, 1)}, SPEECH), ["step 2", "7 read, 1 computed", "Four"]),
}


@pytest.fixture(scope="module")
def pictures(plots):
    return {name: draw(plots) for name, (draw, _) in FIGURES.items()}


def written(svg):
    """What is written in a picture: matplotlib draws letters as outlines, and says in a comment what they are."""
    return re.findall(r"<!-- (.*?) -->", svg)


def points(svg):
    """A picture's size; 540 points are 720 pixels."""
    return [float(size) for size in re.findall(r' (?:width|height)="([\d.]+)pt"', svg)]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_shows_its_texts(pictures, name):
    missing = set(FIGURES[name][1]) - set(written(pictures[name].svg))
    assert not missing


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_can_stand_in_a_notebook(pictures, name):
    """Small, well-formed, not too wide, letters of 9 points at least, nothing loaded, nothing said of the time."""
    picture = pictures[name]
    svg = picture._repr_svg_()
    assert svg == picture.svg and len(svg.encode()) < LIMIT
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img" and root.get("aria-label") == picture.alt and len(picture.alt) > 40
    assert points(svg)[0] <= 540 and root.get("style") == "max-width:100%;height:auto"
    assert min(float(size) for size in re.findall(r"scale\((0\.\d+) -", svg)) >= 0.09
    assert not re.search(r"<script|<style|<image|http(?!://www\.w3\.org/)|20\d\d-\d\d", svg)
    assert [each for each in dir(picture) if each.startswith("_repr_")] == ["_repr_svg_"]  # no other form beside it


def test_figures_in_one_page_dont_change_each_other(pictures):
    """A name that two of them use means the same in both."""
    meanings = {}
    for picture in pictures.values():
        for element in ElementTree.fromstring(picture.svg).iter():
            if "id" in element.attrib:
                text = ElementTree.tostring(element)
                assert meanings.setdefault(element.get("id"), text.strip()) == text.strip()


def test_the_same_drawing_gives_the_same_bytes_whatever_the_readers_settings(plots, pictures, monkeypatch):
    import matplotlib

    theirs = {"font.size": 30.0, "svg.fonttype": "none", "savefig.dpi": 30.0, "figure.dpi": 300.0, "hatch.color": "red"}
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # whose state is the reader's own: it can't be imported
    with matplotlib.rc_context(theirs):
        for name in ("layout", "lines", "work"):
            assert FIGURES[name][0](plots).svg == pictures[name].svg
        assert {name: matplotlib.rcParams[name] for name in theirs} == theirs


def test_saving_writes_the_svg(pictures, tmp_path):
    pictures["pool"].save(tmp_path / "pool.svg")
    assert (tmp_path / "pool.svg").read_text(encoding="utf-8") == pictures["pool"].svg


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def test_letters_stand_out_from_what_is_behind_them(plots):
    """A contrast of 4.5 to 1 at least (WCAG 2, AA)."""
    from visualize import charts, figures, tensors

    uses = (charts.STATES, charts.RESERVED, charts.INTERNAL, charts.EXTERNAL)
    pairs = [*OKABE_ITO, *((colour, ink) for _, colour, ink, _ in uses)]
    pairs += [(colour, figures.BLACK) for colour in (tensors.ANSWER, figures.PAPER, figures.PALE)]
    pairs += [(ground, figures.GREY) for ground in (figures.PAPER, figures.PALE)]
    for pair in pairs:
        dark, light = sorted(map(luminance, pair))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, pair


def test_an_owner_has_the_visualizers_colour_and_glyph(plots):
    from visualize.figures import Owners

    owners = Owners(["B", "request-17", "A", 3])
    assert [owners.label(name) for name in ("A", "B", "request-17", 3)] == ["A●", "B▲", "…-17■", "3◆"]
    assert [owners.colour(name) for name in ("A", "B", "request-17", 3)] == [colour for colour, _ in OKABE_ITO[:4]]
    many = Owners([f"n{i}" for i in range(20)])
    assert many.colour("n7") == OKABE_ITO[0][0] and many.label("n8")[-1] == UNICODE.glyphs[0]


def test_a_shared_block_has_the_colours_of_all_its_owners(plots, pictures):
    one = plots.draw_tables_of({"A": ([0], 4)}, 4, 1)
    two = plots.draw_tables_of({"A": ([0], 4), "B": ([0], 3)}, 4, 1)
    orange = OKABE_ITO[1][0].lower()
    assert orange not in one.svg and orange in two.svg
    assert "logical 0 of A and logical 0 of B, 4 of 4 slots filled, ref_count 2" in two.alt


@pytest.mark.parametrize("num_blocks, block_size", [(40, 4), (1, 1), (12, 16), (13, 1), (2, 128)])
def test_other_sizes_fit_the_width(plots, num_blocks, block_size):
    pool = memory(num_blocks, block_size, A=max(1, num_blocks * block_size // 3))
    for draw in (plots.draw_pool, plots.draw_tables):
        assert 0 < points(draw(pool).svg)[0] <= 540


def test_edges(plots):
    """Nothing there, much there, and texts that no font has or that mean something to a typesetter."""
    assert "free: 0, 1" in plots.draw_pool(memory(2)).alt
    assert "none" in plots.draw_tables(memory(2)).alt
    assert "3 slots in no run, in 1 gap" in written(plots.draw_layout(Layout(3, [])).svg)
    long = plots.draw_layout(Layout(3000, [Run(0, 2048, 7, 10), Run(2100, 512, 3, 5)]), names=["X", "Y"])
    assert written(long.svg).count("2,038") == 1 and points(long.svg)[0] <= 540
    strange = plots.draw_pool(memory(1, A=4), {"A": ["$x", "\U0001f469", "\n", "-->"]})
    assert {"$x", "\ufffd", "↵"} <= set(written(strange.svg))
    ElementTree.fromstring(strange.svg)
    empty = {name: [] for name in vars(BATCH)} | {"block_tables": np.zeros((0, 0)), "query_start_loc": [0]}
    assert "0 tokens" in plots.draw_batch(batch(**empty), 4).alt
    many = plots.draw_steps([step(i, range(i, i + 1), [float(i)], float(i), 1.0, [1.0]) for i in range(16)])
    assert points(many.svg)[0] <= 540
    assert "the largest score so far; 6 blocks before these not shown" in written(many.svg)
    assert "none yet" not in written(many.svg) and "5" not in written(many.svg)


def test_blocks_that_are_reserved_but_in_no_table_are_not_called_free(plots):
    reserving = ContiguousMemory(8, 4, "max", 16)
    reserving.admit("A", [0] * 7, 9)
    reserving.grow([("A", 7)])
    assert "block 3: in no table, 0 of 4 slots filled, ref_count 1; free: 4, 5, 6, 7." in plots.draw_pool(reserving).alt


@pytest.mark.slow
def test_a_cached_block_is_told(plots):
    picture = plots.draw_pool(memory(3, A=3), {"A": SPEECH}, cached={2: NOVEL[:4]})
    assert "block 2: in no table, cached, 4 of 4 slots filled; free: 0." in picture.alt
    assert plots.draw_pool(memory(3, A=3), cached={}).alt == plots.draw_pool(memory(3, A=3)).alt


def test_real_steps_and_batches_can_be_drawn(plots):
    torch = pytest.importorskip("torch")
    from minipaged.attention.reference import attention_steps
    from minipaged.serving.batch import Batch

    q, cache = torch.ones(2, 8), torch.ones(4, 4, 1, 8)
    picture = plots.draw_steps(attention_steps(q, cache, cache, [3, 1], 7, 0.5), head=1)
    assert {"3", "0..3", "4..6", "7.00", "* 1.00"} <= set(written(picture.svg))
    tensors = {name: torch.tensor(column) for name, column in vars(BATCH).items()}
    assert "7,3" in written(plots.draw_batch(Batch(**tensors), 4, ["X", "Y"]).svg)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda p: p.draw_tables_of({"A": ([9], 3)}, 4, 8), "block 9 is not in this pool: ids run from 0 to 7"),
        (lambda p: p.draw_tables_of({"A": ([1], 5)}, 4, 8), "5 tokens don't fit into 1 blocks of 4"),
        (lambda p: p.draw_tables_of({}, 0, 8), "block_size=0"),
        (lambda p: p.draw_pool(memory(A=3), {"A": "Four score"}), "texts="),
        (lambda p: p.draw_pool(memory(A=3), cached={7: NOVEL[:4]}), "cached block 7: must be in the pool, in no table"),
        (lambda p: p.draw_pool(memory(A=3), cached={1: NOVEL[:3]}), "cached block 1"),
        (lambda p: p.draw_pool(memory(A=3), cached={9: NOVEL[:4]}), "cached block 9"),
        (lambda p: p.draw_layout(Layout(64, [Run(0, 32, 8, 14), Run(31, 8, 3, 5)])), "overlap"),
        (lambda p: p.draw_layout(Layout(8, [Run(0, 16, 8, 14)])), "within 8 slots"),
        (lambda p: p.draw_layout(Layout(64, [Run(0, 32, 15, 14)])), "num_tokens"),
        (lambda p: p.draw_layout(LAYOUT, names=["A"]), "3 runs"),
        (lambda p: p.draw_waste({"Max": (1, 2, 3)}), "four numbers"),
        (lambda p: p.draw_waste({"Max": (1, -2, 3, 0)}), "four numbers"),
        (lambda p: p.draw_waste({"Max": (0, 0, 0, 0)}), "four numbers"),
        (lambda p: p.draw_steps([]), "at least 1 step"),
        (lambda p: p.draw_steps(STEPS, head=1), "head=1"),
        (lambda p: p.draw_batch(BATCH, 4, ["A"]), "2 sequences"),
        (lambda p: p.draw_lines({"a": []}, "x", "y"), "'a'"),
        (lambda p: p.draw_work({"a": (1, -1)}), "'a'"),
    ],
)
def test_what_cant_be_drawn_is_named(plots, call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call(plots)


def test_without_matplotlib_one_line_says_what_to_do(monkeypatch):
    for name in ("plots", "figures", "charts", "tensors", "notebook", "picture"):
        monkeypatch.delitem(sys.modules, f"visualize.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    importlib.import_module("visualize.notebook")  # needs none
    with pytest.raises(ImportError, match=re.escape('pip install -e ".[lessons]"')) as error:
        importlib.import_module("visualize.plots")
    assert "\n" not in str(error.value)


def engine():
    made = ModelFreeEngine(**MIXED.settings | POOL)
    made.add("to be", SamplingParams(max_tokens=3), "A")
    return made


def lines_of(frame):
    return repr(frame).split("\n")


def test_a_frame_shows_the_engine_as_it_is():
    made = engine()
    first = visualize.show(made)
    assert lines_of(first)[0].endswith("step 0") and "A●" in repr(first)
    result = made.step()
    second = visualize.show(made)
    assert result.plan.rows and lines_of(second)[0].endswith("step 1")
    assert "+ 0 A●" in repr(second)  # what the step has changed
    assert repr(visualize.show(made)) == repr(second) and visualize.show(made).svg == second.svg
    made.add("or not", SamplingParams(max_tokens=2), "B")
    third = visualize.show(made)
    assert "waiting" in repr(third) and lines_of(third)[0].endswith("step 1")
    for _ in range(5):
        made.step()
    last = visualize.show(made)
    assert lines_of(last)[0].endswith("step 6") and repr(last).count("finished") >= 2


def test_a_first_step_may_come_before_the_first_frame():
    made = engine()
    frame = visualize.show(made, made.step())
    assert lines_of(frame)[0].endswith("step 1") and "A gets its next token" in repr(frame)
    assert frame.alt.startswith("minipaged at step 1: A ")


def test_two_engines_are_watched_apart():
    one, other = engine(), engine()
    visualize.show(one), visualize.show(other)
    one.step()
    assert [lines_of(visualize.show(each))[0][-6:] for each in (one, other)] == ["step 1", "step 0"]


def test_a_frame_can_stand_in_a_notebook():
    made = engine()
    frame = visualize.show(made, made.step(), width=120, height=36, focus="A")
    root = ElementTree.fromstring(frame._repr_svg_())
    assert len(frame.svg) < LIMIT and root.get("aria-label") == frame.alt
    assert not re.search(r"<style|<script|<image|url\(| id=| class=|http(?!://www\.w3\.org/)", frame.svg)
    namespace = "{http://www.w3.org/2000/svg}"
    drawn = ["".join(text.text for text in row.iter(f"{namespace}text")) for row in root.iter(f"{namespace}g")]
    marks = [sorted(line.replace("\u00a0", "").replace(" ", "")) for line in drawn]
    assert marks == [sorted(line.replace(" ", "")) for line in lines_of(frame)]  # nothing is lost on the way
    assert max(map(len, lines_of(frame))) <= 120 and len(lines_of(frame)) <= 36 and lines_of(frame)[-1]


@pytest.mark.parametrize(
    "options, says",
    [
        ({"width": 20}, "width=20"),
        ({"height": 3}, "height=3"),
        ({"focus": "Z"}, "focus='Z'"),
        ({"result": 3}, "result=3"),
    ],
)
def test_what_cant_be_shown_is_named(options, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        visualize.show(engine(), **options)


def test_only_an_engine_with_events_can_be_shown():
    with pytest.raises(ValueError, match="must be an Engine"):
        visualize.show("engine")
    silent = engine()
    silent.scheduler.log = None
    with pytest.raises(ValueError, match="events=True"):
        visualize.show(silent)
    assert "step" not in vars(silent)


def test_four_answers_to_one_prompt(plots):
    """Blocks that four tables name, before and after three of these have copied the last one."""
    four = memory(num_blocks=12, A1=6)
    for name in ("A2", "A3", "A4"):
        four.fork("A1", name)
    texts = {f"A{i}": [*SPEECH[:6], f"end{i}"] for i in (1, 2, 3, 4)}
    before = plots.draw_pool(four, texts)
    assert "block 1: logical 1 of A1 and logical 1 of A2 and logical 1 of A3 and logical 1 of A4" in before.alt
    assert before.alt.count("ref_count 4") == 2 and "●▲■◆" in written(plots.draw_tables(four, texts).svg)
    copies = four.grow([(name, 1) for name in texts])
    assert [source for source, _ in copies] == [1, 1, 1]
    for picture in (plots.draw_pool(four, texts), plots.draw_tables(four, texts)):
        assert picture.alt.count("ref_count 4") == 1 and {"end1", "end2", "end3", "end4"} <= set(written(picture.svg))
        assert len(picture.svg.encode()) < LIMIT
        assert "A4◆" in written(picture.svg)
        assert "block 1: logical 1 of A4, 3 of 4 slots filled, ref_count 1" in picture.alt
