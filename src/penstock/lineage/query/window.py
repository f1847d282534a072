"""Which time an answer is about."""

import datetime
from dataclasses import dataclass, replace
from typing import Any, Self
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, or_, select

from penstock.clock import clock
from penstock.lineage.query.sets import among
from penstock.lineage.store import tables

_AHEAD = datetime.timedelta(days=1)


def horizon() -> datetime.datetime:
    """Return the time beyond which a time is a wrong clock's: what has one is never taken for the latest."""
    return clock().now() + _AHEAD


@dataclass(frozen=True)
class Window:
    """From a time to another, both included; without an end it goes on to now."""

    since: datetime.datetime | None
    until: datetime.datetime | None = None
    streams: tuple[UUID, ...] = ()
    """Streaming operations that had begun before and were not over: what they do counts, said within or before."""
    streams_since: datetime.datetime | None = None
    """The hour in which the first of them began."""
    stream_runs: tuple[UUID, ...] = ()
    """The runs that they belong to, which last as long."""

    def with_streams(self, connection: Connection) -> Self:
        """Return the window with the streaming operations that go on from before it, silent as they may be."""
        if self.since is None:
            return self
        of, run = tables.operation.c, tables.run.c
        rows = connection.execute(
            select(of.id, of.created_at, of.run_id)
            .select_from(tables.operation.outerjoin(tables.run, run.id == of.run_id))
            .where(of.type == "STREAMING", of.created_at < self.since)
            .where(or_(of.ended_at.is_(None), of.ended_at >= self.since))
            .where(or_(run.ended_at.is_(None), run.ended_at >= self.since))
        ).all()
        if not rows:
            return self
        begun = min(row.created_at for row in rows)
        return replace(
            self,
            streams=tuple({row.id for row in rows}),
            # Without a UUIDv7, what an operation does is kept under the whole hour of the clock, before it began.
            streams_since=begun.replace(minute=0, second=0, microsecond=0),
            stream_runs=tuple({row.run_id for row in rows}),
        )

    def holds(self, created_at: ColumnElement[Any]) -> list[ColumnElement[bool]]:
        """Return the conditions, by which partitions outside are left alone."""
        found = []
        if self.since is not None:
            found.append(created_at >= self.since)
        if self.until is not None:
            found.append(created_at <= self.until)
        return found

    def holds_of(self, connection: Connection, of: Any) -> list[ColumnElement[bool]]:
        """Return the same for the columns of what operations read and wrote."""
        if self.streams_since is None:
            return self.holds(of.created_at)
        goes_on = or_(of.created_at >= self.since, among(connection, of.operation_id, self.streams))
        return [*replace(self, since=self.streams_since).holds(of.created_at), goes_on]
