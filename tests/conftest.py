"""Set before anything imports torch: the models here are so small that a second thread only waits for the first."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["minipaged.pytest_options", "exercise_plugin"]
