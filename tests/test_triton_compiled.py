"""Every kernel compiles for real GPUs, on a machine that has none, and spills no register."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Bytes of shared memory that a program may have: a kernel that needs more compiles, and can't be launched.
SHARED_MEMORY = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}


@pytest.fixture(scope="module")
def compilers(tmp_path_factory):
    """A process for each target, all at once: target -> Popen."""
    pytest.importorskip("torch")
    if not importlib.util.find_spec("triton"):  # not imported: here it would be told how to run
        pytest.skip("triton is not installed")
    script, running = Path(__file__).with_name("compile_kernels.py"), {}
    for target in SHARED_MEMORY:
        environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp(target))}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running[target] = subprocess.Popen([sys.executable, script, target], env=environment, **pipes)
    yield running
    for each in running.values():
        each.kill()
        each.wait()


@pytest.mark.slow
@pytest.mark.parametrize("target", SHARED_MEMORY)
def test_every_kernel_compiles_and_spills_nothing(target, compilers):
    out, errors = compilers[target].communicate(timeout=400)
    assert compilers[target].returncode == 0, errors[-2000:]
    rows = [json.loads(line) for line in out.splitlines()]
    kernels = {(row["kernel"], row["dtype"], row["stored"], row["head_dim"]) for row in rows}
    assert len(kernels) == 5 * 3 * 3 + 2 * 5 * 2 + 2 * 3  # at a head_dim of 1 scales are moved
    assert [row for row in rows if row["spills"] and row["head_dim"] in (64, 128)] == []
    assert [row for row in rows if row["shared"] > SHARED_MEMORY[target]] == []
