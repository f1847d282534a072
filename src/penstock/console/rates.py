"""How much topics hold and how fast they grow: one look at all of them every few seconds, for everybody who asks."""

from collections import deque
from collections.abc import Callable
from itertools import pairwise

from pydantic import BaseModel, Field

from penstock.clock import clock
from penstock.console.looks import Looks
from penstock.kafka.admin import Admin
from penstock.kafka.positions import bounds

_KEPT = 180
_OF_LATE = 4


class Point(BaseModel, frozen=True):
    """A rate at a moment."""

    at: float = Field(description="When, in seconds since 1970.")
    records_per_s: float = Field(description="Records written a second, up to then.")


class Rates(Looks):
    """The last quarter of an hour of every topic. Looks begin with the first question, and end with the console."""

    def __init__(self, admin: Callable[[], Admin]) -> None:
        super().__init__()
        self._admin = admin
        self._looks: deque[tuple[float, dict[str, tuple[int, int]]]] = deque(maxlen=_KEPT)
        """When, and of each topic the sums of its first and of its next offsets."""

    def records(self, topic: str) -> int | None:
        """Return how many offsets a topic holds; None if it was not looked at yet."""
        looks = self._last(1)
        found = looks[-1][1].get(topic) if looks else None
        return None if found is None else found[1] - found[0]

    def per_s(self, topic: str | None = None) -> float | None:
        """Return the records that were written a second of late, to one topic or to all; None before two looks."""
        points = self._points(topic, _OF_LATE + 1)
        return sum(rate for _, rate in points) / len(points) if points else None

    def history(self, topic: str | None = None) -> list[tuple[float, float]]:
        """Return moments in seconds since 1970, and the records that were written a second up to each."""
        return self._points(topic, _KEPT)

    def _points(self, topic: str | None, count: int) -> list[tuple[float, float]]:
        looks = self._last(count)
        points = []
        for (before, old), (now, new) in pairwise(looks):
            names = [topic] if topic is not None else list(new)
            # A topic that was deleted and recreated begins again.
            grown = [max(0, new[name][1] - old[name][1]) for name in names if name in new and name in old]
            if grown or topic is None:
                points.append((now, sum(grown) / max(now - before, 0.001)))
        return points

    def look(self) -> None:
        """Look at all topics once."""
        admin = self._admin()
        found = admin.metadata("looking at all topics").topics
        partitions = [
            (name, part.id)
            for name, topic in found.items()
            if not name.startswith("__")
            for part in topic.partitions.values()
            if part.leader >= 0
        ]
        sums: dict[str, tuple[int, int]] = {}
        for (name, _), (start, end) in bounds(admin, partitions).items():
            starts, ends = sums.get(name, (0, 0))
            sums[name] = (starts + start, ends + end)
        with self._lock:
            self._looks.append((clock().now().timestamp(), sums))

    def forget(self) -> None:
        """Drop all looks: no rate is made up across an outage."""
        self._looks.clear()

    def _last(self, count: int) -> list[tuple[float, dict[str, tuple[int, int]]]]:
        with self._lock:
            return list(self._looks)[-count:]
