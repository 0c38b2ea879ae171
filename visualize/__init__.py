"""Watch minipaged at work: snapshots of an engine, drawn on a terminal. Nothing in minipaged imports this."""

from visualize.recording import record

__all__ = ["record"]
