"""A clock that stands still until it is set."""

import datetime
from typing import Self

from penstock import clock as clocks
from penstock.clock import Clock

_EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class FakeClock(Clock):
    """Use it as a context. Pauses between attempts, and limits of rate, pass at once and are on record.

    In force for this process, in which all Python runs, also that of a pipeline with SQL; SQL itself has the machine's
    clock.
    """

    def __init__(self, start: datetime.datetime = _EPOCH) -> None:
        self._start = start
        self._passed_s = 0.0
        self.slept_s: list[float] = []

    def now(self) -> datetime.datetime:
        """Return the time it stands at."""
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
