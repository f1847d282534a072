"""What tasks write a Delta table's Parquet files with, aside; only the driver's commit makes them part of the table."""

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.delivery.durable import sync
from penstock.record.columns import COORDINATES
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange
from penstock.sinks.rows import fitting

_ROWS_PER_GROUP = 500_000


class DeltaStagerFactory:
    """Opens a Parquet file per offset range."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema

    def __call__(self, offset_range: OffsetRange) -> "DeltaStager":
        """Open the file at the first row."""
        return DeltaStager(
            self._path / f"part-{offset_range.source_partition.partition:05d}-{uuid.uuid4()}.parquet", self._schema
        )


class DeltaStager:
    """Writes one Parquet file, which becomes part of the table only if the driver commits it."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = 0
        self._bounds: tuple[dict[str, Any], dict[str, Any]] | None = None

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Collect rows into row groups: many small groups read slowly. Refuse what would make the file unreadable."""
        rows, _, refused = fitting(rows, self._checked)
        if not rows.num_rows:
            return refused
        self._waiting.append(rows)
        if rows.schema.names[-len(COORDINATES) :] == list(COORDINATES):
            self._widen(rows)
        self._rows_waiting += rows.num_rows
        if self._rows_waiting >= _ROWS_PER_GROUP:
            self._flush()
        return refused

    def _checked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows in the file's types. SQL can make text that is no UTF-8, on which readers of Parquet fail."""
        rows.validate(full=True)
        return rows.cast(self._schema)

    def _widen(self, rows: pa.RecordBatch) -> None:
        """Keep the lowest and the highest of each coordinate."""
        for name in COORDINATES:
            found = pc.min_max(rows.column(name)).as_py()
            if self._bounds is None:
                self._bounds = ({}, {})
            low, high = self._bounds
            low[name] = min(low.get(name, found["min"]), found["min"])
            high[name] = max(high.get(name, found["max"]), found["max"])

    def _flush(self) -> None:
        if not self._rows_waiting:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        table = pa.Table.from_batches(self._waiting)
        self._writer.write_table(table, row_group_size=_ROWS_PER_GROUP)
        self._waiting, self._rows_waiting = [], 0

    def finish(self) -> dict[str, Any]:
        """Close the file and flush it to disk."""
        self._flush()
        if self._writer is None:
            return {"file": None, "bytes": 0}
        self._writer.close()
        sync(self._path)
        return {"file": self._path.name, "bytes": self._path.stat().st_size, "bounds": self._bounds}
