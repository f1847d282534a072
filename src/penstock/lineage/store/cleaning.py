"""Removes history that is older than wanted: exactly that, and nothing else.

What a row tells of was over before the border: a run or operation began and ended before it, an hour of reading or
writing ended before it. What still runs stays, however long ago it began; of a run or operation that never said so
itself, what is younger below it says so. An operation that never said its end is over with its run. What a stream that
goes on was last seen to read and write stays with it: every answer shows that. Where a wrong clock has put a time years
ahead, the end alone counts. The catalogue stays. In PostgreSQL a partition of which nothing stays is dropped whole; of
one that reaches over the border, or holds what stays, rows are deleted.
"""

import datetime
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import errors, sql

from penstock.clock import clock
from penstock.errors import SinkUnavailable
from penstock.lineage.keys import NO_RUN
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import explained, open_engine
from penstock.lineage.store.partitions import found
from penstock.lineage.store.sessions import PostgresSession, Session, open_session

_ORDER = ("run", "operation", "input", "output", "column_lineage")
"""A run that never said so itself is judged by its operations, so it comes before them; that one is gone ends them."""
_HOUR = datetime.timedelta(hours=1)
_FAR = datetime.timedelta(days=3 * 366)
"""No partition with bounds reaches that far ahead: such times are those of wrong clocks, and say nothing."""
_YOUNGER = "(each.status = 0 OR each.created_at >= :border OR each.ended_at >= :border)"
_USED = """EXISTS (SELECT 1 FROM input AS each WHERE each.{column} = old.id AND each.created_at > :hour)
        OR EXISTS (SELECT 1 FROM output AS each WHERE each.{column} = old.id AND each.created_at > :hour)"""
_SILENT = "status = -1 AND ended_at IS NULL"
_RUN_IS_OVER = """NOT EXISTS (SELECT 1 FROM run AS whole
            WHERE whole.id = old.run_id AND (whole.ended_at IS NULL OR whole.ended_at >= :border))"""
# ruff: noqa: S608 - built of the names of our own tables
_OVER = {
    "run": f"""(created_at < :border AND (ended_at < :border OR ({_SILENT}
        AND NOT EXISTS (SELECT 1 FROM run AS each WHERE each.parent_run_id = old.id AND {_YOUNGER})
        AND NOT EXISTS (SELECT 1 FROM operation AS each WHERE each.run_id = old.id AND {_YOUNGER})
        AND NOT ({_USED.format(column="run_id")}))))
        OR (created_at >= :far AND ended_at < :border)""",
    "operation": f"""(created_at < :border AND (ended_at < :border
        OR (ended_at IS NULL AND {_RUN_IS_OVER})
        OR ({_SILENT} AND NOT ({_USED.format(column="operation_id")}))))
        OR (created_at >= :far AND ended_at < :border)""",
}
_HOUR_IS_OVER = """(created_at <= :hour AND NOT (operation_id IN (SELECT stream.id FROM operation AS stream
        WHERE stream.type = 'STREAMING' AND NOT coalesce({stream_is_over}, false))
        AND NOT EXISTS (SELECT 1 FROM {table} AS later WHERE later.operation_id = old.operation_id
            AND {of_the_same} AND later.created_at > old.created_at)))
    OR (created_at >= :far AND run_id <> '{no_run}' AND NOT EXISTS (SELECT 1 FROM operation AS its
        WHERE its.id = old.operation_id AND NOT coalesce({its_is_over}, false)))"""
_SAME = {
    **dict.fromkeys(("input", "output"), ("dataset_id",)),
    "column_lineage": ("source_dataset_id", "target_dataset_id"),
}
"""By which columns a row of the same operation tells of the same data."""
_FACETS = """
FROM run_facet AS facet WHERE seen_at < :border
    AND NOT EXISTS (SELECT 1 FROM run AS old WHERE old.id = facet.run_id{and_run})
    AND NOT EXISTS (SELECT 1 FROM operation AS old WHERE old.id = facet.run_id{and_operation})"""
_TIME = re.compile(":(border|hour|far)")


@dataclass(frozen=True)
class Cleaned:
    """What was removed, or would be."""

    table: str
    rows: int
    partitions: tuple[str, ...]
    """Those that were dropped whole; their rows are counted, too."""


def clean(address: StoreAddress, border: datetime.datetime, *, dry_run: bool) -> list[Cleaned]:
    """Remove what was over before the border, each table in a transaction of its own; or only count it."""
    open_engine(address).dispose()
    with explained(address), _opened(address) as session:
        done = [_clean(session, each, border, dry_run=dry_run) for each in _ORDER]
        done.append(_clean_facets(session, border, dry_run=dry_run))
        return done


@contextmanager
def _opened(address: StoreAddress) -> Iterator[Session]:
    session = open_session(address)
    try:
        yield session
    except errors.LockNotAvailable:
        safe = "What was removed stays removed, the rest is there"
        raise SinkUnavailable(f"the lineage store {address} is in use", safe=safe) from None
    finally:
        session.rollback()
        session.close()


def _bound(session: Session, text: str, border: datetime.datetime) -> tuple[str, list[object]]:
    """Return the text with `?` for times, and those times."""
    times = {"border": border, "hour": border - _HOUR, "far": clock().now() + _FAR}
    return _TIME.sub("?", text), [session.time(times[each]) for each in _TIME.findall(text)]


def _condition(table: str) -> str:
    """Return which rows go, in SQL; in a dry run, operations that would go are still there."""
    if table in _OVER:
        return _OVER[table]
    over = _OVER["operation"]
    return _HOUR_IS_OVER.format(
        table=table,
        no_run=NO_RUN.hex,  # what a job was only said to do has no operation that could be over
        of_the_same=" AND ".join(f"later.{each} = old.{each}" for each in _SAME[table]),
        stream_is_over=over.replace("old.", "stream."),
        its_is_over=over.replace("old.", "its."),
    )


def _clean(session: Session, table: str, border: datetime.datetime, *, dry_run: bool) -> Cleaned:
    where, values = _bound(session, _condition(table), border)
    session.begin()
    dropped: list[str] = []
    rows = 0
    if isinstance(session, PostgresSession):
        for partition in found(session.connection, table):
            if partition.end > border:
                continue
            ((every, going),) = session.run(
                f'SELECT count(*), count(*) FILTER (WHERE {where}) FROM "{partition.name}" AS old', values
            )
            if every == going:
                dropped.append(partition.name)
                rows += going
                if not dry_run:
                    session.connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(partition.name)))
    ((left,),) = session.run(f'SELECT count(*) FROM "{table}" AS old WHERE {where}', values)
    if dry_run:
        session.rollback()
        return Cleaned(table, left, tuple(dropped))  # nothing is gone yet, so those of the partitions are among them
    if left:
        session.run(f'DELETE FROM "{table}" AS old WHERE {where}', values)
    session.commit()
    return Cleaned(table, rows + left, tuple(dropped))


def _clean_facets(session: Session, border: datetime.datetime, *, dry_run: bool) -> Cleaned:
    """Remove the facets of runs and operations that are gone, or count those of which that will be true."""
    stays = {f"and_{table}": f" AND NOT coalesce({where}, false)" if dry_run else "" for table, where in _OVER.items()}
    going, values = _bound(session, _FACETS.format(**stays), border)
    session.begin()
    ((rows,),) = session.run(f"SELECT count(*) {going}", values)
    if rows and not dry_run:
        session.run(f"DELETE {going}", values)
    session.commit()
    return Cleaned("run_facet", rows, ())
