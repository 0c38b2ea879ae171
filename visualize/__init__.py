"""Watch minipaged at work: snapshots of an engine, drawn on a terminal. Nothing in minipaged imports this.

`record`, `watch`, `show` and `walk` are imported when they are first used, so that the program can take care of signals
before anything else.
"""

from importlib import import_module

_HOME = {
    "record": "visualize.recording",
    "show": "visualize.notebook",
    "walk": "visualize.walk_run",
    "watch": "visualize.notebook",
}
__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module 'visualize' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
