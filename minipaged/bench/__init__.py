"""How fast it is: a decode step's bookkeeping on its own, and whole runs next to Hugging Face's `generate`."""
