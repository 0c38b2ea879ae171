"""How Triton is loaded, what is known without it, and how two attention states become one."""

import os
import subprocess
import sys

import pytest

from minipaged.attention.triton import geometry


def run(code, **environment):
    """A program of its own, in which nothing has imported triton yet: (exit status, last line of stderr, stdout)."""
    pytest.importorskip("torch")
    changed = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=changed, timeout=100)
    return done.returncode, (done.stderr.splitlines() or [""])[-1], done.stdout.strip()


def needs_no_gpu():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, so nothing is interpreted")


@pytest.mark.slow
def test_without_triton_the_rest_works_and_the_loader_says_why():
    code = (
        "import sys; sys.modules['triton'] = None; from minipaged import LLM, SamplingParams;"
        "LLM(num_blocks=4).generate('a', SamplingParams(max_tokens=1));"
        "from minipaged.attention.triton import geometry, loader; print('works'); loader.load()"
    )
    status, error, out = run(code)
    assert (status, out) == (1, "works")
    assert error.startswith("ValueError: Triton's kernels need triton, and it can't be imported here: ")


@pytest.mark.slow
def test_nothing_but_the_kernels_imports_triton():
    code = (
        "import sys; from minipaged import LLM; from minipaged.attention.triton import geometry, loader;"
        "from minipaged.attention import states; LLM(num_blocks=4); print('triton' in sys.modules)"
    )
    assert run(code) == (0, "", "False")


@pytest.mark.slow
def test_triton_imported_too_early_is_named():
    needs_no_gpu()
    pytest.importorskip("triton")
    status, error, _ = run("import triton; from minipaged.attention.triton import decode")
    assert status == 1
    assert error.startswith("ValueError: triton was imported before minipaged's kernels")


@pytest.mark.slow
def test_what_somebody_has_set_is_left_alone():
    needs_no_gpu()
    pytest.importorskip("triton")
    code = """
import os, torch
from minipaged.attention.triton import decode
print(os.environ["TRITON_INTERPRET"], type(decode.decode_kernel).__name__, flush=True)
cache, table, length = torch.zeros(1, 1, 1, 16), torch.zeros(1, 1, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
decode.decode(cache[0], cache, cache, table, length, 1.0)
"""
    status, error, out = run(code, TRITON_INTERPRET="0")
    assert (status, out) == (1, "0 JITFunction")
    assert error == "ValueError: tensors on cpu: Triton's kernels are compiled here, and need them on a GPU"
    assert run(code) == (0, "", "1 InterpretedFunction")


def test_splits_share_out_all_positions():
    for tile_size in (16, 64):
        for seq_len in (0, 1, 15, 16, 17, 64, 1000):
            for num_splits in (1, 2, 3, 7, 64):
                parts = [geometry.split_range(i, num_splits, seq_len, tile_size) for i in range(num_splits)]
                assert [position for part in parts for position in part] == list(range(seq_len))
                assert all(part.start % tile_size == 0 for part in parts if part)


def test_splits_only_where_there_are_too_few_programs():
    assert geometry.num_splits_for(1, 8, 32_768, 64, num_processors=0) == 1  # interpreted
    assert geometry.num_splits_for(64, 8, 4096, 64, num_processors=132) == 1
    assert geometry.num_splits_for(1, 8, 32_768, 64, num_processors=132) == 33
    assert geometry.num_splits_for(1, 1, 10**6, 64, num_processors=132) == 64
    assert geometry.num_splits_for(1, 8, 300, 64, num_processors=132) == 1  # too short to be worth it
    assert geometry.num_splits_for(1, 8, 0, 64, num_processors=132) == 1


def test_every_query_is_in_one_tile():
    for group in (1, 3, 4, 100):
        for kind in geometry.SIZES:
            step = geometry.rows_for(group, kind) // group
            tiles = geometry.query_tiles([0, 1, 1, 90, 91], group, kind)
            queries = {0: 1, 1: 0, 2: 89, 3: 1}
            for sequence, count in queries.items():
                firsts = [first for owner, first in tiles if owner == sequence]
                assert [query for first in firsts for query in range(first, min(first + step, count))] == list(
                    range(count)
                )


def test_g2_two_states_become_one():
    """Scores 0, ln 2 | ln 3 and values 6, 3 | 2: (4, ln 3) and (2, ln 3) are (3, ln 6)."""
    torch = pytest.importorskip("torch")
    from minipaged.attention.states import merge_states

    ln3, out_a, out_b = torch.tensor(3.0).log(), torch.tensor([4.0]), torch.tensor([2.0])
    for first, second in ((out_a, out_b), (out_b, out_a)):
        out, lse = merge_states(first, ln3, second, ln3)
        assert out.item() == pytest.approx(3.0)
        assert lse.item() == pytest.approx(1.7917594692)


def test_an_empty_state_has_no_weight_whatever_its_output():
    torch = pytest.importorskip("torch")
    from minipaged.attention.states import merge_states

    none, junk = torch.tensor(float("-inf")), torch.tensor([float("nan")])
    for arguments in (
        (junk, none, torch.tensor([5.0]), torch.tensor(2.0)),
        (torch.tensor([5.0]), torch.tensor(2.0), junk, none),
    ):
        assert [x.item() for x in merge_states(*arguments)] == [5.0, 2.0]
    assert [x.item() for x in merge_states(junk, none, junk, none)] == [0.0, float("-inf")]


def test_merging_in_any_grouping_is_attention_over_all_keys():
    torch = pytest.importorskip("torch")
    from minipaged.attention.states import merge_states

    scores = 30 * torch.randn(3, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = torch.randn(12, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def state(part):
        return scores[:, part].softmax(-1) @ values[part], scores[:, part].logsumexp(-1)

    a, b, c = (state(part) for part in (slice(0, 2), slice(2, 9), slice(9, 12)))
    for merged in (merge_states(*merge_states(*a, *b), *c), merge_states(*a, *merge_states(*b, *c))):
        for got, expected in zip(merged, state(slice(0, 12))):
            assert torch.allclose(got, expected, rtol=0, atol=1e-12)
