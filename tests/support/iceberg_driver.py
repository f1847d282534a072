"""An Iceberg sink that is written to as the engine does."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.iceberg import Iceberg, IcebergSink
from penstock.sinks.iceberg_catalog import Catalog, open_catalog
from penstock.sinks.sink import Staged

A, B = (SourcePartition("orders", "Ab-_9", partition) for partition in range(2))
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


class Driver:
    """Opens a sink, stages rows of the schema in it, and commits them."""

    def __init__(self, path: Path, schema: pa.Schema = SCHEMA, *, pipeline: str = "combat", **keys: Any) -> None:
        self.sink = self.unopened(path, pipeline, **keys)
        self.schema = schema
        self.sink.reach()
        self.sink.open(schema)

    @staticmethod
    def unopened(path: Path, pipeline: str = "combat", **keys: Any) -> IcebergSink:
        """Make the driver's part alone."""
        return IcebergSink(Iceberg(path=path, coordinates=False, **keys), "iceberg", pipeline)

    @property
    def positions(self) -> Positions:
        """Where the sink stands."""
        return self.sink.positions([A, B]) or {}

    def prepare(self, partition: SourcePartition, rows: list[dict[str, Any]]) -> None:
        """Stage rows from where the sink stands, by a factory that has travelled."""
        found = self.positions.get(partition)
        offset_range = OffsetRange(partition, found or 0, (found or 0) + len(rows))
        stager = pickle.loads(pickle.dumps(self.sink.stager()))(offset_range)  # noqa: S301 - our own bytes
        refused = stager.write(pa.RecordBatch.from_pylist(rows, self.schema), pa.array(range(len(rows))))
        staged = Staged(offset_range, len(rows) - len(refused), stager.finish())
        assert [] == self.sink.prepare([staged], {partition: found})

    def write(self, *ids: int, partition: SourcePartition = A) -> None:
        """Write a row for each id."""
        self.write_rows([{"id": each, "text": f"text {each}"} for each in ids], partition)

    def write_rows(self, rows: list[dict[str, Any]], partition: SourcePartition = A) -> None:
        """Write rows in one batch."""
        self.prepare(partition, rows)
        self.sink.commit()


def loaded(path: Path) -> Any:
    """Open the table of a folder as any user of its catalog does."""
    return open_catalog(Catalog(), path).load_table(f"default.{path.name}")
