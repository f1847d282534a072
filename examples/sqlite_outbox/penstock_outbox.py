"""A source and a decoder of your own: a table in an SQLite file, and lines of CSV as columns.

Guarantee: each row of the table once, in the order of its `id`. Rows are added, and never changed or deleted; `id` is
an INTEGER PRIMARY KEY AUTOINCREMENT, and rows become visible in its order. Needs a file that the driver and all workers
see.
"""

import csv
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from penstock.decoders.decoder import DecoderContext, DecoderModel
from penstock.errors import NotFound
from penstock.kafka.topic_limits import NO_TIMESTAMP
from penstock.record.available_range import AvailableRange
from penstock.record.decoded import Decoded, RecordError, columns_of, record_error
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.records import records
from penstock.record.target import Target
from penstock.secret import PathFromFile
from penstock.sources.source import Source, SourceContext, SourceModel

_CHUNK_ROWS = 10_000


class Outbox(SourceModel):
    """Rows of a table `outbox (id, value)` in an SQLite file."""

    type: Literal["sqlite_outbox"] = Field("sqlite_outbox", description="A table in an SQLite file.")
    path: PathFromFile = Field(description="The file.")

    def reads(self, target: Target) -> bool:
        """Return whether a sink writes to the same file."""
        return target.kind == "file" and target.name == str(self.path.resolve())

    def open(self, context: SourceContext) -> "OutboxSource":  # noqa: ARG002 - a file needs no more
        """Return the driver's view."""
        return OutboxSource(self.path)


class OutboxSource(Source):
    """The driver's view: one partition, whose offsets are the ids."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # A name with a slash is no topic of Kafka's.
        self._partition = SourcePartition(str(path.resolve()), f"outbox-{path.name}", 0)

    def available(self) -> list[AvailableRange]:
        """Look up the last id; ids that were never used are holes, as in Kafka's logs."""
        if not self._path.exists():
            raise NotFound(f"there is no SQLite file at {self._path}")
        with closing(sqlite3.connect(self._path)) as connection:
            (end,) = connection.execute("SELECT coalesce(max(id), -1) + 1 FROM outbox").fetchone()
        return [AvailableRange(self._partition, 0, end)]

    def topic_ids(self) -> dict[str, str]:
        """Return the id of the only partition: a table that was dropped and filled again looks like the old one."""
        return {self._partition.topic: self._partition.topic_id}

    def starts(self, available: list[AvailableRange]) -> Positions:
        """Begin with the first row."""
        return {each.source_partition: each.first for each in available}

    def reader(self) -> "OutboxReader":
        """Return the reader, which is sent to tasks."""
        return OutboxReader(str(self._path))


@dataclass(frozen=True)
class OutboxReader:
    """Reads offset ranges inside a task."""

    path: str

    def chunks(
        self, offset_range: OffsetRange, max_bytes: int | None = None, _rejected: Collection[int] = ()
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield rows as records, and how far each chunk reaches."""
        query = "SELECT id, value FROM outbox WHERE id >= ? AND id < ? ORDER BY id"
        read_bytes = 0
        with closing(sqlite3.connect(self.path)) as connection:
            cursor = connection.execute(query, (offset_range.start, offset_range.end))
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                yield _columns(rows, offset_range.source_partition), rows[-1][0] + 1
                read_bytes += sum(len(value or "") for _, value in rows)
                if max_bytes is not None and read_bytes >= max_bytes:
                    return
        yield _columns([], offset_range.source_partition), offset_range.end


def _columns(rows: list[tuple[int, str | None]], source_partition: SourcePartition) -> pa.RecordBatch:
    return records(
        source_partition,
        offsets=pa.array([number for number, _ in rows], pa.int64()),
        timestamps_ms=pa.array([NO_TIMESTAMP] * len(rows), pa.int64()),
        keys=pa.nulls(len(rows), pa.binary()),
        values=pa.array([None if value is None else value.encode() for _, value in rows], pa.binary()),
        headers=[None] * len(rows),
    )


class Csv(DecoderModel):
    """Each value is one line of CSV; its fields become columns of text."""

    type: Literal["csv"] = Field("csv", description="A line of CSV.")
    columns: list[str] = Field(min_length=1, description="Names of the columns, in order.")

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns, all of them text."""
        return pa.schema([(name, pa.string()) for name in self.columns])

    def open(self, context: DecoderContext) -> "CsvDecoder":  # noqa: ARG002 - it needs nothing
        """Return the decoder; one per task."""
        return CsvDecoder(self)


class CsvDecoder:
    """Decodes many values at once."""

    def __init__(self, spec: Csv) -> None:
        self._schema = spec.arrow_schema

    def decode(self, values: Sequence[bytes | None], /) -> Decoded:
        """Return the columns, and an error for each value that has other fields."""
        found = [self._one(value) for value in values]
        errors = [problem for _, problem in found]
        return columns_of(self._schema, [row for row, _ in found], errors, [False] * len(values))

    def _one(self, value: bytes | None) -> tuple[tuple[Any, ...], RecordError | None]:
        nothing = (None,) * len(self._schema)
        try:
            fields = next(csv.reader([(value or b"").decode()], strict=True), [])
        except (UnicodeDecodeError, csv.Error) as error:
            return nothing, record_error("Malformed", str(error))
        if len(fields) != len(self._schema):
            return nothing, record_error("SchemaMismatch", f"{len(fields)} fields, and {len(self._schema)} columns")
        return tuple(fields), None
