"""Copies rows into the staging table of a PostgreSQL sink, inside a task."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import BatchAborted
from penstock.record.columns import CHANGE, COORDINATES
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange
from penstock.sinks.postgres_refusals import find_refused, refusal_of
from penstock.sinks.postgres_server import Server, outage_is_transient
from penstock.sinks.postgres_types import require_kept_blanks, row_values
from penstock.sinks.rows import fitting


@dataclass(frozen=True)
class StagingTable:
    """Where rows are staged, and as which columns."""

    server: Server
    name: Any
    columns: list[str]
    text_limits: Mapping[str, int]
    has_changes: bool = False


class PostgresStagerFactory:
    """Opens a connection per offset range. The password is read where the task runs."""

    def __init__(self, table: StagingTable) -> None:
        self.table = table

    def __call__(self, _offset_range: OffsetRange) -> "PostgresStager":
        """Connect."""
        return PostgresStager(self.table)


class PostgresStager:
    """Copies the rows of one attempt under a name that no other attempt has."""

    def __init__(self, table: StagingTable) -> None:
        from psycopg import sql

        self._text_limits = table.text_limits
        self._address = f"{table.server.host}:{table.server.port}"
        self._name = uuid.uuid4().hex
        self._coordinates = [table.columns.index(name) for name in COORDINATES]
        self._last: list[Any] | None = None
        """The coordinates of the row with the highest offset."""
        self._connection = table.server.connect()
        self._has_changes = table.has_changes
        changes = ["_op", "_unchanged", "_moved_from"] if table.has_changes else []
        listed = sql.SQL(", ").join(map(sql.Identifier, [*table.columns, "_stage", "_at", *changes]))
        self._copy = sql.SQL("COPY {} ({}) FROM STDIN").format(table.name, listed)

    def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Copy the rows; halve what is refused until the failing rows are found."""
        import psycopg

        numbers = offsets.to_pylist()
        changes: list[list[Any]] = [[]] * rows.num_rows
        if self._has_changes:
            changes = [[*each.values()] for each in rows.column(CHANGE.name).to_pylist()]
            rows = rows.drop_columns([CHANGE.name])
        listed, indexes, refused = fitting(rows, self._values)
        values = [
            [*row, self._name, numbers[index], *changes[index]] for index, row in zip(indexes, listed, strict=True)
        ]

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

    def _values(self, rows: pa.RecordBatch) -> list[list[Any]]:
        require_kept_blanks(rows, self._text_limits)
        return list(row_values(rows))

    def _remember(self, rows: list[list[Any]]) -> None:
        staged = [
            [row[at] for at in self._coordinates] for row in rows if not self._has_changes or row[-3] is None
        ]  # a row that was taken out is nowhere to be found
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
