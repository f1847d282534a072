"""Columns that come later to a Delta table: added by the commit of the first rows that have them."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import BatchAborted, Conflict, PositionsMoved
from penstock.record.columns import COORDINATES, RESERVED
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.schema import parse
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.sink import Staged

A = SourcePartition("orders", "Ab-_9", 0)


def opened(path: Path, columns: str, **options: Any) -> DeltaSink:
    sink = DeltaSink(Delta.model_validate({"path": path, **options}), "delta", "orders")
    sink.open(parse(columns))
    return sink


def stage(sink: DeltaSink, columns: str, rows: Sequence[dict[str, Any]], start: int) -> Staged:
    offset_range = OffsetRange(A, start, start + len(rows))
    stager = pickle.loads(pickle.dumps(sink.stager()))(offset_range)  # noqa: S301 - our own bytes
    offsets = pa.array(range(start, start + len(rows)), pa.int64())
    assert [] == stager.write(pa.RecordBatch.from_pylist(list(rows), parse(columns)), offsets)
    return Staged(offset_range, len(rows), stager.finish())


def write(sink: DeltaSink, columns: str, rows: Sequence[dict[str, Any]], start: int = 0) -> None:
    sink.prepare([stage(sink, columns, rows, start)], {A: start or None})
    sink.commit()


def landed(path: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().to_pylist(), key=lambda row: int(row["id"]))


def actions(path: Path, version: int) -> list[str]:
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return sorted(next(iter(json.loads(line))) for line in lines)


@pytest.mark.parametrize("partition_by", [[], ["id"]], ids=["plain", "partitioned"])
def test_a_new_column_comes_in_the_commit_of_the_first_rows_that_have_it(
    tmp_path: Path, partition_by: list[str]
) -> None:
    before, now = "id bigint, name string", "city string, id bigint, name string, tags array<string>"
    write(opened(tmp_path, before, partition_by=partition_by), before, [{"id": 1, "name": "ada"}])
    sink = opened(tmp_path, now, partition_by=partition_by)
    columns_before = [field.name for field in DeltaTable(str(tmp_path)).schema().fields]

    write(sink, now, [{"id": 2, "name": "bob", "city": "Bonn", "tags": ["a"]}], 1)
    write(sink, now, [{"id": 3, "name": "cyd", "city": None, "tags": []}], 2)

    assert ["id", "name"] == columns_before
    assert [
        {"id": 1, "name": "ada", "city": None, "tags": None},
        {"id": 2, "name": "bob", "city": "Bonn", "tags": ["a"]},
        {"id": 3, "name": "cyd", "city": None, "tags": []},
    ] == landed(tmp_path)
    assert ["add", "commitInfo", "metaData", "txn"] == actions(tmp_path, 2)
    assert ["add", "commitInfo", "txn"] == actions(tmp_path, 3)
    assert {A: 3} == opened(tmp_path, now, partition_by=partition_by).positions([A])


def test_a_batch_without_rows_moves_the_position_and_adds_no_column(tmp_path: Path) -> None:
    write(opened(tmp_path, "id bigint"), "id bigint", [{"id": 1}])
    sink = opened(tmp_path, "id bigint, city string")

    sink.prepare([Staged(OffsetRange(A, 1, 9), 0, {})], {A: 1})
    sink.commit()

    assert ({A: 9}, [{"id": 1}]) == (sink.positions([A]), landed(tmp_path))


def test_of_two_drivers_that_add_the_same_column_the_second_is_refused_and_doubles_nothing(tmp_path: Path) -> None:
    opened(tmp_path, "id bigint")
    columns = "id bigint, city string"
    one, other = opened(tmp_path, columns), opened(tmp_path, columns)
    parts = [stage(sink, columns, [{"id": 1, "city": "Bonn"}], 0) for sink in (one, other)]
    for sink, part in zip((one, other), parts, strict=True):
        sink.prepare([part], {A: None})

    one.commit()
    with pytest.raises(PositionsMoved):
        other.commit()

    assert [{"id": 1, "city": "Bonn"}] == landed(tmp_path)


def test_a_column_that_somebody_takes_away_under_a_batch_is_added_when_it_runs_again(tmp_path: Path) -> None:
    opened(tmp_path, "id bigint")
    columns = "id bigint, city string"
    sink = opened(tmp_path, columns)
    write(sink, columns, [{"id": 1, "city": "Bonn"}])
    sink.positions([A])
    part = stage(sink, columns, [{"id": 2, "city": "Köln"}], 1)
    DeltaTable(str(tmp_path)).restore(0)
    sink.prepare([part], {A: None})

    with pytest.raises(BatchAborted, match="have changed while a batch was running"):
        sink.commit()

    assert ["id"] == [field.name for field in DeltaTable(str(tmp_path)).schema().fields]
    assert {} == sink.positions([A])
    write(sink, columns, [{"id": 1, "city": "Bonn"}, {"id": 2, "city": "Köln"}])
    assert [{"id": 1, "city": "Bonn"}, {"id": 2, "city": "Köln"}] == landed(tmp_path)


def test_an_older_driver_does_not_write_beside_a_column_that_it_does_not_know(tmp_path: Path) -> None:
    older = opened(tmp_path, "id bigint")
    write(opened(tmp_path, "id bigint, city string"), "id bigint, city string", [{"id": 1, "city": "Bonn"}])

    with pytest.raises(Conflict, match="has the column 'city', which the pipeline does not write"):
        older.positions([A])


def test_coordinates_are_not_added_to_a_table_whose_rows_have_none(tmp_path: Path) -> None:
    write(opened(tmp_path, "id bigint", coordinates=False), "id bigint", [{"id": 1}])
    columns = pa.schema([*parse("id bigint"), *(RESERVED.field(name) for name in COORDINATES)])
    sink = DeltaSink(Delta(path=tmp_path), "delta", "orders")

    with pytest.raises(Conflict, match=r"has no column '_topic_id', so which records .* Say `coordinates: false`"):
        sink.require_fitting(lambda: columns)
    with pytest.raises(Conflict, match="has no column '_topic_id'"):
        sink.open(columns)

    assert [{"id": 1}] == landed(tmp_path)


def test_new_columns_can_be_refused(tmp_path: Path) -> None:
    opened(tmp_path, "id bigint")

    with pytest.raises(Conflict, match="does not have the column 'city'"):
        opened(tmp_path, "id bigint, city string", new_columns="refuse")


@pytest.mark.parametrize(
    ("there", "ours", "value"),
    [("bigint", "int", 7), ("double", "float", 0.5), ("double", "int", 7), ("decimal(12,4)", "decimal(10,2)", 3)],
)
def test_a_column_takes_a_narrower_type_as_its_own(tmp_path: Path, there: str, ours: str, value: object) -> None:
    opened(tmp_path, f"id {there}")

    write(opened(tmp_path, f"id {ours}"), f"id {ours}", [{"id": value}])

    assert [{"id": value}] == landed(tmp_path)
    assert parse(f"id {there}") == pa.schema(DeltaTable(str(tmp_path)).schema().to_arrow())


@pytest.mark.parametrize(
    ("there", "ours"),
    [("int", "bigint"), ("float", "double"), ("bigint", "double"), ("decimal(12,4)", "decimal(12,2)")],
)
def test_a_type_that_the_column_cannot_hold_is_refused_with_the_remedy(tmp_path: Path, there: str, ours: str) -> None:
    opened(tmp_path, f"id {there}")

    with pytest.raises(Conflict, match=r"has the column id .*, and the pipeline writes id .*type in a step"):
        opened(tmp_path, f"id {ours}")
