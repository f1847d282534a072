"""Waiting on state, never on time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE_S = 0.02


def eventually(look: Callable[[], T], accept: Callable[[T], bool] = bool, timeout_s: float = 120.0) -> T:
    """Look until what is seen is accepted, and return that very look: the next one may show something else."""
    deadline = time.monotonic() + timeout_s
    while not accept(seen := look()):
        assert time.monotonic() < deadline, f"the awaited state did not come; seen last: {seen!r}"
        time.sleep(_PAUSE_S)
    return seen


def until(condition: Callable[[], bool], timeout_s: float = 120.0) -> None:
    """Wait until the condition holds; fail if it does not in time."""
    eventually(condition, timeout_s=timeout_s)
