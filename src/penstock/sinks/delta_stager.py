"""Staging a Delta table's Parquet files in tasks; only the driver's commit makes them part of the table.

Memory and open files are bounded, however many partitions there are: rows are collected up to a number, and then each
partition's become a file that is closed before the next is opened.
"""

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.delivery.durable import sync_all
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange
from penstock.sinks.calendar import require_comparable
from penstock.sinks.delta_partitions import Partitions, Values, folder
from penstock.sinks.delta_stats import stats_of
from penstock.sinks.parquet_settings import nan_columns, parquet_settings
from penstock.sinks.rows import fitting

_ROWS_PER_GROUP = 500_000
_MOST_DAYS = 95_000_000


class DeltaStagerFactory:
    """Opens a stager per offset range."""

    def __init__(self, path: Path, schema: pa.Schema, partitions: Partitions, *, in_partitions: bool) -> None:
        self._path = path
        self._schema = schema
        self._partitions = partitions
        self._in_partitions = in_partitions

    def __call__(self, offset_range: OffsetRange) -> "DeltaStager":
        """Open it; files are made when rows come."""
        name = f"part-{offset_range.source_partition.partition:05d}"
        return DeltaStager(self._path, name, self._schema, self._partitions, in_partitions=self._in_partitions)


class DeltaStager:
    """Writes Parquet files, which become part of the table only if the driver commits them."""

    def __init__(
        self,
        path: Path,
        name: str,
        schema: pa.Schema,
        partitions: Partitions | None = None,
        *,
        in_partitions: bool = False,
    ) -> None:
        self._path = path
        self._name = name
        self._schema = schema
        self._partitions = partitions or Partitions()
        self._in_partitions = in_partitions and bool(self._partitions.names)
        self._file: _File | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = 0
        self._files: list[dict[str, Any]] = []

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Collect rows into row groups: many small groups read slowly. Refuse what would make the file unreadable."""
        rows, _, refused = fitting(rows, self._checked)
        if not rows.num_rows:
            return refused
        self._waiting.append(rows)
        self._rows_waiting += rows.num_rows
        if self._rows_waiting >= _ROWS_PER_GROUP:
            self._flush()
        return refused

    def _checked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows in the file's types.

        SQL can make text that is not UTF-8, on which readers of Parquet fail.
        """
        rows.validate(full=True)
        for column in rows.columns:
            _require_known_dates(column)
        require_comparable(rows)
        return self._partitions.with_derived(rows).cast(self._schema)

    def _flush(self) -> None:
        if not self._rows_waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._waiting, self._rows_waiting = [], 0
        if not self._in_partitions:
            if self._file is not None and not nan_columns(table) <= self._file.without_statistics:
                self._files.append(self._file.finish())
                self._file = None
            self._file = self._file or self._opened({}, table)
            self._file.write(table)
            return
        for values, part in self._partitions.split(table):
            file = self._opened(values, part)
            file.write(part)
            self._files.append(file.finish())

    def _opened(self, values: Values, first: pa.Table) -> "_File":
        return _File(self._path / f"{self._name}-{uuid.uuid4()}.parquet", values, first)

    def finish(self) -> dict[str, Any]:
        """Close the files and flush them to disk."""
        self._flush()
        if self._file is not None:
            self._files.append(self._file.finish())
        sync_all([self._path / each["file"] for each in self._files])
        return {"files": self._files}


def _require_known_dates(values: pa.Array) -> None:
    """Raise for a date that the library has no name for: no file with it could be merged into or compacted."""
    kind = values.type
    if pa.types.is_date32(kind):
        bounds = pc.min_max(values.cast(pa.int32()))
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and not -_MOST_DAYS <= low <= high <= _MOST_DAYS:
            raise ValueError("a date lies more than 260,000 years from 1970, and no reader could name it")
    elif pa.types.is_map(kind):
        first, last = (values.offsets[at].as_py() for at in (0, -1))
        for each in (values.keys, values.items):
            _require_known_dates(each.slice(first, last - first))
    elif pa.types.is_struct(kind):
        for each in values.flatten():
            _require_known_dates(each)
    elif pa.types.is_list(kind):
        _require_known_dates(values.flatten())


class _File:
    """One Parquet file, of one partition."""

    def __init__(self, path: Path, values: Values, first: pa.Table) -> None:
        self._path = path
        self._values = values
        self._schema = first.schema
        self.without_statistics = nan_columns(first)
        self._nulls = dict.fromkeys(sorted(self.without_statistics), 0)
        self._footers: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(path, first.schema, metadata_collector=self._footers, **parquet_settings(first))

    def write(self, rows: pa.Table) -> None:
        """Write row groups."""
        for name in self._nulls:
            self._nulls[name] += rows.column(name).null_count
        self._writer.write_table(rows, row_group_size=_ROWS_PER_GROUP)

    def finish(self) -> dict[str, Any]:
        """Close it, and say what the driver's commit tells of it."""
        self._writer.close()
        stats = stats_of(self._footers[0], self._schema)
        stats["nullCount"] |= self._nulls
        return {
            "file": self._path.name,
            "folder": folder(self._values),
            "values": self._values,
            "bytes": self._path.stat().st_size,
            "stats": stats,
        }
