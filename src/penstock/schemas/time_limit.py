"""An end to what could go on for years, such as comparing a value with a pattern that somebody else has written.

By a signal of the operating system, because nothing else interrupts a regular expression. Processor time counts: on a
machine with other work, good values take longer, too. Nobody else uses this timer; time-outs of tests use another one.
"""

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_AGAIN_S = 0.05
"""Once more, where the first signal came at a time when an exception would be lost."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in a block that takes longer; in other threads than the main one there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_open, is_collecting = True, False

    def begins(phase: str, _info: dict[str, Any]) -> None:
        nonlocal is_collecting
        is_collecting = is_collecting or phase == "start"

    def ends(phase: str, _info: dict[str, Any]) -> None:
        nonlocal is_collecting
        is_collecting = is_collecting and phase != "stop"

    def give_up(_number: int, frame: FrameType | None) -> None:
        # What is raised while the garbage collector calls somebody is printed and forgotten: the next signal does it.
        in_ours = frame is not None and frame.f_code in (begins.__code__, ends.__code__)
        if is_open and not is_collecting and not in_ours:
            raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, give_up)
    gc.callbacks.insert(0, begins)
    gc.callbacks.append(ends)
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
        gc.callbacks.remove(begins)
        gc.callbacks.remove(ends)
