import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from penstock.kafka.uninterrupted import to_the_end


class _TimeIsUp(Exception):
    """What a signal handler of a user's program raises."""


@pytest.fixture
def alarm() -> Iterator[None]:
    def raise_it(_number: int, _frame: object) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, raise_it)
    yield
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


@pytest.mark.usefixtures("alarm")
def test_a_call_that_was_begun_is_over_afterwards_whenever_the_signal_comes() -> None:
    begun: list[int] = []
    ended: list[int] = []

    def call() -> None:
        begun.append(len(begun))
        time.sleep(0.001)  # a call that takes its time, so that signals come before, in and after it
        ended.append(len(ended))

    for number in range(300):
        with suppress(_TimeIsUp):
            signal.setitimer(signal.ITIMER_REAL, 0.00002 * (1 + number % 80))
            to_the_end(call)
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert begun == ended

    assert 100 < len(begun) <= 300


def test_what_the_call_raises_is_raised() -> None:
    def call() -> None:
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        to_the_end(call)
