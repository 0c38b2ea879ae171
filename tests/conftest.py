"""What every run of the tests needs."""

import os
import shutil

import pytest

# Set before anything imports torch: the models here are so small that a second thread only waits for the first.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Likewise before anything imports triton, as torch may on its way: without a GPU its kernels are interpreted.
if not os.path.exists("/dev/nvidia0"):
    os.environ.setdefault("TRITON_INTERPRET", "1")

# The first is installed with minipaged; where an older minipaged is installed, it is found here.
pytest_plugins = ["minipaged.pytest_options", "exercise_plugin"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The exercises in a folder of their own, as they came."""
    from minipaged import exercises

    shutil.copytree(exercises.FOLDER / "original", tmp_path / "original")
    for file in (tmp_path / "original").glob("ex*.py"):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(exercises, "FOLDER", tmp_path)
    return tmp_path
