"""A sink of your own: a table in an SQLite file.

Guarantee: exactly once. Tasks stage rows; the driver inserts those of the winning attempts and moves the
positions in one transaction. Needs a file system that the driver and all workers share.
"""

import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
from pydantic import Field

from penstock.delivery.crash_points import crash_point
from penstock.errors import Conflict, SinkUnavailable
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange, Positions, SourcePartition, require_unmoved
from penstock.record.target import Target
from penstock.secret import PathFromFile
from penstock.sinks.rows import fitting, plain_rows
from penstock.sinks.sink import Sink, SinkContext, SinkModel

_POSITIONS = """CREATE TABLE IF NOT EXISTS penstock_positions (
    pipeline TEXT, sink TEXT, topic_id TEXT, partition INTEGER, position INTEGER,
    PRIMARY KEY (pipeline, sink, topic_id, partition))"""
_FOUND = "SELECT position FROM penstock_positions WHERE (pipeline, sink, topic_id, partition) = (?, ?, ?, ?)"
_FORGET = "DELETE FROM penstock_positions WHERE (pipeline, sink) = (?, ?)"


class Sqlite(SinkModel):
    """A table in an SQLite file. Exactly once."""

    target_key = "path"

    type: Literal["sqlite"] = Field("sqlite", description="A table in an SQLite file.")
    path: PathFromFile = Field(description="The file; made if it is not there.")
    table: str = Field(pattern="^[A-Za-z][A-Za-z0-9_]*$", description="The table; made if it is not there.")

    def target(self) -> Target:
        """Return the table, with the file's name."""
        return Target("table", f"{self.path.resolve()}/{self.table}")

    def open(self, context: SinkContext) -> "SqliteSink":
        """Make the driver's part."""
        return SqliteSink(self, context)


class SqliteSink(Sink):
    """Inserts what the tasks have staged."""

    def __init__(self, spec: Sqlite, context: SinkContext) -> None:
        super().__init__(context.name)
        self._spec = spec
        self._pipeline = context.pipeline
        self._staging = context.scratch / context.name
        self._insert = ""

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open the file; a lock that stays is an outage, which the driver waits for."""
        try:
            with closing(sqlite3.connect(self._spec.path, isolation_level=None)) as connection:
                yield connection
        except sqlite3.OperationalError as error:
            raise SinkUnavailable(f"{self._spec.path} cannot be used: {error}") from None
        except sqlite3.DatabaseError as error:
            raise Conflict(f"{self._spec.path} is not an SQLite file: {error}", safe="Nothing was written") from None

    def open(self, schema: pa.Schema) -> None:
        """Create the table and the table of positions; refuse a table with other columns."""
        self._staging.mkdir(parents=True, exist_ok=True)
        self._spec.path.parent.mkdir(parents=True, exist_ok=True)
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.names)
        self._insert = f'INSERT INTO "{self._spec.table}" VALUES ({", ".join("?" * len(schema.names))})'  # noqa: S608 - a plain name
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_POSITIONS)
            found = [row[1] for row in connection.execute(f'PRAGMA table_info("{self._spec.table}")')]
            if not found:
                # Positions that are there belong to a table that was dropped: this one has none of its rows.
                connection.execute(_FORGET, (self._pipeline, self.name))
                connection.execute(f'CREATE TABLE "{self._spec.table}" ({columns})')
            connection.execute("COMMIT")
        if found and found != schema.names:
            raise Conflict(
                f"the table {self._spec.table} in {self._spec.path} has the columns {', '.join(found)}",
                safe="Nothing was written",
                fix=f"Name another table, or one with {', '.join(schema.names)}",
            )

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions:
        """Read the positions from the file."""
        with self._connected() as connection:
            return self._found(connection, source_partitions)

    def _found(self, connection: sqlite3.Connection, source_partitions: Iterable[SourcePartition]) -> Positions:
        rows = {each: connection.execute(_FOUND, self._key(each)).fetchone() for each in source_partitions}
        return {each: row[0] for each, row in rows.items() if row is not None}

    def _key(self, source_partition: SourcePartition) -> tuple[str, str, str, int]:
        return self._pipeline, self.name, source_partition.topic_id, source_partition.partition

    def stager(self) -> "Stager":
        """Return the stager, which is sent to tasks."""
        return Stager(self._staging)

    def commit(self) -> None:
        """Insert the rows and move the positions in one transaction, if these are where they are expected."""
        ends = {each.offset_range.source_partition: each.offset_range.end for each in self._staged}
        files = [Path(each.detail["file"]) for each in self._staged if each.rows]
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            require_unmoved(self.name, self._expected, self._found(connection, self._expected))
            for file in files:
                with file.open("rb") as lines:
                    connection.executemany(self._insert, map(orjson.loads, lines))
            moved = [(*self._key(each), end) for each, end in ends.items()]
            connection.executemany("INSERT OR REPLACE INTO penstock_positions VALUES (?, ?, ?, ?, ?)", moved)
            crash_point("in_commit", self.name)
            connection.execute("COMMIT")
        for file in files:
            file.unlink()


@dataclass(frozen=True)
class Stager:
    """Opens a file for each offset range. It is sent to the tasks: small, picklable, and without a secret."""

    folder: Path

    def __call__(self, _offset_range: OffsetRange) -> "StagedFile":
        """Choose a name that no other attempt has."""
        return StagedFile(self.folder / f"{uuid.uuid4().hex}.jsonl")


class StagedFile:
    """Rows of one task, a line each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Add rows; refuse those that cannot be written so, each with the reason."""
        lines, _, refused = fitting(rows, _lines)
        with self._path.open("ab") as file:
            file.write(b"".join(lines))
        return refused

    def finish(self) -> dict[str, Any]:
        """Say where the rows are."""
        return {"file": str(self._path)}


def _lines(rows: pa.RecordBatch) -> list[bytes]:
    return [orjson.dumps([_value(each) for each in row.values()]) + b"\n" for row in plain_rows(rows)]


def _value(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else value
