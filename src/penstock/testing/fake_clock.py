"""A clock that stands still until it is set."""

import datetime
from typing import Self

from penstock import clock as clocks
from penstock.clock import Clock

_EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class FakeClock(Clock):
    """Use it as a context manager.

    Pauses between attempts, and rate limits, pass at once and are recorded. It applies to this process, which runs all
    Python, also that of a pipeline with SQL; SQL itself uses the machine's clock.
    """

    def __init__(self, start: datetime.datetime = _EPOCH) -> None:
        self._start = start
        self._passed_s = 0.0
        self.slept_s: list[float] = []

    def now(self) -> datetime.datetime:
        """Return the time that it shows."""
        return self._start + datetime.timedelta(seconds=self._passed_s)

    def monotonic(self) -> float:
        """Return the seconds that were let pass."""
        return self._passed_s

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.slept_s.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._passed_s += seconds

    def __enter__(self) -> Self:
        clocks.put(self)
        return self

    def __exit__(self, *_: object) -> None:
        clocks.take_back()
