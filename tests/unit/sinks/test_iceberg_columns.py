"""Partitions of an Iceberg table, columns that are added to it, and types that change."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import BatchAborted, Conflict
from penstock.sinks.iceberg_commit import Change

from support.iceberg_driver import SCHEMA, A, Driver, loaded
from support.iceberg_tables import iceberg_rows

UTC = datetime.UTC
MOMENTS = [
    datetime.datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime.datetime(2026, 2, 1, tzinfo=UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime.datetime(1970, 1, 1, tzinfo=UTC),
    datetime.datetime(1, 1, 1, tzinfo=UTC),
    datetime.datetime(9999, 12, 31, 23, tzinfo=UTC),
    None,
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def partitions(path: Path) -> list[dict[str, Any]]:
    found = loaded(path).inspect.partitions().to_pylist()
    return [each["partition"] for each in found]


@pytest.mark.parametrize(
    ("partition_by", "expected"),
    [
        ("days(at)", {moment and moment.date() for moment in MOMENTS}),
        (
            "hours(at)",
            {
                moment and (moment - datetime.datetime(1970, 1, 1, tzinfo=UTC)) // datetime.timedelta(hours=1)
                for moment in MOMENTS
            },
        ),
        ("months(at)", {moment and (moment.year - 1970) * 12 + moment.month - 1 for moment in MOMENTS}),
    ],
)
def test_rows_lie_in_the_partition_of_their_time_and_are_found_by_it(
    path: Path, partition_by: str, expected: set[Any]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    Driver(path, schema, partition_by=[partition_by]).write_rows(
        [{"id": number, "at": moment} for number, moment in enumerate(MOMENTS)]
    )

    found = {next(iter(each.values())) for each in partitions(path)}
    assert expected == found
    # Readers skip files by their partition: each row must be found where it should be.
    for number, moment in enumerate(MOMENTS):
        condition = "at IS NULL" if moment is None else f"at = '{moment.isoformat()}'"
        by_duckdb = [row["id"] for row in iceberg_rows(path) if row["at"] == moment]
        by_pyiceberg = loaded(path).scan(condition).to_arrow().column("id").to_pylist()
        assert ([number], [number]) == (by_duckdb, by_pyiceberg)


def test_a_table_is_partitioned_by_columns_of_several_types(path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("land", pa.string()), ("day", pa.date32()), ("ok", pa.bool_())])
    rows: list[dict[str, Any]] = [
        {"id": 1, "land": "ä/=b", "day": datetime.date(2026, 1, 1), "ok": True},
        {"id": 2, "land": None, "day": None, "ok": None},
        {"id": 3, "land": "", "day": datetime.date(1969, 12, 31), "ok": False},
        {"id": 4, "land": "ä/=b", "day": datetime.date(2026, 1, 1), "ok": True},
    ]
    Driver(path, schema, partition_by=["land", "day", "ok"]).write_rows(rows)

    names = ("land", "day", "ok")
    assert {tuple(row[name] for name in names) for row in rows} == {
        tuple(each[name] for name in names) for each in partitions(path)
    }
    assert rows == sorted(iceberg_rows(path), key=lambda row: row["id"])


def test_hundreds_of_partitions_are_written_in_one_batch(path: Path) -> None:
    Driver(path, partition_by=["id"]).write(*range(200))

    assert list(range(200)) == sorted(row["id"] for row in iceberg_rows(path))
    assert 200 == len(list((path / "data").iterdir()))


@pytest.mark.parametrize(
    ("partition_by", "message"),
    [
        ("land", r"`partition_by` names the column 'land', which the pipeline does not write. Nothing was written"),
        ("days(id)", r"`days\(id\)` needs a time, and 'id' is of type int64"),
    ],
)
def test_a_partition_that_cannot_be_is_refused(path: Path, partition_by: str, message: str) -> None:
    with pytest.raises(Conflict, match=message):
        Driver.unopened(path, partition_by=[partition_by]).require_fitting(lambda: SCHEMA)
    with pytest.raises(Conflict, match=message) as caught:
        Driver(path, partition_by=[partition_by])
    assert 6 == caught.value.exit_code
    assert not path.exists()


def test_a_table_with_other_partitions_is_refused(path: Path) -> None:
    Driver(path, partition_by=["id"]).write(1)

    with pytest.raises(Conflict, match=r"is partitioned by id, and the pipeline says nothing"):
        Driver(path)
    with pytest.raises(Conflict, match=r"says text. Nothing was written. Say `partition_by: \[id\]`"):
        Driver(path, partition_by=["text"])


def test_a_new_column_comes_with_the_first_rows_that_have_it(path: Path) -> None:
    older = Driver(path)
    older.write(1)
    wider = pa.schema([("id", pa.int64()), ("added", pa.list_(pa.string())), ("text", pa.string())])
    newer = Driver(path, wider)
    names = (loaded(path).schema().column_names, newer.positions)
    newer.write_rows([{"id": 2, "added": ["x"], "text": "new"}])
    newer.write_rows([{"id": 3, "added": None, "text": "newer"}])

    assert (["id", "text"], {A: 1}) == names
    assert [
        {"id": 1, "text": "text 1", "added": None},
        {"id": 2, "text": "new", "added": ["x"]},
        {"id": 3, "text": "newer", "added": None},
    ] == sorted(iceberg_rows(path), key=lambda row: row["id"])
    with pytest.raises(Conflict, match="has the column 'added', which the pipeline does not write"):
        older.write(4)


def test_a_commit_that_fails_adds_no_column(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(path).write(1)
    newer = Driver(path, pa.schema([*SCHEMA, ("added", pa.int64())]))
    newer.prepare(A, [{"id": 2, "text": "", "added": 1}])
    monkeypatch.setattr(Change, "commit", lambda _change: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        newer.sink.commit()

    assert (["id", "text"], {A: 1}) == (loaded(path).schema().column_names, newer.positions)


def test_files_whose_columns_got_other_ids_meanwhile_are_written_again(path: Path) -> None:
    Driver(path).write(1)
    newer = Driver(path, pa.schema([*SCHEMA, ("added", pa.int64())]))
    newer.prepare(A, [{"id": 2, "text": "", "added": 1}])
    with loaded(path).update_schema() as update:
        update.add_column("other", loaded(path).schema().find_type("id"))
    with loaded(path).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("other")
    with pytest.raises(BatchAborted, match="were changed while its files were written"):
        newer.sink.commit()
    newer.write_rows([{"id": 2, "text": "", "added": 1}])

    assert [None, 1] == [row["added"] for row in sorted(iceberg_rows(path), key=lambda row: row["id"])]


def test_a_column_that_somebody_takes_away_from_a_running_driver_is_not_added_again(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    with loaded(path).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("text")

    with pytest.raises(Conflict, match="no longer has the column 'text'"):
        driver.write(2)

    assert (["id"], [1]) == (loaded(path).schema().column_names, [row["id"] for row in iceberg_rows(path)])


def test_types_are_widened_where_every_value_stays(path: Path) -> None:
    narrow = pa.schema([("n", pa.int32()), ("f", pa.float32()), ("d", pa.decimal128(5, 2))])
    wide = pa.schema([("n", pa.int64()), ("f", pa.float64()), ("d", pa.decimal128(9, 2))])
    Driver(path, narrow).write_rows([{"n": 1, "f": 1.5, "d": 1}])
    Driver(path, wide).write_rows([{"n": 2**40, "f": 1e300, "d": 1234567}])
    Driver(path, narrow).write_rows([{"n": 3, "f": 2.5, "d": 3}])

    assert [(1, 1.5, 1), (3, 2.5, 3), (2**40, 1e300, 1234567)] == sorted(
        tuple(row.values()) for row in iceberg_rows(path)
    )


@pytest.mark.parametrize(
    ("schema", "keys", "message"),
    [
        (pa.schema([("id", pa.string()), ("text", pa.string())]), {}, "has the column id int64, and the pipeline"),
        (pa.schema([("id", pa.int64())]), {}, "has the column 'text', which the pipeline does not write"),
        (pa.schema([*SCHEMA, ("x", pa.int64())]), {"new_columns": "refuse"}, "does not have the column 'x'"),
        (pa.schema([*SCHEMA, ("ID", pa.int64())]), {}, "differs from it by capital letters alone"),
    ],
)
def test_other_columns_are_refused_with_the_remedy(
    path: Path, schema: pa.Schema, keys: dict[str, Any], message: str
) -> None:
    Driver(path).write(1)

    with pytest.raises(Conflict, match=message) as caught:
        Driver(path, schema, **keys)
    assert caught.value.fix
    assert ["id", "text"] == loaded(path).schema().column_names


STRUCT = pa.struct([("b", pa.int64())])


@pytest.mark.parametrize(
    "columns",
    [
        {"a.b": pa.string(), "a": STRUCT},
        {"a": STRUCT, "a.b": pa.string()},
        {"l": pa.list_(pa.int64()), "l.element": pa.int64()},
        {"m": pa.map_(pa.string(), pa.int64()), "m.value": pa.int64()},
        {"s": pa.struct([("a.b", pa.int64()), ("a", STRUCT)])},
    ],
)
def test_a_column_named_like_a_part_of_another_is_refused_in_one_line(
    tmp_path: Path, columns: dict[str, pa.DataType]
) -> None:
    schema = pa.schema([("id", pa.int64()), *columns.items()])
    with pytest.raises(
        Conflict, match=r"cannot tell names with dots .* Nothing was written\. Give one of them another"
    ):
        Driver(tmp_path / "new", schema)
    Driver(tmp_path / "table")
    sink = Driver.unopened(tmp_path / "table")
    with pytest.raises(Conflict, match="cannot tell names with dots"):
        sink.require_fitting(lambda: schema)
    sink.close()


def test_columns_with_dots_in_their_names_are_added_and_widened(tmp_path: Path) -> None:
    path = tmp_path / "table"
    Driver(path, pa.schema([("id", pa.int64()), ("a", STRUCT)])).write_rows([{"id": 1, "a": {"b": 1}}])
    for number, kind in ((2, pa.int32()), (3, pa.int64())):
        schema = pa.schema([("id", pa.int64()), ("a", STRUCT), ("a.c", kind), (".", kind)])
        Driver(path, schema).write_rows([{"id": number, "a": None, "a.c": 10, ".": 20}])

    rows = [{"id": 1, "a": {"b": 1}, "a.c": None, ".": None}] + [
        {"id": number, "a": None, "a.c": 10, ".": 20} for number in (2, 3)
    ]
    assert rows == sorted(iceberg_rows(path), key=lambda row: int(row["id"]))
