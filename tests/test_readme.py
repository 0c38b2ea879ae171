"""What the README shows is what happens."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_print_what_their_comments_say(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # one of them writes a file
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 2
    expected = re.findall(r"^print\(.*\)  # (.*)$", "".join(blocks), flags=re.MULTILINE)
    exec("".join(blocks), {})  # the second goes on where the first ends
    assert capsys.readouterr().out.splitlines() == expected


def test_every_file_it_names_is_there():
    text = README.read_text(encoding="utf-8")
    named = re.findall(r"\]\(([^):]+)\)", text) + re.findall(r"`((?:minipaged|visualize)/[\w/.]*)`", text)
    assert len(named) > 15
    missing = [name for name in named if not (README.parent / name).exists()]
    assert not missing
