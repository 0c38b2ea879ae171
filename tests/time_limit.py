"""A limit on how long a learner's code may run, so that an endless loop ends in a message."""

import signal
import sys
import threading
from contextlib import contextmanager

from minipaged.learner import frames_in, ignore_calls, raise_through

LIMIT_SECONDS = 5  # the checks take far less than a second each on the reference
AGAIN_SECONDS = 0.1  # the alarm rings again, because it may find a check at work, which is not stopped


class TooSlow(BaseException):
    """Not an Exception: a learner's `except Exception` must not catch it."""


@contextmanager
def within(seconds):
    """Raise TooSlow in the learner's code, naming the line, if what is inside takes longer.

    On Windows, which has no SIGALRM, there is no limit.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        frames = frames_in(frame)
        is_debugged = sys.gettrace() not in (None, tracing, ignore_calls)
        if not frames or is_debugged:  # without frames a check runs: soon it will call the learner's code, or be done
            return
        code = frames[0].f_code
        where = f"{code.co_filename.rpartition('/')[2]}, line {frames[0].f_lineno}, in {code.co_name}"
        raise_through(TooSlow(f"it didn't end within {seconds} s: an endless loop? It was at {where}"), frames)

    tracing, before = sys.gettrace(), signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.settrace(tracing)
