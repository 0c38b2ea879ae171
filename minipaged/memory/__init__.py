"""Where cached state lives: which blocks are free, and which blocks hold which sequence. Pure Python, no torch."""
