"""Which time an answer is about."""

import datetime
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement

from penstock.clock import clock

_AHEAD = datetime.timedelta(days=1)


def horizon() -> datetime.datetime:
    """Return the time beyond which a time is a wrong clock's: what has one is never taken for the latest."""
    return clock().now() + _AHEAD


@dataclass(frozen=True)
class Window:
    """From a time to another, both included; without an end it goes on to now."""

    since: datetime.datetime | None
    until: datetime.datetime | None = None

    def holds(self, created_at: ColumnElement[Any]) -> list[ColumnElement[bool]]:
        """Return the conditions, by which partitions outside are left alone."""
        found = []
        if self.since is not None:
            found.append(created_at >= self.since)
        if self.until is not None:
            found.append(created_at <= self.until)
        return found
