"""Watch minipaged at work: snapshots of an engine, drawn on a terminal. Nothing in minipaged imports this.

`record` is imported when it is first used, so that the program can take care of signals before anything else.
"""

__all__ = ["record"]


def __getattr__(name):
    if name != "record":
        raise AttributeError(f"module 'visualize' has no attribute {name!r}")
    from visualize.recording import record

    return record
