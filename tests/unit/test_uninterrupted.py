import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from penstock.uninterrupted import to_the_end


class _TimeIsUp(Exception):
    """What a signal handler of a user's program raises."""


@pytest.fixture
def alarm() -> Iterator[Callable[[int, object], None]]:
    def raise_it(_number: int, _frame: object) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, raise_it)
    yield raise_it
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_what_a_signal_handler_raises_waits_for_the_end_of_the_call() -> None:
    ends: list[bool] = []
    release = threading.Event()

    def call() -> None:
        # The handler raises on the main thread, which waits: only then is the call allowed to end.
        signal.raise_signal(signal.SIGALRM)
        ends.append(release.wait(0.2))

    with pytest.raises(_TimeIsUp):
        to_the_end(call)

    assert [False] == ends


def test_a_call_that_was_begun_is_over_afterwards_whenever_the_signal_comes(
    alarm: Callable[[int, object], None],
) -> None:
    begun: list[int] = []
    ended: list[int] = []

    def call() -> None:
        begun.append(len(begun))
        time.sleep(0.001)  # a call that takes its time, so that signals come before, in and after it
        ended.append(len(ended))

    began = time.monotonic()
    to_the_end(call)
    takes_s = time.monotonic() - began
    for number in range(300):
        with suppress(_TimeIsUp):
            signal.signal(signal.SIGALRM, alarm)
            signal.setitimer(signal.ITIMER_REAL, takes_s * (1 + number % 80) / 60)
            to_the_end(call)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)  # what comes now would be raised outside of this block
        assert begun == ended

    assert 1 < len(begun) <= 301


def test_what_the_call_raises_is_raised() -> None:
    def call() -> None:
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        to_the_end(call)
