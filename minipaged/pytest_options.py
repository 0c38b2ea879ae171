"""The options that the exercises give to pytest.

They stand alone in an installed plugin (pyproject.toml), because pytest must know that --impl takes a value before it
looks for paths on its command line. What they do is in tests/exercise_plugin.py.
"""


def pytest_addoption(parser):
    group = parser.getgroup("exercises")
    told = "run the exercises' checks on this only: reference, yours, or the path of a file or of a folder of files"
    group.addoption("--impl", metavar="reference|yours|PATH", help=told + " (default: reference and yours)")
    group.addoption("--strict-todo", action="store_true", help="what is not written yet counts as failed")
