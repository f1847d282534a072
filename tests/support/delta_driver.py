"""What a task and a batch do with a Delta sink, a call each."""

import pickle
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.sink import Staged

A, B = SourcePartition("orders", "Ab-_9", 0), SourcePartition("orders", "Ab-_9", 1)
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def opened(path: Path, name: str = "delta", pipeline: str = "combat", schema: pa.Schema = SCHEMA) -> DeltaSink:
    sink = DeltaSink(Delta(path=path), name, pipeline)
    sink.open(schema)
    return sink


def staged(sink: DeltaSink, offset_range: OffsetRange, *ids: int) -> Staged:
    """Do what a task does; the factory travels there and must be picklable."""
    stager = pickle.loads(pickle.dumps(sink.stager()))(offset_range)  # noqa: S301 - our own bytes
    for number in ids:
        rows = pa.RecordBatch.from_pylist([{"id": number, "text": None}], SCHEMA)
        assert [] == stager.write(rows, pa.array([number]))
    return Staged(offset_range, len(ids), stager.finish())


def commit(sink: DeltaSink, expected: dict[SourcePartition, int | None], *parts: Staged) -> None:
    assert [] == sink.prepare(list(parts), expected)
    sink.commit()


def ids(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().column("id").to_pylist())


def version(path: Path) -> int:
    return int(DeltaTable(str(path)).version())
