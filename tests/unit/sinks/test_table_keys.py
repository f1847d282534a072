"""Rows without changes that are merged by key: which values are one key, and which keys are refused."""

import math
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock.errors import BadInput, Conflict
from penstock.record.columns import CHANGE
from penstock.record.positions import OffsetRange
from penstock.sinks.delta import DeltaSink
from penstock.sinks.iceberg import IcebergSink
from penstock.sinks.sink import Staged

from support.changes import (
    PARTITION,
    SCHEMA,
    batch,
    put,
)
from support.folder_tables import KINDS, rows_of, sink_of
from support.iceberg_tables import iceberg_rows


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_rows_without_changes_are_merged_by_key_the_newest_wins(kind: str, tmp_path: Path) -> None:
    schema = pa.schema([each for each in SCHEMA if each.name != CHANGE.name])
    sink = sink_of(kind, tmp_path / "table", "id")
    sink.open(schema)
    write_rows(sink, batch([put(1, "a", 1), put(2, "b", 1), put(1, "c", 2)], 0).select(schema.names), 0)
    sink.close()

    found = rows_of(kind, tmp_path / "table")
    assert [(1, "c"), (2, "b")] == sorted((row["id"], row["doc"]) for row in found)


def write_rows(sink: DeltaSink | IcebergSink, rows: pa.RecordBatch, start: int) -> None:
    """Write rows that say nothing of changes."""
    part = OffsetRange(PARTITION, start, start + rows.num_rows)
    stager = sink.stager()(part)
    stager.write(rows, pa.array(range(part.start, part.end)))
    sink.prepare([Staged(part, rows.num_rows, stager.finish())], {PARTITION: start or None})
    sink.commit()


def test_ways_to_write_one_number_are_one_key(kind: str, tmp_path: Path) -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    keys = [0.0, math.nan, None, -0.0, other_nan]
    schema = pa.schema([("id", pa.float64()), *(e for e in SCHEMA if e.name not in {"id", CHANGE.name})])
    sink = sink_of(kind, tmp_path / "table", "id")
    sink.open(schema)

    for start in (0, 5):
        rows = batch([put(0, str(start + number), 0) for number in range(5)], start).drop_columns(["id", CHANGE.name])
        write_rows(sink, rows.append_column("id", pa.array(keys, pa.float64())).select(schema.names), start)
        keys.reverse()
    sink.close()

    found = rows_of(kind, tmp_path / "table")
    assert [("0.0", "9"), ("None", "7"), ("nan", "8")] == sorted((str(row["id"]), row["doc"]) for row in found)


@pytest.mark.parametrize("day", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
def test_a_time_beyond_the_calendar_may_be_a_key(kind: str, tmp_path: Path, day: pa.DataType) -> None:
    numbers = pa.array([20_260_131, 1], pa.int32()) if day == pa.date32() else pa.array([2**60, 1])
    schema = pa.schema([("id", day), *(each for each in SCHEMA if each.name not in {"id", CHANGE.name})])
    sink = sink_of(kind, tmp_path / "table", "id")
    sink.open(schema)

    for start in (0, 2):
        rows = batch([put(0, str(start), 0), put(0, str(start), 0)], start).drop_columns(["id", CHANGE.name])
        write_rows(sink, rows.append_column("id", numbers.cast(day)).select(schema.names), start)
    sink.close()

    found = iceberg_rows(tmp_path / "table", "doc") if kind == "iceberg" else delta_docs(tmp_path / "table")
    assert ["2", "2"] == [row["doc"] for row in found]


def delta_docs(path: Path) -> list[dict[str, Any]]:
    """Read one column, file by file: a library of Python's cannot read the bounds of others."""
    files = map(pq.ParquetFile, DeltaTable(str(path)).file_uris())
    return [row for file in files for row in file.read(columns=["doc"]).to_pylist()]


@pytest.mark.parametrize("name", ['a"b', "a`b"])
def test_a_key_may_have_quotes_in_its_name(kind: str, tmp_path: Path, name: str) -> None:
    named = {"id": name}
    schema = pa.schema([e.with_name(named.get(e.name, e.name)) for e in SCHEMA if e.name != CHANGE.name])
    sink = sink_of(kind, tmp_path / "table", name)
    sink.open(schema)

    for start in (0, 1):
        rows = batch([put(1, str(start), 0)], start).drop_columns([CHANGE.name])
        write_rows(sink, rows.rename_columns([named.get(each, each) for each in rows.schema.names]), start)
    sink.close()

    assert [(1, "1")] == [(row[name], row["doc"]) for row in rows_of(kind, tmp_path / "table")]


@pytest.mark.parametrize(
    "nested", [pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.int64())])]
)
def test_a_key_that_rows_cannot_be_told_apart_by_is_refused_before_any_row(
    kind: str, tmp_path: Path, nested: pa.DataType
) -> None:
    sink = sink_of(kind, tmp_path / "table", "id")
    schema = pa.schema([("id", nested), *(each for each in SCHEMA if each.name not in {"id", CHANGE.name})])

    with pytest.raises(
        Conflict, match=r"key column 'id' of type .*: rows cannot be told apart by lists, maps or structs"
    ):
        sink.open(schema)
    with pytest.raises(Conflict, match="key column 'id' of type"):
        sink.require_fitting(lambda: schema)
    assert [] == list(tmp_path.iterdir())


def test_a_key_that_the_pipeline_does_not_make_is_a_conflict(kind: str, tmp_path: Path) -> None:
    sink = sink_of(kind, tmp_path / "table", "nr")

    with pytest.raises(Conflict, match="the key column 'nr', which the pipeline does not make"):
        sink.open(SCHEMA)


def test_rows_of_a_key_cannot_be_replaced_by_older_ones(kind: str, tmp_path: Path) -> None:
    sink = sink_of(kind, tmp_path / "table", "id")

    with pytest.raises(BadInput, match="cannot replace the rows"):
        sink.replace({PARTITION: [OffsetRange(PARTITION, 0, 1)]})
