"""The partitions of PostgreSQL's history: which there are, and the making of those that rows need.

A time far in the past or in the future, as a wrong clock or a made-up id gives it, goes to the partition for whatever
has no other: nobody can have partitions made without an end. Rows that wait there move when their partition is made.
"""

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from sqlalchemy import Table

from penstock.sinks.postgres_connection import PostgresConnection

_BOUNDS = re.compile(r"FROM \('([^']+)'\) TO \('([^']+)'\)")
_FIND = """
SELECT child.relname, pg_get_expr(child.relpartbound, child.oid)
FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = to_regclass(%s) ORDER BY child.relname"""
_BACK = {"day": 400, "month": 120, "year": 30}
_AHEAD = {"day": 32, "month": 2, "year": 1}
_DAYS = {"day": 1, "month": 31, "year": 366}


@dataclass(frozen=True, order=True)
class Partition:
    """Rows from a time up to, not including, another."""

    begin: datetime.datetime
    end: datetime.datetime
    name: str


def partition_of(table: str, unit: str, date: datetime.date) -> Partition:
    """Return the partition that a day, in UTC, belongs to."""
    begin = datetime.datetime(date.year, date.month, date.day, tzinfo=datetime.UTC)
    if unit == "day":
        return Partition(begin, begin + datetime.timedelta(days=1), f"{table}_{begin:%Y_%m_%d}")
    begin = begin.replace(day=1)
    if unit == "month":
        return Partition(begin, _next_month(begin), f"{table}_{begin:%Y_%m}")
    begin = begin.replace(month=1)
    return Partition(begin, begin.replace(year=begin.year + 1), f"{table}_{begin:%Y}")


def _next_month(begin: datetime.datetime) -> datetime.datetime:
    return (begin + datetime.timedelta(days=32)).replace(day=1)


def found(connection: PostgresConnection, table: str) -> list[Partition]:
    """Return the partitions of a table that have bounds, by what PostgreSQL knows of them, never by their names."""
    listed = connection.execute(_FIND, [sql.Identifier(table).as_string(connection)]).fetchall()
    return sorted(
        Partition(_in_utc(match[1]), _in_utc(match[2]), name)
        for name, bounds in listed
        if (match := _BOUNDS.search(bounds)) is not None
    )


def _in_utc(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)


class Partitions:
    """Makes partitions when rows need them, each in a transaction of its own, which is short."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._known: set[str] = set()

    def make(
        self, connection: PostgresConnection, table: Table, moments: Iterable[datetime.datetime], now: datetime.datetime
    ) -> None:
        """Make what these times need, if they are near enough to now."""
        days = datetime.timedelta(days=_DAYS[self._unit])
        first, last = now - _BACK[self._unit] * days, now + _AHEAD[self._unit] * days
        dates = {each.date() for each in moments if first <= each <= last}  # some few, of tens of thousands of moments
        needed = {partition_of(table.name, self._unit, each) for each in dates}
        missing = sorted(each for each in needed if each.name not in self._known)
        if not missing:
            return
        there = {each.name for each in found(connection, table.name)}
        connection.rollback()
        for each in missing:
            if each.name not in there:
                _make(connection, table.name, each)
        self._known |= {each.name for each in needed}


def _make(connection: PostgresConnection, table: str, partition: Partition) -> None:
    """Make one, with the rows that waited for it elsewhere."""
    names: dict[str, Any] = {
        "table": sql.Identifier(table),
        "default": sql.Identifier(f"{table}_default"),
        "name": sql.Identifier(partition.name),
        "begin": sql.Literal(partition.begin),
        "end": sql.Literal(partition.end),
    }

    def run(text: str) -> None:
        connection.execute(sql.SQL(text).format(**names))

    run("SET LOCAL lock_timeout = '10s'")
    run("SELECT pg_advisory_xact_lock(hashtext('penstock_lineage'), hashtext(current_schema()))")
    if partition in found(connection, table):
        connection.rollback()
        return
    run("CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
    run(
        "WITH moved AS (DELETE FROM {default} WHERE created_at >= {begin} AND created_at < {end} RETURNING *)"
        " INSERT INTO {name} SELECT * FROM moved"
    )
    run("ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})")
    connection.commit()
