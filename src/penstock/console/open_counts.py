"""How many dead letters of each pipeline are open: looked at beside requests, for many of them take long to read."""

import time
from collections import Counter

from penstock.console.letters import Letters
from penstock.console.looks import Looks
from penstock.delivery.selection import Filter

_REST = 20
"""How much longer the pause is than a count: where millions are open and more come, it reads for a twentieth of the
time."""


class OpenCounts(Looks):
    """The counts as they were at the last look."""

    def __init__(self, letters: Letters) -> None:
        super().__init__()
        self._letters = letters
        self._counts: dict[str, int] = {}
        self._rests_until = 0.0

    def of_pipelines(self) -> dict[str, int]:
        """Return how many are open, by pipeline; nothing before the first look."""
        with self._lock:
            return dict(self._counts)

    def look(self) -> None:
        """Count once, unless it rests; what did not change since is not read again."""
        began = time.monotonic()
        if began < self._rests_until:
            return
        counts: Counter[str] = Counter()
        for each in self._letters.look(Filter()).reasons:
            counts[each.pipeline] += each.letters
        with self._lock:
            self._counts = dict(counts)
        ended = time.monotonic()
        self._rests_until = ended + _REST * (ended - began)

    def forget(self) -> None:
        """Drop the counts."""
        self._counts = {}
