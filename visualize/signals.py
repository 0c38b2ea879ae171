"""Signals: Ctrl-C, SIGTERM and SIGHUP unwind the program like an exception, so that every `finally` runs.

The terminal is then left as it was found, whatever ends the program.
"""

import signal
import sys
from contextlib import contextmanager


class Signals:
    """A context: inside it, the first of these signals raises SystemExit with the status that shells expect."""

    NUMBERS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

    def __enter__(self):
        self._came = None
        self._is_held = False
        self._before = {number: signal.signal(number, self._handle) for number in self.NUMBERS}
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self):
        """Inside it a signal waits for the end. An import that is broken off would leave its module half made."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self._came:
            self._unwind()

    def hold(self):
        """From now on signals wait, for ever: the program is about to end, and cleans up."""
        self._is_held = True

    def _handle(self, number, frame):
        self._came = number
        if self._is_held:
            return
        if "minipaged.learner" in sys.modules:  # with --mine a learner's code may run, and may catch it
            sys.modules["minipaged.learner"].interrupt(128 + number, frame)
        self._unwind()

    def _unwind(self):
        for number in self.NUMBERS:
            signal.signal(number, signal.SIG_IGN)  # a second one must not disturb the cleaning up
        raise SystemExit(128 + self._came)
