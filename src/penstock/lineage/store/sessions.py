"""A writer's session with a database: temporary tables to load, statements, in transactions that exclude each other.

One writer at a time: each transaction begins by taking the store's lock, so that no two can block each other, whatever
they write, and what is read in one stays true until it ends.
"""

import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import numpy as np
import psycopg
from psycopg import sql
from sqlalchemy import Table

from penstock.lineage.keys import time_of
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.columns import from_us, to_us
from penstock.lineage.store.database import connect_postgres, connect_sqlite
from penstock.lineage.store.row_columns import Array, TimedRows
from penstock.lineage.store.statements import Dialect, make_staged, quoted, staged
from penstock.sinks.postgres_server import Server

Rows = Iterable[Sequence[Any]]
History = tuple[Table, list[tuple[Any, ...]]]
"""A table of the history and whole rows for it, which begin with their time and a run's or operation's id."""
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('penstock_lineage'), hashtext(current_schema()))"
_TYPES = "SELECT attname, atttypid::int FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0"
_JSONB = 3802
_THERE = """
SELECT DISTINCT encode(uuid_send("{column}"), 'hex') FROM "{table}"
WHERE "{column}" = ANY(?::uuid[]) AND created_at BETWEEN ? AND ?"""
_LATEST = 'SELECT max(created_at) FROM "{table}" WHERE created_at BETWEEN ? AND ?'
_CHUNK = 500


class Session(Protocol):
    """What the writer needs of a database."""

    dialect: Dialect

    def time(self, value: datetime.datetime | None, /) -> Any:
        """Return a time in the form that the database keeps."""

    def uuid(self, value: UUID | None, /) -> Any:
        """Return a UUID in the form that the database keeps."""

    @property
    def is_open(self) -> bool:
        """Return whether it can still be used."""

    def begin(self) -> None:
        """Begin a transaction; other writers wait until it ends."""

    def load(self, table: Table, columns: Sequence[str], rows: Rows) -> None:
        """Put rows into the temporary table of this one; what was there before is gone."""

    def insert(self, parts: Iterable[History]) -> list[History]:
        """Put rows into their tables, unless that may have one of the same key; return those, to be merged."""

    def insert_columns(self, parts: Iterable[tuple[Table, TimedRows]]) -> list[History]:
        """As `insert`, for rows whose time is that of their id, and that are in a form to be copied."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement with `?` for values; return its rows, if it gives any."""

    def created(self, table: Table, ids: Sequence[UUID]) -> dict[UUID, datetime.datetime]:
        """Return when the rows with these ids were created, of those that there are."""

    def commit(self) -> None:
        """Make all of it so."""

    def rollback(self) -> None:
        """Forget all of it; harmless where there is nothing to forget."""

    def close(self) -> None:
        """Let go of the connection."""


