"""From requests to tokens: the scheduler decides each step, the engine runs it."""
