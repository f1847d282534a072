"""Staging an Iceberg table's Parquet files in tasks; only the driver's commit makes them part of it.

Memory and open files are bounded, however many partitions there are: rows are collected up to a number, and then each
partition's become a file that is closed before the next is opened.
"""

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.delivery.durable import sync_all
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange
from penstock.sinks.calendar import require_comparable
from penstock.sinks.iceberg_partitions import split
from penstock.sinks.parquet_settings import parquet_settings
from penstock.sinks.partitioning import PartitionField
from penstock.sinks.rows import fitting

_ROWS_AT_ONCE = 500_000


class IcebergStagerFactory:
    """Opens a stager per offset range."""

    def __init__(self, path: Path, schema: pa.Schema, partition_by: tuple[PartitionField, ...]) -> None:
        self._path = path
        self._schema = schema
        self._partition_by = partition_by

    def __call__(self, offset_range: OffsetRange) -> "IcebergStager":
        """Open it; files are made when rows come."""
        name = f"part-{offset_range.source_partition.partition:05d}"
        return IcebergStager(self._path, name, self._schema, self._partition_by)


class IcebergStager:
    """Writes Parquet files, which become part of the table only if the driver commits them."""

    def __init__(self, path: Path, name: str, schema: pa.Schema, partition_by: tuple[PartitionField, ...]) -> None:
        self._path = path
        self._name = name
        self._schema = schema
        self._partition_by = partition_by
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = 0
        self._files: list[dict[str, Any]] = []

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Collect rows: many small files read slowly. Refuse what would make a file unreadable."""
        rows, _, refused = fitting(rows, self._checked)
        if rows.num_rows:
            self._waiting.append(rows)
            self._rows_waiting += rows.num_rows
        if self._rows_waiting >= _ROWS_AT_ONCE:
            self._flush()
        return refused

    def _checked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows in the table's types. SQL can make text that is not UTF-8, on which readers fail."""
        rows.validate(full=True)
        require_comparable(rows)
        return rows.cast(self._schema)

    def _flush(self) -> None:
        if not self._rows_waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        self._waiting, self._rows_waiting = [], 0
        for partition, part in split(rows, self._partition_by):
            path = self._path / f"{self._name}-{uuid.uuid4()}.parquet"
            pq.write_table(part, path, row_group_size=_ROWS_AT_ONCE, **parquet_settings(part))
            self._files.append({"file": path.name, "partition": list(partition)})

    def finish(self) -> dict[str, Any]:
        """Flush the rest to disk, and name the files, each with its partition."""
        self._flush()
        sync_all([self._path / each["file"] for each in self._files])
        return {"files": self._files}
