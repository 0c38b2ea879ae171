"""The tool that runs the lessons: notebooks.py."""

import json
import re
import sys

import notebooks
import pytest
from harness import needs_a_kernel


def notebook_of(*outputs):
    cell = {"cell_type": "code", "source": "go()", "metadata": {}, "execution_count": 1, "outputs": outputs}
    return {"cells": [cell]}


def printed(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def data(**kinds):
    names = {"svg": "image/svg+xml", "png": "image/png", "html": "text/html", "plain": "text/plain"}
    return {"output_type": "display_data", "metadata": {}, "data": {names[kind]: text for kind, text in kinds.items()}}


@pytest.mark.parametrize(
    "committed, fresh, first",
    [
        ([printed("<a at 0x7f01>  \nb\n")], [printed("<a at 0x55>\n"), printed("b")], None),
        ([printed("3 blocks\n5")], [printed("3 blocks\n6")], 'committed is "5", this run shows "6"'),
        ([], [printed("6")], 'committed is nothing, this run shows "6"'),
        ([data(svg="<svg><!-- 7 --><path d='M1'/></svg>")], [data(svg="<svg a=''><!-- 7 --></svg>")], None),
        ([data(svg="<svg><!-- 7 --></svg>")], [data(svg="<svg><!-- 8 --></svg>")], 'is "7", this run shows "8"'),
        ([data(html="<svg><text x='1'>7</text></svg>")], [data(html="<svg><text>7</text>\n</svg>")], None),
        ([data(html="<svg><text>7</text></svg>")], [data(html="<svg><text>8</text></svg>")], 'shows "8"'),
        ([data(png="AAAA", plain="<Figure 1>")], [data(png="BBBB", plain="<Figure 2>")], None),
        ([data(png="AAAA")], [], "this run shows nothing"),
    ],
)
def test_what_counts_as_a_difference(committed, fresh, first):
    found = notebooks.differences(notebook_of(*committed), notebook_of(*fresh))
    assert [line[: len('cell 1 ("go()"): ')] for line in found] == ['cell 1 ("go()"): '] * bool(first)
    assert first is None or first in found[0]


def test_what_no_run_may_show():
    assert notebooks.problems({"cells": []}) == ["no code cell was run"]
    assert notebooks.problems(notebook_of(printed("1"))) == []
    assert notebooks.problems(notebook_of(printed("oh\nno", "stderr"))) == ['cell 1 ("go()"): on stderr: oh']
    error = {"output_type": "error", "ename": "KeyError", "evalue": "3", "traceback": []}
    assert notebooks.problems(notebook_of(error)) == ['cell 1 ("go()"): KeyError: 3']


def small(folder, *sources, tags=(), name="03_small"):
    """The file of a notebook with these code cells; the tags are on the last one."""
    made = [{"cell_type": "code", "source": source, "metadata": {}} for source in sources]
    made[-1]["metadata"]["tags"] = list(tags)
    path = folder / f"{name}.ipynb"
    path.write_text(json.dumps(notebooks.tidy({"cells": made}, name)), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "source, says",
    [("x = 1\n1 / 0", "ZeroDivisionError: division by zero"), ("import time; time.sleep(60)", "its 1 s were over")]
    + [("import os; os._exit(1)", "its kernel died"), ("import socket; socket.getaddrinfo('a.org', 1)", "no network")],
)
def test_a_run_that_breaks_off_names_the_cell(tmp_path, source, says):
    needs_a_kernel()
    path = small(tmp_path, "1", source, tags=["raises-exception", "skip-execution"])
    with pytest.raises(notebooks.NotebookError) as error:
        notebooks.execute(path, limit=1 if "sleep" in source else 30)
    first = re.escape(source.split("\n")[0])
    assert re.fullmatch(rf'03_small.ipynb, cell 2 \("{first}"\): .*{says}.*', str(error.value))  # one line


@pytest.mark.slow
def test_the_command_writes_what_the_next_run_repeats(tmp_path, monkeypatch, capsys):
    needs_a_kernel()
    monkeypatch.setattr(notebooks, "LESSONS", tmp_path)
    here = "import os, sys, minipaged, visualize\nprint(sys.executable, os.getcwd(), os.environ['OMP_NUM_THREADS'])"
    good = small(tmp_path, here, "print(1, flush=True); print(object())", "import time; time.time()", tags=["measured"])
    small(tmp_path, "1 / 0", name="02_wrong")
    assert notebooks.main(["03"]) == 0
    text, first = good.read_text(encoding="utf-8"), notebooks.load(good)
    assert first["cells"][0]["outputs"][0]["text"].split() == [sys.executable, str(tmp_path), "1"]
    assert notebooks.main([]) == 1  # on the other one
    told = r"02_wrong.ipynb +failed\n02_wrong.ipynb, cell 1 .*: ZeroDivisionError.*\n03_small.ipynb +\d+\.\d s\n"
    assert re.search(told, capsys.readouterr().out)
    second = notebooks.load(good)
    assert notebooks.differences(first, second) == notebooks.problems(second) == []
    assert first["cells"][2]["outputs"] != second["cells"][2]["outputs"]
    assert good.read_text(encoding="utf-8").split('"03-03"')[0] == text.split('"03-03"')[0]
    first["cells"][2]["outputs"] = []
    assert notebooks.problems(first) == ['cell 3 ("import time; time.time()"): tagged measured, and shows nothing']
