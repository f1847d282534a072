"""Copies rows into the staging table of a PostgreSQL sink, inside of a task."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.errors import BatchAborted
from penstock.record.columns import COORDINATES
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange
from penstock.sinks.postgres_refusals import find_refused, refusal_of
from penstock.sinks.postgres_server import Server, outage_is_transient
from penstock.sinks.postgres_types import row_values
from penstock.sinks.rows import fitting


class PostgresStagerFactory:
    """Opens a connection per offset range. The password is read where the task runs."""

    def __init__(self, server: "Server", stage: Any, columns: list[str]) -> None:
        self._server = server
        self._stage = stage
        self._columns = columns

    def __call__(self, _offset_range: OffsetRange) -> "PostgresStager":
        """Connect."""
        return PostgresStager(self._server, self._stage, self._columns)


class PostgresStager:
    """Copies the rows of one attempt under a name that no other attempt has."""

    def __init__(self, server: "Server", stage: Any, columns: list[str]) -> None:
        from psycopg import sql

        self._address = f"{server.host}:{server.port}"
        self._name = uuid.uuid4().hex
        self._coordinates = [columns.index(name) for name in COORDINATES]
        self._last: list[Any] | None = None
        """The coordinates of the row with the highest offset."""
        self._connection = server.connect()
        listed = sql.SQL(", ").join(map(sql.Identifier, [*columns, "_stage", "_at"]))
        self._copy = sql.SQL("COPY {} ({}) FROM STDIN").format(stage, listed)

    def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Copy the rows; halve what is refused until the rows to blame stand alone."""
        import psycopg

        numbers = offsets.to_pylist()
        listed, indexes, refused = fitting(rows, lambda some: list(row_values(some)))
        values = [[*row, self._name, numbers[index]] for index, row in zip(indexes, listed, strict=True)]

        def write(first: int, last: int) -> None:
            with self._connection.transaction(), self._connection.cursor().copy(self._copy) as copy:
                for row in values[first:last]:
                    copy.write_row(row)
            self._remember(values[first:last])

        with self._open():
            try:
                found = find_refused(len(values), write)
            except psycopg.errors.UndefinedTable:
                raise BatchAborted("the staging table is gone: another driver has dropped it") from None
        return [*refused, *((indexes[number], refusal_of(error)) for number, error in found)]

    def _remember(self, rows: list[list[Any]]) -> None:
        staged = [[row[at] for at in self._coordinates] for row in rows]
        self._last = max([*staged, *([self._last] if self._last else [])], key=lambda row: int(row[-1]), default=None)

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Leave no connection behind in Spark's worker when the task fails."""
        try:
            with outage_is_transient(self._address):
                yield
        except BaseException:
            self._connection.close()
            raise

    def finish(self) -> dict[str, Any]:
        """Commit what was staged; it is nobody's row yet."""
        with self._open():
            self._connection.commit()
            self._connection.close()
        return {"stage": self._name, "row": self._last}
