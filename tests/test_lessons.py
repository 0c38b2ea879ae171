"""The lessons: their form, and that a run shows what is committed.

Running them is slow and takes the packages of the extra `lessons`; their form is looked at without.
"""

import base64
import re
from itertools import pairwise

import notebooks
import pytest
from harness import needs_a_kernel

from minipaged.exercises import EXERCISES

each = pytest.mark.parametrize("path", notebooks.lessons(), ids=lambda path: path.stem)
SECTIONS = ["The problem", "The idea", "The smallest code", "Watch it", "The exercise"]
SECTIONS += ["In the real system", "Summary", "Quiz"]
WITHOUT = {"00": {"The idea", "The smallest code", "The exercise"}, "14": {"The exercise"}}
MACHINE = r"(?<![\w.])/(?:home|opt|root|tmp|Users|usr|var|work)/|\b[A-Z]:\\"


def read(path):
    """The lesson as it is committed. One that a reader ran and saved is left alone; the slow tests look at it."""
    notebook = notebooks.load(path)
    if "version" in notebook["metadata"].get("language_info", {}):
        pytest.skip(f"{path.name} was saved by a reader's Jupyter; `make notebooks` gives it the committed form again")
    return notebook


def cells(notebook, kind):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def sections(notebook):
    """[(second-level heading, the prose under it), ...], without what stands before the first one."""
    prose = "\n".join(cell["source"] for cell in cells(notebook, "markdown"))
    parts = re.split(r"^## (.*)$", prose, flags=re.MULTILINE)
    return list(zip([heading.strip() for heading in parts[1::2]], parts[2::2]))


def pictures(cell):
    """The pictures that a cell shows, each as bytes."""
    data = [output["data"] for output in cell.get("outputs", []) if "data" in output]
    found = [base64.b64decode(each["image/png"]) for each in data if "image/png" in each]
    found += [each["image/svg+xml"].encode() for each in data if "image/svg+xml" in each]
    return found + [each["text/html"].encode() for each in data if "<svg" in each.get("text/html", "")]


def items(text):
    return re.findall(r"^(?:[-*]|\d+\.) ", text, flags=re.MULTILINE)


def test_there_is_a_course():
    numbers = [path.stem[:2] for path in notebooks.lessons()]
    assert numbers[:6] == ["00", "01", "02", "03", "04", "05"]
    assert len(numbers) == len(set(numbers))


@each
def test_it_has_the_length_the_questions_and_the_asserts_of_a_lesson(path):
    notebook = read(path)
    texts = [cell["source"] for cell in cells(notebook, "markdown")]
    assert sum("Predict" in text and "<details>" in text for text in texts) >= 2
    assert all(text.count("<details>") == text.count("<summary>") == text.count("</details>") for text in texts)
    prose = "\n".join(texts)
    for left_out in (r"(?s)```.*?```", r"</?[a-zA-Z][^>]*>", r"\]\([^)]*\)"):  # code, HTML, where links lead
        prose = re.sub(left_out, " ", prose)
    num_words = sum(bool(re.search(r"\w", word)) for word in prose.split())
    assert 25 <= len(notebook["cells"]) <= 40
    assert (600 if path.stem[:2] == "00" else 900) <= num_words <= 1500
    code = [cell["source"] for cell in cells(notebook, "code")]
    assert [source for source in code if source.count("\n") >= 15] == []
    assert re.search(r"^ *assert ", "\n".join(code), flags=re.MULTILINE)


@each
def test_its_sections_come_in_order(path):
    headings = [heading for heading, _ in sections(read(path))]
    required = [heading for heading in SECTIONS if heading not in WITHOUT.get(path.stem[:2], ())]
    assert [heading for heading in headings if heading in required] == required
    known = [heading for heading in headings if heading in SECTIONS]
    assert known == sorted(set(known), key=SECTIONS.index)
    watch = headings.index("Watch it")
    assert set(headings[watch:]) <= set(SECTIONS)
    if "The smallest code" in headings:  # up to there only predictions stand between
        others = set(headings[: headings.index("The smallest code")]) - set(SECTIONS)
        assert all(heading.startswith("Predict") for heading in others)


