"""Dates and times outside of the years 1 to 9999, in changes of a table: Python, which compares them, has none."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.record.columns import CHANGE, COORDINATES, RESERVED
from penstock.record.positions import OffsetRange
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.iceberg import Iceberg, IcebergSink
from penstock.sinks.sink import Staged

from support.changes import PARTITION
from support.delta_tables import rows_by_duckdb
from support.iceberg_tables import iceberg_rows

DATE, NAIVE, UTC = pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")
DAYS = [2_932_897, 5_000_000, 2**31 - 1, -719_163, -(2**31)]
MICROSECONDS = [253_402_300_800_000_000, 2**63 - 1, -62_135_596_800_000_001, -(2**63)]
LAST = {DATE: 2_932_896, NAIVE: 253_402_300_799_999_999, UTC: 253_402_300_799_999_999}
PLACE = [RESERVED.field(name) for name in COORDINATES]


def rows(kind: pa.DataType, numbers: list[int], start: int) -> pa.RecordBatch:
    """Make a row of each number of days or microseconds; the number of each is its key, too."""
    count = len(numbers)
    inner = pa.array(numbers, pa.int32() if kind == DATE else pa.int64()).cast(kind)
    columns = {
        "id": pa.array(range(count), pa.int64()),
        "at": inner,
        "parts": pa.nulls(count, pa.list_(kind)),
    }
    place = [[PARTITION.topic_id] * count, [PARTITION.partition] * count, range(start, start + count)]
    said = pa.array([{"op": None, "unchanged": [], "moved_from": None}] * count, CHANGE.type)
    arrays = [*columns.values(), *(pa.array(each, field.type) for each, field in zip(place, PLACE, strict=True)), said]
    return pa.record_batch(arrays, names=[*columns, *COORDINATES, CHANGE.name])


def opened(table: str, path: Path, key: str, schema: pa.Schema) -> DeltaSink | IcebergSink:
    sink = (
        DeltaSink(Delta(path=path, key=[key]), "mirror", "orders")
        if table == "delta"
        else IcebergSink(Iceberg(path=path, key=[key]), "mirror", "orders")
    )
    sink.open(schema)
    return sink


@pytest.mark.parametrize("table", ["delta", "iceberg"])
@pytest.mark.parametrize("kind", [DATE, NAIVE, UTC], ids=str)
@pytest.mark.parametrize("key", ["id", "at"])
def test_what_python_has_no_date_for_is_refused_alone_and_the_last_one_lands(
    tmp_path: Path, table: str, kind: pa.DataType, key: str
) -> None:
    numbers = [0, *(DAYS if kind == DATE else MICROSECONDS), LAST[kind]]
    path = tmp_path / "table"
    given = rows(kind, numbers, 0)
    sink = opened(table, path, key, given.schema)

    for start in (0, len(numbers)):
        offset_range = OffsetRange(PARTITION, start, start + len(numbers))
        stager = sink.stager()(offset_range)
        refused = stager.write(given, given.column("_offset"))
        staged = Staged(offset_range, len(numbers) - len(refused), stager.finish())
        assert [] == sink.prepare([staged], {PARTITION: start or None})
        sink.commit()
    sink.close()

    assert [*range(1, len(numbers) - 1)] == [number for number, _ in refused]
    assert all(" years " in error["message"] for _, error in refused)
    found: list[dict[str, Any]] = rows_by_duckdb(path).to_pylist() if table == "delta" else iceberg_rows(path)
    years = [each["at"].year for each in sorted(found, key=lambda row: int(row["id"]))]
    assert [datetime.date(1970, 1, 1).year, datetime.MAXYEAR] == years


@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_a_far_date_inside_of_a_value_is_refused_too(tmp_path: Path, table: str) -> None:
    far = pa.array([None, [2_932_897], [0]], pa.list_(pa.int32())).cast(pa.list_(DATE))
    given = rows(DATE, [0, 0, 0], 0).set_column(2, "parts", far)
    sink = opened(table, tmp_path / "table", "id", given.schema)

    stager = sink.stager()(OffsetRange(PARTITION, 0, 3))
    refused = stager.write(given, given.column("_offset"))

    assert [1] == [number for number, _ in refused]
    sink.close()
