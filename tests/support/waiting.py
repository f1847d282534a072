"""Waiting on state, never on time."""

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait until the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + timeout_s
    pause = 0.02
    while not condition():
        assert time.monotonic() < deadline, "the awaited state did not come"
        time.sleep(pause)