class PostgresSession:
    """A session with PostgreSQL; rows are loaded by COPY, as bytes: as text each takes five times as long."""

    dialect: Dialect = "postgresql"

    def __init__(self, server: Server, schema: str) -> None:
        self.connection = connect_postgres(server, schema)
        self._made: set[str] = set()
        """The temporary tables that there are, as of the last commit."""
        self._types: dict[str, dict[str, int]] = {}
        """By table and column: the numbers that PostgreSQL has for their types."""
        self._loaded: set[str] = set()
        """Temporary tables that have rows: all are empty when a transaction begins."""

    @staticmethod
    def time(value: datetime.datetime | None) -> Any:
        """Return a time as it is."""
        return value

    @staticmethod
    def uuid(value: UUID | None) -> Any:
        """Return a UUID as it is."""
        return value

    @property
    def is_open(self) -> bool:
        """Return whether the connection is still open."""
        return not self.connection.closed

    def begin(self) -> None:
        """Begin; a lock that somebody else holds for long is an outage."""
        self.connection.rollback()
        self._loaded.clear()
        self.connection.execute("SET LOCAL lock_timeout = '60s'")
        self.connection.execute(_LOCK)

    def load(self, table: Table, columns: Sequence[str], rows: Rows) -> None:
        """Copy rows; those of the transaction before went with it."""
        name = staged(table)
        if name in self._loaded:
            self.connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(name)))
        elif name not in self._made:
            self.connection.execute(make_staged(table, self.dialect))
        self._loaded.add(name)
        with self._copy(name, table, columns) as copy:
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def _copy(self, into: str, table: Table, columns: Sequence[str]) -> Iterator[psycopg.Copy]:
        """Copy rows of a table into it, or into one that has the same columns."""
        if table.name not in self._types:
            self._types[table.name] = dict(self.run(_TYPES, [f'"{table.name}"']))
        types = [self._types[table.name][each] for each in columns]
        as_text = _JSONB in types  # which is at hand as text; psycopg would make a JSON string of that
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(
            sql.Identifier(into),
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.SQL("text" if as_text else "binary"),
        )
        with self.connection.cursor().copy(statement) as copy:
            if not as_text:
                copy.set_types(types)
            yield copy

    def insert(self, parts: Iterable[History]) -> list[History]:
        """Copy what is new straight into its table, which takes half the time of merging it.

        The rows of a table are made while the server is still at work on those of the table before.
        """
        left: list[History] = []
        with ExitStack() as busy:
            for table, rows in parts:
                busy.close()
                known: list[tuple[Any, ...]] = []
                fresh: list[tuple[Any, ...]] = []
                for row in rows:
                    # Of one that runs for months there may be a row for each hour: nobody looks through those.
                    (fresh if time_of(row[1]) == row[0] else known).append(row)
                there = self._there(table, fresh)
                if there:
                    known += [row for row in fresh if row[1].hex in there]
                    fresh = [row for row in fresh if row[1].hex not in there]
                if known:
                    left.append((table, known))
                copy = busy.enter_context(self._copy(table.name, table, table.columns.keys()))
                for row in sorted(fresh, key=itemgetter(0)):
                    copy.write_row(row)
        return left

    def _there(self, table: Table, rows: Iterable[tuple[Any, ...]]) -> set[str]:
        """Return the ids of rows that the table has, as digits; only the partitions of their months are asked."""
        months: defaultdict[tuple[int, int], list[tuple[Any, ...]]] = defaultdict(list)
        for row in rows:
            months[row[0].year, row[0].month].append(row)
        found: set[str] = set()
        for those in months.values():
            moments = [row[0] for row in those]
            latest = self._latest(table, min(moments), max(moments))
            if latest is not None:
                ids = ",".join([row[1].hex for row in those if row[0] <= latest])
                found |= self._found(table, f"{{{ids}}}", min(moments), latest)
        return found

    def _latest(self, table: Table, first: datetime.datetime, last: datetime.datetime) -> datetime.datetime | None:
        """Return the time of the latest row between two; None if there is none.

        Most of a batch is later than all that the table has: nobody has to look for that, id by id.
        """
        ((found,),) = self.run(_LATEST.format(table=table.name), [first, last])
        return None if found is None else found.astimezone(datetime.UTC)

    def _found(self, table: Table, ids: str, first: datetime.datetime, last: datetime.datetime) -> set[str]:
        find = _THERE.format(column=table.columns.keys()[1], table=table.name)
        return {id_ for (id_,) in self.run(find, [ids, first, last])}

    def insert_columns(self, parts: Iterable[tuple[Table, TimedRows]]) -> list[History]:
        """Copy what is new, month by month, as it is."""
        left: list[History] = []
        for table, columns in parts:
            for month in columns.by_month():
                is_known = self._are_there(table, month)
                if is_known.any():
                    left.append((table, month.take(is_known).rows()))
                with self._copy(table.name, table, table.columns.keys()) as copy:
                    copy.write(month.take(~is_known).as_copy())
        return left

    def _are_there(self, table: Table, rows: TimedRows) -> Array:
        """Return of which rows the table has the id, as a mask."""
        first, last = rows.span()
        latest = self._latest(table, first, last)
        if latest is None:
            return np.zeros(len(rows), np.bool_)
        asked = rows.take(rows.created_us <= to_us(latest))
        there = {bytes.fromhex(each) for each in self._found(table, asked.listed_ids(), first, latest)}
        return np.array([each in there for each in rows.ids.tolist()], np.bool_)

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement."""
        cursor = self.connection.execute(sql.SQL(statement.replace("?", "%s")), values or None)
        return cursor.fetchall() if cursor.description else []

    def created(self, table: Table, ids: Sequence[UUID]) -> dict[UUID, datetime.datetime]:
        """Look in the index of every partition."""
        return dict(self.run(f'SELECT id, created_at FROM "{table.name}" WHERE id = ANY(?)', [list(ids)]))  # noqa: S608 - our own tables

    def commit(self) -> None:
        """Commit."""
        self.connection.commit()
        self._made |= self._loaded

    def rollback(self) -> None:
        """Roll back; a connection that is cut is rolled back by the server."""
        with suppress(psycopg.Error):
            if not self.connection.closed:
                self.connection.rollback()
                self._loaded.clear()  # temporary tables that were made in the transaction are gone with it

    def close(self) -> None:
        """Close the connection."""
        with suppress(psycopg.Error):
            self.connection.is_closing()
            self.connection.close()


class SqliteSession:
    """A session with an SQLite file."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self.connection = connect_sqlite(path)
        self.connection.execute("PRAGMA temp_store = MEMORY")
        self._path = path
        self._file = _identity(path)

    @property
    def is_open(self) -> bool:
        """Return whether the file is still the one that was opened: rows in one that was removed would be lost."""
        return self._file is not None and self._file == _identity(self._path)

    @staticmethod
    def time(value: datetime.datetime | None) -> Any:
        """Return microseconds since 1970."""
        return None if value is None else to_us(value)

    @staticmethod
    def uuid(value: UUID | None) -> Any:
        """Return 32 digits."""
        return None if value is None else value.hex

    def begin(self) -> None:
        """Begin as the one that writes."""
        self.rollback()
        self.connection.execute("BEGIN IMMEDIATE")

    def load(self, table: Table, columns: Sequence[str], rows: Rows) -> None:
        """Insert rows."""
        self.connection.execute(make_staged(table, self.dialect))
        self.connection.execute(f"DELETE FROM {staged(table)}")  # noqa: S608 - our own tables
        insert = f"INSERT INTO {staged(table)} ({quoted(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
        self.connection.executemany(insert, rows)

    def insert(self, parts: Iterable[History]) -> list[History]:
        """Leave all to be merged: a file is asked for a row in next to no time."""
        return list(parts)

    def insert_columns(self, parts: Iterable[tuple[Table, TimedRows]]) -> list[History]:
        """Leave all to be merged."""
        return [(table, list(map(self._in_own_form, columns.rows()))) for table, columns in parts]

    def _in_own_form(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self._own_form, row))

    def _own_form(self, value: Any) -> Any:
        if isinstance(value, UUID):
            return self.uuid(value)
        return self.time(value) if isinstance(value, datetime.datetime) else value

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement."""
        return self.connection.execute(statement, values).fetchall()

    def created(self, table: Table, ids: Sequence[UUID]) -> dict[UUID, datetime.datetime]:
        """Look the ids up, some at a time: a statement has a limited number of values."""
        found: list[tuple[Any, ...]] = []
        for first in range(0, len(ids), _CHUNK):
            some = [each.hex for each in ids[first : first + _CHUNK]]
            marks = ", ".join("?" * len(some))
            found += self.run(f'SELECT id, created_at FROM "{table.name}" WHERE id IN ({marks})', some)  # noqa: S608
        return {UUID(hex=each): from_us(moment) for each, moment in found}

    def commit(self) -> None:
        """Commit."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Roll back."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        self._file = None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_session(address: StoreAddress) -> Session:
    """Open a session with a store, which has to be there."""
    server = address.server
    if server is not None:
        return PostgresSession(server, address.schema_name)
    return SqliteSession(Path(address.store))
