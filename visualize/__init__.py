"""Watch minipaged at work: snapshots of an engine, drawn on a terminal. Nothing in minipaged imports this."""
