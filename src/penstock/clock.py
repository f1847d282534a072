"""The time, in one place, so that a test can set it and let it pass at once."""

import datetime
import time


class Clock:
    """The clock of the machine."""

    def now(self) -> datetime.datetime:
        """Return the time of day, in UTC."""
        return datetime.datetime.now(datetime.UTC)

    def monotonic(self) -> float:
        """Return seconds since some moment; they never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let this many seconds pass."""
        time.sleep(seconds)


_clocks = [Clock()]


def clock() -> Clock:
    """Return the clock in force."""
    return _clocks[-1]


def put(other: Clock) -> None:
    """Put another clock in force."""
    _clocks.append(other)


def take_back() -> None:
    """Put the clock before it in force again."""
    _clocks.pop()
