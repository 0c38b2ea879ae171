"""The benchmarks run, on tiny sizes, and say what they promise. Speed itself is not tested: other work on the machine
would decide."""

import importlib.util
import json
import subprocess
import sys

import pytest

from minipaged.bench import bookkeeping
from minipaged.bench.measure import Spread, table

needs_transformers = pytest.mark.skipif(
    not importlib.util.find_spec("transformers"), reason="transformers isn't installed: the extra 'compare'"
)


def test_bookkeeping_prints_json(capsys):
    bookkeeping.main(["--sequences", "2,5", "--context", "40", "--runs", "3", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (result["unit"], result["runs"]) == ("sum(range(1_000_000))", 3)
    kinds = [(row["num_seqs"], row["context"], row["events"]) for row in result["rows"]]
    largest = [(5, 40, False), (5, 160, False), (5, 40, False)]  # a larger pool, a longer context, no prefix cache
    assert kinds == [(2, 40, False), (5, 40, False), (2, 40, True), (5, 40, True), *largest]
    assert result["rows"][4]["num_blocks"] == 8 * result["rows"][1]["num_blocks"]
    assert [row["caching"] for row in result["rows"]] == [True] * 6 + [False]
    entered = [[row[name] for name in ("num_seqs", "context", "caching", "num_hit")] for row in result["admissions"]]
    assert entered == [[5, 40, False, 0], [5, 40, True, 0], [5, 40, True, 32]]
    for row in result["rows"] + result["admissions"]:
        for name in ("step_ms", "unit_ms", "units"):
            assert 0 < row[name]["least"] <= row[name]["median"] <= row[name]["most"]


def test_kernels_are_not_timed_where_they_are_interpreted(capsys):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU: they are timed")
    from minipaged.bench import kernels

    kernels.main(["--batch", "2", "--context", "16"])
    assert "kernels that are interpreted aren't timed" in capsys.readouterr().out
    with pytest.raises(ValueError, match="--context=0: must be a whole number"):
        kernels.main(["--context", "0"])


def test_the_report_of_kernels():
    pytest.importorskip("torch")
    from minipaged.bench import kernels

    about = {"device": "D", "torch": "1", "triton": "2", "dtype": "bf16", "copy_bytes_per_second": 4e12, "runs": 3}
    row = {"batch": 64, "context": 4096, "num_splits": 1, "ms": 0.25, "unsplit_ms": 0.5, "sdpa_ms": 0.3}
    row |= {"bytes_per_second": 3e12, "of_copy": 0.75}
    line = kernels.report(about, [row]).splitlines()[1]
    assert line.split() == ["64", "4,096", "1", "250", "3.00", "75%", "2.0", "1.20"]
    with_flashinfer = kernels.report(about, [row | {"flashinfer_ms": 0.2}]).splitlines()
    assert with_flashinfer[1].split()[-1] == "0.80"


def test_bookkeeping_prints_a_table(capsys):
    bookkeeping.main(["--sequences", "2", "--context", "20", "--runs", "2"])
    steps, admitted, _ = capsys.readouterr().out.split("\n\n")
    head, *rows = steps.splitlines()
    assert "part of the unit" in head
    assert [row.split()[3] for row in rows] == ["off", "on", "off", "off", "off"]  # events
    assert [row.split()[4] for row in rows] == ["on", "on", "on", "on", "off"]  # caching
    _, head, *rows = admitted.splitlines()
    assert head.split()[:4] == ["prompts", "tokens", "hit", "caching"]
    assert [row.split()[2:4] for row in rows] == [["0", "off"], ["0", "on"], ["16", "on"]]


def test_every_measured_step_decodes_every_sequence():
    """More steps than a block has places, so that every sequence takes a block on the way and none is finished."""
    case = bookkeeping.cases([20], context=30, runs=40)[0]
    scheduler, said = bookkeeping.prepare(case, 40)
    for _ in range(40):
        before = [request.sequences[0].num_computed_tokens for request in scheduler.running]
        bookkeeping.step(scheduler, said)
        after = [request.sequences[0].num_computed_tokens for request in scheduler.running]
        assert len(before) == 20
        assert after == [n + 1 for n in before]


@pytest.mark.parametrize("case", bookkeeping.admissions(20, context=40), ids=str)
def test_every_prompt_of_an_admission_enters_and_computes_what_is_not_hit(case):
    scheduler, said = bookkeeping.prepare_admission(case)
    plan = scheduler.schedule()
    assert [(row.start, row.num_tokens) for row in plan.rows] == [(case.num_hit, 40 - case.num_hit)] * 20
    assert plan.due == list(said)
    scheduler.commit(plan, list(said.values()), [(None, None)] * 20)
    assert len(scheduler.running) == 20


def test_bookkeeping_needs_no_torch():
    code = (
        "import sys; from minipaged.bench.bookkeeping import main; "
        "main(['--sequences', '1', '--context', '4', '--runs', '1']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.fixture(scope="module")
def decoded():
    """The result of one tiny run of the decode benchmark, as JSON."""
    import contextlib
    import io

    from minipaged.bench import decode

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        decode.main(["--batch", "1,3", "--runs", "1", "--prompt-tokens", "5", "--max-tokens", "20", "--json"])
    return json.loads(out.getvalue())


def test_decode_prints_json(decoded):
    assert [row["batch"] for row in decoded["rows"]] == [1, 3]
    for row in decoded["rows"]:
        assert row["engine"]["threads"] in (1, 2)
        assert row["engine"]["tokens_per_second"]["median"] > 0
        assert set(row["shares"]) == {"scheduler", "attention", "rest of the model", "other"}
        assert all(0 < share < 1 for share in row["shares"].values())
        assert sum(row["shares"].values()) == pytest.approx(1)


@pytest.mark.skipif(
    not importlib.util.find_spec("transformers"), reason="transformers isn't installed: the extra 'compare'"
)
def test_both_sides_generate_the_same_tokens(decoded):
    assert [row["same_tokens"] for row in decoded["rows"]] == [1, 3]
    assert all(row["ratio"] > 0 for row in decoded["rows"])


@pytest.mark.skipif(
    not importlib.util.find_spec("transformers"), reason="transformers isn't installed: the extra 'compare'"
)
def test_continuous_batching_generates_the_same_tokens_too():
    from minipaged.bench import decode, hugging_face

    if not hugging_face.can_batch_continuously():
        pytest.skip(decode.NO_CONTINUOUS)
    llm, batch = decode.engine(3, 5, 20), decode.prompts(3, 5, 1024)
    llama = hugging_face.same_model(llm.engine.model)
    assert hugging_face.run_continuous(llama, batch, 20) == decode.run_engine(llm, batch, 20)


def test_decode_without_transformers_says_so_and_shows_the_engine(monkeypatch, capsys):
    from minipaged.bench import decode

    monkeypatch.setitem(sys.modules, "transformers", None)  # what a failing import looks like
    decode.main(["--batch", "1", "--runs", "1", "--prompt-tokens", "3", "--max-tokens", "4"])
    out = capsys.readouterr().out
    assert out.count(decode.NO_TRANSFORMERS) == 1
    assert "engine, tokens/s" in out
    assert "generate, tokens/s" not in out


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--batch", "0"], "--batch=0"),
        (["--batch", "1,x"], "--batch='x'"),
        (["--runs", "-3"], "--runs='-3'"),
        (["--runs", ""], "--runs=''"),
        (["--max-tokens", "1"], "--max-tokens=1"),
        (["--prompt-tokens", "2000"], "--prompt-tokens=2000"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(argv, named):
    from minipaged.bench import decode

    with pytest.raises(ValueError, match=named) as raised:
        decode.main(argv)
    assert "\n" not in str(raised.value)


def test_bookkeeping_names_a_wrong_value():
    with pytest.raises(ValueError, match=r"--sequences='1\.5'"):
        bookkeeping.main(["--sequences", "1.5"])


def test_a_spread_and_a_table():
    assert Spread.of([3, 1, 2]).text(1) == "2.0 (1.0-3.0)"
    assert table(["a", "bb"], [["100", "2"]]) == "  a  bb\n100   2"
