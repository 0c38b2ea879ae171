"""Keys: reads single keys from the terminal, without Enter, and leaves the terminal as it was.

Keys are named: "right", "escape", or the character itself. Reading waits no longer than it is told to. Where stdin is
no terminal there are no keys, and reading only waits.
"""

import os
import re
import sys
import time
from contextlib import suppress

try:
    import select
    import termios
    import tty
except ImportError:  # Windows
    termios = None
    import msvcrt

ESCAPED = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|O[ -~]|[^\x1b\[O])")  # a special key, or Alt with another key
SEQUENCES = {b"\x1b[C": "right", b"\x1bOC": "right", b"\x1b[D": "left", b"\x1bOD": "left"}
SEQUENCES |= {b"\x1b[H": "home", b"\x1bOH": "home", b"\x1b[F": "end", b"\x1bOF": "end"}
WINDOWS = {"M": "right", "K": "left", "G": "home", "O": "end"}
NAMED = {"\t": "tab"}
ESCAPE_PAUSE = 0.05  # seconds in which the rest of an arrow key follows its Esc


class Keys:
    """A context: inside it, keys come one by one and are not shown. On leaving, by whatever way, all is as before."""

    def __init__(self, stream=None):
        stream = stream or sys.stdin
        self.available = bool(stream and stream.isatty())
        self._fd = stream.fileno() if self.available else None
        self._pending = b""
        self._saved = None

    def __enter__(self):
        if self.available and termios:
            self._saved = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd, termios.TCSANOW)  # Ctrl-C keeps its meaning
            settings = termios.tcgetattr(self._fd)
            for key in (termios.VSUSP, termios.VQUIT):  # Ctrl-Z would stop the program, and Ctrl-\ kill it
                settings[6][key] = b"\0"
            termios.tcsetattr(self._fd, termios.TCSANOW, settings)
        return self

    def __exit__(self, *error):
        if self._saved:
            with suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(self._fd, termios.TCSANOW, self._saved)

    def read(self, timeout):
        """The next key's name, or None after `timeout` seconds without one."""
        if not self.available:
            time.sleep(timeout)
            return None
        if not termios:
            return self._read_windows(timeout)
        if not self._pending and not self._fill(timeout):
            return None
        return self._next()

    def _fill(self, timeout):
        """Read what is there, or comes in time."""
        if not select.select([self._fd], [], [], timeout)[0]:
            return False
        data = os.read(self._fd, 64)
        if not data:  # the terminal is gone
            self.available = False
        self._pending += data
        return bool(data)

    def _next(self):
        """Take one key from what was read."""
        if self._pending.startswith(b"\x1b"):
            return self._escaped()
        key, self._pending = self._pending[:1], self._pending[1:]
        key = key.decode("ascii", "replace")
        return NAMED.get(key, key)

    def _escaped(self):
        """Esc alone, or what begins with it, to its end; of those keys only the ones in SEQUENCES have a name."""
        while not (found := ESCAPED.match(self._pending)):
            if self._pending.startswith(b"\x1b\x1b") or not self._fill(ESCAPE_PAUSE):
                break
        is_alone = self._pending[1:2] in (b"", b"\x1b")  # or before another Esc
        unfinished = b"\x1b" if is_alone else self._pending
        sequence = found[0] if found else unfinished
        self._pending = self._pending[len(sequence) :]
        return "escape" if sequence == b"\x1b" else SEQUENCES.get(sequence)

    def _read_windows(self, timeout):
        deadline = time.monotonic() + timeout
        while not msvcrt.kbhit():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.01)
        key = msvcrt.getwch()
        if key in "\x00\xe0":
            return WINDOWS.get(msvcrt.getwch())
        return "escape" if key == "\x1b" else NAMED.get(key, key)
