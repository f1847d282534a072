"""What an Iceberg table says of its files: enough to skip them, never so much that a row is missed, for any value."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.record.positions import OffsetRange
from penstock.sinks import tables
from penstock.sinks.sink import Staged

from support.iceberg_driver import A, Driver, loaded
from support.iceberg_tables import newest_metadata, reader

LONG = 5000
"""More bytes than a Parquet footer tells of a text."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def write(driver: Driver, texts: list[str], first: int) -> None:
    driver.write_rows([{"id": first + number, "text": text} for number, text in enumerate(texts)])


def found(path: Path, condition: str) -> list[int]:
    """Return the ids that two engines find, which have to be the same."""
    by_library = loaded(path).scan(condition).to_arrow().column("id").to_pylist()
    query = f"SELECT id FROM iceberg_scan(?) WHERE {condition}"  # noqa: S608 - our own condition
    by_duckdb = reader().cursor().execute(query, [newest_metadata(path)]).to_arrow_table().column("id").to_pylist()
    assert sorted(by_duckdb) == sorted(by_library)
    return sorted(by_library)


@pytest.mark.parametrize("is_compacted", [False, True], ids=["as written", "compacted"])
@pytest.mark.parametrize(
    "texts", [["c", "z" * LONG], ["c", "a" * LONG], ["a" * LONG, "c", "z" * LONG], ["", "c", "z" * LONG]]
)
def test_rows_beside_a_long_text_are_found(path: Path, texts: list[str], *, is_compacted: bool) -> None:
    driver = Driver(path)
    write(driver, texts, 0)
    write(driver, ["m", "n"], 10)
    if is_compacted:
        tables.compact(path, "7d")

    assert [texts.index("c")] == found(path, "text = 'c'")
    assert [11] == found(path, "text = 'n'")
    assert [number for number, text in enumerate(texts) if text > "y"] == found(path, "text > 'y'")
    assert [number for number, text in enumerate(texts) if text < "b"] == found(path, "text < 'b'")


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff"])
def test_a_text_above_which_the_library_finds_none_can_be_written(path: Path, last: str) -> None:
    driver = Driver(path)
    write(driver, [16 * last + "x", "b"], 0)

    assert ([0, 1], [1]) == (found(path, "text >= 'b'"), found(path, "text = 'b'"))


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [(pa.timestamp("us", "UTC"), pa.int64()), (pa.timestamp("us"), pa.int64()), (pa.date32(), pa.int32())],
)
def test_a_time_that_no_calendar_has_can_be_written(path: Path, kind: pa.DataType, numbers: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", kind)])
    driver, offset_range = Driver(path, schema), OffsetRange(A, 0, 2)
    far = 2 ** (numbers.bit_width - 3)
    rows = pa.record_batch([pa.array([1, 2]), pa.array([0, far], numbers).cast(kind)], schema=schema)
    stager = driver.sink.stager()(offset_range)
    assert [] == stager.write(rows, pa.array([0, 1]))

    driver.sink.prepare([Staged(offset_range, 2, stager.finish())], {A: None})
    driver.sink.commit()

    assert [0, far] == loaded(path).scan().to_arrow().column("at").cast(numbers).to_pylist()
    assert [2] == found(path, "id > 1")


@pytest.mark.parametrize("way", ["as written", "compacted", "merged by key"])
def test_numbers_that_are_none_are_found_however_their_file_was_written(path: Path, way: str) -> None:
    coordinates = [("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())]
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), *coordinates])
    driver = Driver(path, schema, key=["id"] if way == "merged by key" else [])
    for number, values in enumerate([[1.0], [math.nan, 2.0], [4.0]]):
        driver.write_rows(
            [
                {
                    "id": 10 * number + at,
                    "x": value,
                    "_topic_id": A.topic_id,
                    "_partition": 0,
                    "_offset": 10 * number + at,
                }
                for at, value in enumerate(values)
            ]
        )
    if way == "compacted":
        tables.compact(path, "7d")

    query = "SELECT id FROM iceberg_scan(?) WHERE x > 100"
    found_by_duckdb = reader().cursor().execute(query, [newest_metadata(path)]).to_arrow_table()
    assert [10] == found_by_duckdb.column("id").to_pylist()
    assert [20] == found(path, "id = 20")


def test_bounds_are_told_where_they_are_certain(path: Path) -> None:
    write(Driver(path), ["b", "a"], 0)
    (task,) = loaded(path).scan().plan_files()

    assert {1: (0).to_bytes(8, "little"), 2: b"a"} == task.file.lower_bounds
    assert {1: (1).to_bytes(8, "little"), 2: b"b"} == task.file.upper_bounds
