"""bench quality: what a cache of fewer bytes costs on text that the model hasn't seen."""

import json
import math

import pytest


@pytest.fixture(scope="module")
def quality():
    pytest.importorskip("torch")
    from minipaged.bench import quality

    return quality


def rows_of(quality, capsys, *options):
    quality.main(["--json", *options])
    found = json.loads(capsys.readouterr().out)
    return {row["cache_dtype"]: row for row in found["rows"]}, found


@pytest.fixture
def short(quality, tmp_path):
    """The first scene, and another one of a line."""
    file = tmp_path / "short.txt"
    file.write_text(
        quality.read_texts(quality.HELD_OUT)[0][:2000] + quality.BETWEEN_SCENES + "HAMLET:\nWords, words.\n"
    )
    return str(file)


def test_what_is_measured(quality, capsys, short):
    rows, found = rows_of(quality, capsys, "--text", short, "--row-tokens", "128")
    assert found["characters"] == 2022 and list(rows) == ["float32", "float16", "bfloat16", "int8", "fp8"]
    exact = rows["float32"]
    assert exact["largest_logit_error"] == 0 and exact["greedy_agreement"] == 1
    errors = [row["largest_logit_error"] for row in rows.values()]
    assert errors == sorted(errors) and len(set(errors)) == 5  # each type is coarser than the one before it
    assert [row["bytes_per_token"] for row in rows.values()] == [2048, 1024, 1024, 576, 576]
    assert all(0.9 < row["greedy_agreement"] < 1 for name, row in rows.items() if name in ("int8", "fp8"))


def test_float32_is_the_model_itself(quality):
    """The bits of a text, one token after the other, by the dense forward alone."""
    import torch

    from minipaged.model.load import load

    model, tokenizer = load("tiny", torch.float32, None, "cpu")
    [row], about = quality.measure(model, tokenizer, ["HAMLET:\nWords, words.\n"], ["float32"], 128)
    ids = [tokenizer.eos_token_id, *tokenizer.encode("HAMLET:\nWords, words.\n"), tokenizer.eos_token_id]
    with torch.inference_mode():
        logprobs = model.dense(torch.tensor([ids[:-1]]))[0].log_softmax(-1)
    nats = -sum(logprobs[i, token].item() for i, token in enumerate(ids[1:]))
    assert row["bits_per_character"] == pytest.approx(nats / math.log(2) / 22, rel=1e-5)
    assert about == {"characters": 22, "tokens": len(ids) - 1}


@pytest.mark.slow
def test_on_all_held_out_text(quality, capsys):
    """The table in bench/README.md, and its promise: int8 costs under half a percent, fp8 under two."""
    rows, _ = rows_of(quality, capsys)
    bits = {name: row["bits_per_character"] for name, row in rows.items()}
    assert bits["int8"] < 1.005 * bits["float32"] and bits["fp8"] < 1.02 * bits["float32"]
    kept = {}
    for line in (quality.HELD_OUT.parent / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in rows:
            kept[cells[0]] = float(cells[2])
    assert kept == {name: pytest.approx(each, abs=2e-4) for name, each in bits.items()}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--text", "no/such/file"], "--text no/such/file: No such file or directory: must be a readable text file"),
        (["--text", "EMPTY"], "holds no text"),
        (["--text", "BYTES"], "it is not UTF-8"),
        (["--row-tokens", "1"], "--row-tokens=1: must be a whole number, from 2 to 1024"),
        (["--row-tokens", "many"], "--row-tokens='many'"),
    ],
)
def test_wrong_options(quality, options, message, tmp_path):
    (tmp_path / "EMPTY").write_text(" \n")
    (tmp_path / "BYTES").write_bytes(b"\xff\xfe\x00")
    options = [str(tmp_path / each) if each in ("EMPTY", "BYTES") else each for each in options]
    with pytest.raises(ValueError, match=message):
        quality.main(options)
