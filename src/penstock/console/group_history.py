"""How far behind groups were recently, and who joined and left: polled every few seconds, once for all viewers."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import BaseModel, Field

from penstock.clock import clock
from penstock.console.looks import Looks
from penstock.errors import NotFound
from penstock.kafka import groups
from penstock.kafka.admin import Admin
from penstock.kafka.groups import GroupDetail
from penstock.wording import plural

_KEPT = 180
_MOST_CHANGES = 50
_MOST_WATCHED = 50
_WATCHED_S = 3600.0


class LagPoint(BaseModel, frozen=True):
    """A group's lag at a moment."""

    at: float = Field(description="When, in seconds since 1970.")
    lag: int = Field(description="Records between the group and the ends.")
    by_topic: dict[str, int] = Field(description="The same for each topic.")


class GroupChange(BaseModel, frozen=True):
    """A rebalance, or another state, as it was seen."""

    at: float = Field(description="When it was seen, in seconds since 1970.")
    what: str = Field(description="What has changed.")


@dataclass
class _Watched:
    asked_at: float
    points: deque[LagPoint] = field(default_factory=lambda: deque(maxlen=_KEPT))
    changes: deque[GroupChange] = field(default_factory=lambda: deque(maxlen=_MOST_CHANGES))
    last: GroupDetail | None = None


class GroupHistory(Looks):
    """The last quarter of an hour of the groups that somebody has asked for within the hour, fifty at most."""

    def __init__(self, admin: Callable[[], Admin]) -> None:
        super().__init__()
        self._admin = admin
        self._watched: dict[str, _Watched] = {}

    def of(self, group: str) -> tuple[list[LagPoint], list[GroupChange]]:
        """Return what was seen of a group, the oldest first; from now on it is looked at."""
        with self._lock:
            watched = self._watched.pop(group, None) or _Watched(0.0)
            watched.asked_at = time.monotonic()
            self._watched[group] = watched  # the last: those that nobody asks for any more go first
            for old in list(self._watched)[:-_MOST_WATCHED]:
                del self._watched[old]
            return list(watched.points), list(watched.changes)

    def lags_in(self, topic: str) -> list[tuple[float, int]]:
        """Return moments, and the lag in one topic of all watched groups together, the oldest first."""
        with self._lock:
            found: dict[float, int] = {}
            for each in self._watched.values():
                for point in each.points:
                    if topic in point.by_topic:
                        found[point.at] = found.get(point.at, 0) + point.by_topic[topic]
        return sorted(found.items())

    def look(self) -> None:
        """Look once at every group that is watched."""
        with self._lock:
            oldest = time.monotonic() - _WATCHED_S
            self._watched = {name: each for name, each in self._watched.items() if each.asked_at >= oldest}
            names = list(self._watched)
        admin, at = self._admin(), clock().now().timestamp()
        for name in names:
            try:
                self._see(name, groups.describe(admin, name), at)
            except NotFound:
                with self._lock:
                    self._watched.pop(name, None)

    def _see(self, name: str, found: GroupDetail, at: float) -> None:
        by_topic: dict[str, int] = {}
        for each in found.partitions:
            by_topic[each.topic] = by_topic.get(each.topic, 0) + each.lag
        with self._lock:
            watched = self._watched.get(name)
            if watched is None:
                return
            watched.points.append(LagPoint(at=at, lag=found.lag, by_topic=by_topic))
            what = _what_changed(watched.last, found)
            if what:
                watched.changes.append(GroupChange(at=at, what=what))
            watched.last = found

    def forget(self) -> None:
        """Drop the points; who joined and left is kept."""
        for each in self._watched.values():
            each.points.clear()


def _what_changed(before: GroupDetail | None, now: GroupDetail) -> str:
    """Say who joined and left, or else whether partitions have moved; empty if nothing has changed."""
    if before is None:
        return ""
    old, new = ({each.member_id: each for each in detail.members} for detail in (before, now))
    came = sorted(each.client_id for member, each in new.items() if member not in old)
    went = sorted(each.client_id for member, each in old.items() if member not in new)
    moved = sum(
        len(set(each.partitions) - set(old[member].partitions)) for member, each in new.items() if member in old
    )
    parts = [f"{', '.join(came)} joined" if came else "", f"{', '.join(went)} left" if went else ""]
    parts += [f"{plural(moved, 'partition')} moved" if moved and not came and not went else ""]
    parts += [f"{before.state} → {now.state}".replace("_", " ") if before.state != now.state else ""]
    return "; ".join(each for each in parts if each)
