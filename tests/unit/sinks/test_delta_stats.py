"""What the log says of files: enough to skip them, and never so much that a row is missed."""

import datetime
import json
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.schema import parse
from penstock.sinks import tables
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.delta_partitions import Partitions
from penstock.sinks.delta_stager import DeltaStager, DeltaStagerFactory
from penstock.sinks.sink import Staged

from support.delta_tables import rows_by_duckdb

RANGE = OffsetRange(SourcePartition("orders", "Ab-_9", 0), 0, 9)


def stats(folder: Path, columns: str, *rows: dict[str, Any]) -> dict[str, Any]:
    schema = parse(columns)
    stager: DeltaStager = DeltaStagerFactory(folder, schema, Partitions(), in_partitions=True)(RANGE)
    stager.write(pa.RecordBatch.from_pylist(list(rows), schema), pa.array(range(len(rows))))
    (file,) = stager.finish()["files"]
    found: dict[str, Any] = json.loads(json.dumps(file["stats"]))
    return found


def test_lowest_highest_and_nulls_are_told_of_plain_columns(tmp_path: Path) -> None:
    at = datetime.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=datetime.UTC)
    first = {"id": 2**62, "name": "b", "price": 0.5, "day": at.date(), "at": at, "here": at.replace(tzinfo=None)}
    second = {"id": -3, "name": "a", "price": -1.0, "day": None, "at": None, "here": None}

    found = stats(
        tmp_path, "id bigint, name string, price double, day date, at timestamp, here timestamp_ntz", first, second
    )

    assert {
        "numRecords": 2,
        "minValues": {
            "id": -3,
            "name": "a",
            "price": -1.0,
            "day": "2026-01-31",
            "at": "2026-01-31T12:00:00.000001Z",
            "here": "2026-01-31T12:00:00.000001",
        },
        "maxValues": {
            "id": 2**62,
            "name": "b",
            "price": 0.5,
            "day": "2026-01-31",
            "at": "2026-01-31T12:00:00.000001Z",
            "here": "2026-01-31T12:00:00.000001",
        },
        "nullCount": {"id": 0, "name": 0, "price": 0, "day": 1, "at": 1, "here": 1},
    } == found


def test_a_long_text_is_cut_so_that_what_was_cut_still_lies_between(tmp_path: Path) -> None:
    found = stats(tmp_path, "name string, odd string", {"name": "x" * 40, "odd": "y" * 32 + "\U0010ffff"})

    low, high = found["minValues"]["name"], found["maxValues"]["name"]
    assert low == "x" * 32
    assert low < "x" * 40 < high
    assert "odd" not in found["maxValues"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", [1.0, math.nan]),
        ("double", [1.0, math.inf]),
        ("decimal(30,10)", [Decimal(1), Decimal(2)]),
        ("boolean", [True, False]),
        ("binary", [b"a", b"b"]),
        ("string", [None, None]),
    ],
)
def test_what_is_not_certain_is_left_out(tmp_path: Path, kind: str, values: list[Any]) -> None:
    found = stats(tmp_path, f"v {kind}", *({"v": each} for each in values))

    assert "v" not in found["maxValues"]
    assert values.count(None) == found["nullCount"]["v"]


@pytest.mark.parametrize("way", ["appended", "compacted", "merged by key", "with a new column"])
def test_numbers_that_are_none_are_found_however_their_file_was_written(tmp_path: Path, way: str) -> None:
    path, columns = tmp_path / "t", "id int, x double, s struct<y: float>"
    rows = [{"id": number, "x": value, "s": {"y": value}} for number, value in enumerate([1.0, math.nan, 2.0])]
    key = ["id"] if way == "merged by key" else []

    _write(path, columns, rows[:1], 0, key)
    _write(path, f"{columns}, city string" if way == "with a new column" else columns, rows[1:], 1, key)
    if way == "compacted":
        tables.compact(path, "7d")

    assert [1] == rows_by_duckdb(path, "x > 100").column("id").to_pylist()
    assert [1] == rows_by_duckdb(path, "s.y > 100").column("id").to_pylist()
    asked = (
        QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT id FROM t WHERE x > 100 AND s['y'] > 100")
    )
    assert [1] == pa.table(asked.read_all()).column("id").to_pylist()


def _write(path: Path, columns: str, rows: list[dict[str, Any]], start: int, key: list[str]) -> None:
    coordinates = pa.schema([("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])
    schema = pa.schema([*parse(columns), *coordinates])
    sink = DeltaSink(Delta(path=path, key=key), "delta", "orders")
    sink.open(schema)
    source, offset_range = RANGE.source_partition, replace(RANGE, start=start, end=start + len(rows))
    stager = sink.stager()(offset_range)
    located = [
        {**row, "_topic_id": source.topic_id, "_partition": 0, "_offset": start + at} for at, row in enumerate(rows)
    ]
    assert [] == stager.write(pa.RecordBatch.from_pylist(located, schema), pa.array(range(len(rows))))
    sink.prepare([Staged(offset_range, len(rows), stager.finish())], {source: start or None})
    sink.commit()
    sink.close()


@pytest.mark.parametrize("kind", ["date", "array<date>", "struct<d: date>", "map<string, date>"])
def test_a_date_that_nobody_could_merge_or_compact_is_refused(tmp_path: Path, kind: str) -> None:
    schema = parse(f"v {kind}")
    days = pa.array([0, 2**30, -(2**30), None], pa.int32()).cast(pa.date32())
    every = pa.array(range(5), pa.int32())
    nested = {
        "date": lambda: days,
        "array<date>": lambda: pa.ListArray.from_arrays(every, days),
        "struct<d: date>": lambda: pa.StructArray.from_arrays([days], ["d"]),
        "map<string, date>": lambda: pa.MapArray.from_arrays(every, pa.array(["a"] * 4), days),
    }
    rows = pa.RecordBatch.from_arrays([nested[kind]().cast(schema.field("v").type)], schema=schema)
    stager: DeltaStager = DeltaStagerFactory(tmp_path, schema, Partitions(), in_partitions=True)(RANGE)

    refused = stager.write(rows, pa.array(range(4)))

    assert [1, 2] == [number for number, _ in refused]
    assert 2 == stager.finish()["files"][0]["stats"]["numRecords"]


def test_fields_of_structs_are_not_taken_for_columns(tmp_path: Path) -> None:
    found = stats(tmp_path, "s struct<a: int>, l array<int>, m map<string, int>", {"s": {"a": 1}, "l": [1], "m": {}})

    assert {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}} == found
