"""An end to what could go on for years, such as comparing a value with a pattern that somebody else has written.

By a signal of the operating system, because nothing else interrupts a regular expression. Processor time counts: on a
machine with other work, good values take longer, too. Nobody else uses this timer; time-outs of tests use another one.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_S = 0.5
"""Once more, in case that an exception is swallowed where nobody expects one, as in a finalizer."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in a block that takes longer; in other threads than the main one there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_open = True

    def give_up(_number: int, _frame: FrameType | None) -> None:
        if is_open:
            raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_S)
        try:
            yield
        finally:
            is_open = False
    finally:
        is_open = False  # the signal may come just before the line above
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