@each
def test_each_section_has_what_belongs_in_it(path):
    text, opening = dict(sections(read(path))), read(path)["cells"][0]["source"]
    assert re.match(rf"# {path.stem[:2]} · \S", opening)
    assert re.search(r"(?s)After this you can.*\d minutes.*Builds on", opening)
    assert len(items(opening)) == 3
    assert re.search(r"python -m visualize|make watch", text["Watch it"])
    assert "vLLM" in text["In the real system"]
    assert re.search(r"`[\w/.]+\.(py|cuh?|cpp|h)`", text["In the real system"])
    assert len(items(text["Summary"])) == 4
    assert text["Quiz"].count("<details>") == 3
    if "The exercise" in text:
        number = f"ex{path.stem[:2]}"
        files = re.findall(rf"lessons/exercises/({number}_\w+\.py)", text["The exercise"])
        assert files and all((notebooks.LESSONS / "exercises" / file).exists() for file in files)
        assert f"pytest -k {number}" in text["The exercise"]
        assert "<details>" in text["The exercise"]  # a hint


@each
def test_it_has_pictures_all_along(path):
    notebook = read(path)
    at = [index for index, cell in enumerate(notebook["cells"]) if pictures(cell)]
    assert len(at) >= 3
    assert all(later - earlier <= 8 for earlier, later in pairwise(at)), at
    drawn = [picture for cell in notebook["cells"] for picture in pictures(cell)]
    assert [len(picture) for picture in drawn if len(picture) >= 60_000 or b"<dc:date>" in picture] == []


@each
def test_it_names_nothing_of_the_machine_and_no_missing_file(path):
    notebook = read(path)
    text = "\n".join(cell["source"] for cell in notebook["cells"])
    for output in [output for cell in cells(notebook, "code") for output in cell["outputs"]]:
        text += "\n" + output.get("text", "") + output.get("data", {}).get("text/plain", "")
    drawn = b"\n".join(picture for cell in notebook["cells"] for picture in pictures(cell)).decode(errors="ignore")
    assert re.findall(r"\bhttps?://", text) == []  # what is cited is named, and what is read is near
    assert re.findall(MACHINE, text + drawn) == []
    prose = "\n".join(cell["source"] for cell in cells(notebook, "markdown"))
    links = [link for pair in re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", prose) for link in pair]
    near = [link.split("#")[0] for link in links if not link.startswith("https://")]
    assert [link for link in near if not (path.parent / link).exists()] == []


@each
def test_it_is_committed_with_its_outputs(path):
    notebook = read(path)
    assert notebooks.problems(notebook) == []
    silent = [cell["source"] for cell in cells(notebook, "code") if not cell["outputs"]]
    assert [source for source in silent if re.search(r"^(print|display)\(", source, flags=re.MULTILINE)] == []
    assert {tag for cell in notebook["cells"] for tag in cell["metadata"].get("tags", [])} <= {notebooks.MEASURED}


@pytest.mark.slow
@each
def test_a_run_shows_what_is_committed(path):
    needs_a_kernel()
    if path.stem[:2] == "06" and (why := EXERCISES["ex06"].why_not_here):
        pytest.skip(why)
    committed, found = notebooks.load(path), []
    if notebooks.text_of(notebooks.tidy(notebooks.load(path), path.stem)) != path.read_text(encoding="utf-8"):
        found.append("not in the form in which `make notebooks` writes it")
    try:
        fresh, _ = notebooks.execute(path)
        found += notebooks.problems(committed) + notebooks.problems(fresh) + notebooks.differences(committed, fresh)
    except notebooks.NotebookError as error:
        found.append(str(error))
    if found:
        pytest.fail("\n".join([path.name, *found]), pytrace=False)
