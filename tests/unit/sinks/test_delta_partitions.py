"""A partitioned Delta table: rows and values as they were, whatever they are, and bounded work for many partitions."""

import datetime
import os
import pickle
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import Conflict
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.schema import parse
from penstock.sinks import tables
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.sink import Staged

A = SourcePartition("orders", "Ab-_9", 0)
COORDINATES = [("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())]
AT = datetime.datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC)


def schema(columns: str) -> pa.Schema:
    return pa.schema([*parse(columns), *COORDINATES])


def opened(path: Path, columns: pa.Schema, *partition_by: str, **options: Any) -> DeltaSink:
    sink = DeltaSink(Delta.model_validate({"path": path, "partition_by": partition_by, **options}), "delta", "orders")
    sink.open(columns)
    return sink


def stage(
    sink: DeltaSink, columns: pa.Schema, rows: Sequence[dict[str, Any]], start: int = 0
) -> tuple[Staged, list[str]]:
    stager = pickle.loads(pickle.dumps(sink.stager()))(OffsetRange(A, start, start + len(rows)))  # noqa: S301 - our own
    numbered = [
        {**row, "_topic_id": A.topic_id, "_partition": 0, "_offset": start + number} for number, row in enumerate(rows)
    ]
    refused = stager.write(
        pa.RecordBatch.from_pylist(numbered, columns), pa.array([row["_offset"] for row in numbered], pa.int64())
    )
    part = Staged(OffsetRange(A, start, start + len(rows)), len(rows) - len(refused), stager.finish())
    return part, [error["message"] for _, error in refused]


def write(sink: DeltaSink, columns: pa.Schema, rows: Sequence[dict[str, Any]], start: int = 0) -> list[str]:
    part, refused = stage(sink, columns, rows, start)
    assert [] == sink.prepare([part], {A: start or None})
    sink.commit()
    return refused


def landed(path: Path, *names: str) -> list[tuple[Any, ...]]:
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return [tuple(row[name] for name in names) for row in sorted(rows, key=lambda row: int(row["_offset"]))]


def test_rows_lie_in_the_folder_of_their_values(tmp_path: Path) -> None:
    columns = schema("country string, at timestamp")
    rows: list[dict[str, Any]] = [
        {"country": "DE", "at": AT},
        {"country": None, "at": None},
        {"country": "DE", "at": AT},
    ]

    write(opened(tmp_path, columns, "country", "days(at)"), columns, rows)

    assert [("DE", AT, AT.date()), (None, None, None), ("DE", AT, AT.date())] == landed(
        tmp_path, "country", "at", "at_day"
    )
    assert [
        "country=DE/at_day=2026-01-31",
        "country=__HIVE_DEFAULT_PARTITION__/at_day=__HIVE_DEFAULT_PARTITION__",
    ] == sorted(str(file.parent.relative_to(tmp_path)) for file in tmp_path.glob("*/*/*.parquet"))
    assert ["country", "at_day"] == DeltaTable(str(tmp_path)).metadata().partition_columns


@pytest.mark.parametrize("name", ["..", ".hidden", "a\tb", "a\nb", "x" * 230, "ü" * 40])
def test_a_column_that_no_folder_can_be_named_after_is_no_partition(tmp_path: Path, name: str) -> None:
    columns = pa.schema([("n", pa.int64()), (name, pa.string())])

    with pytest.raises(Conflict, match=r"cannot be partitioned by the column .* Nothing was written\. Give it another"):
        opened(tmp_path, columns, name)


@pytest.mark.parametrize("name", ["a.b", "a b", "a=b", "a/b", "a%2Fb", 'a"b', "ü", "[0]", "select", "x" * 200])
def test_a_partition_column_may_have_any_other_name(tmp_path: Path, name: str) -> None:
    columns = pa.schema([("a", pa.struct([("b", pa.int64())])), (name, pa.string()), *schema("n int")])
    rows = [{"a": {"b": 1}, name: value, "n": 1} for value in ("v", None, "v")]

    write(opened(tmp_path, columns, name), columns, rows)
    tables.compact(tmp_path, "7d")

    assert [("v",), (None,), ("v",)] == landed(tmp_path, name)


HOSTILE = [
    "a/b",
    "..",
    ".",
    "a=b",
    "a%2Fb",
    "a b",
    "ü€😀",
    "null",
    "__HIVE_DEFAULT_PARTITION__ ",
    "a\nb",
    "\\",
    'a"b',
    "'",
    "a:b?c#d[e]{f}^g|h*i<j>",
    "%",
    " ",
    "\x00\x1f\x7f",
    "x" * 200,
]


def test_any_text_comes_back_as_it_was_and_leaves_the_table_s_folder_alone(tmp_path: Path) -> None:
    columns = schema("a string, n int")
    rows = [{"a": each, "n": number} for number, each in enumerate(HOSTILE)]

    refused = write(opened(tmp_path / "t", columns, "a"), columns, rows)

    assert ([], [(each,) for each in HOSTILE]) == (refused, landed(tmp_path / "t", "a"))
    assert {*HOSTILE} - {"x" * 200} <= {
        unquote(file.parent.name.partition("=")[2]) for file in (tmp_path / "t").glob("a=*/*.parquet")
    }
    assert ["t"] == [each.name for each in tmp_path.iterdir()]


def test_partitions_of_any_text_are_compacted_and_vacuumed(tmp_path: Path) -> None:
    columns = schema("a string, n int")
    sink, names = opened(tmp_path, columns, "a"), [*HOSTILE, "~", "a~b", None]
    for number in range(2):
        write(sink, columns, [{"a": each, "n": number} for each in names], number * len(names))
    for each in tmp_path.glob("*/*.parquet"):
        os.utime(each, (1, 1))

    done = tables.compact(tmp_path, "1h")
    tables.vacuum(tmp_path, "1h", dry_run=False)

    assert (2 * len(names), len(names)) == (done.files_before, done.files_after)
    assert [(each,) for each in [*names, *names]] == landed(tmp_path, "a")


def test_what_the_log_cannot_tell_apart_and_what_names_no_folder_is_refused_row_by_row(tmp_path: Path) -> None:
    columns = schema("a string, day date")
    end = datetime.date(9999, 12, 31)
    rows: list[dict[str, Any]] = [
        {"a": "", "day": None},
        {"a": "ä" * 90, "day": None},
        {"a": "__HIVE_DEFAULT_PARTITION__", "day": None},
        {"a": None, "day": None},
        {"a": "ok", "day": end},
    ]

    refused = write(opened(tmp_path, columns, "a", "day"), columns, rows)

    assert [(None, None), ("ok", datetime.date(9999, 12, 31))] == landed(tmp_path, "a", "day")
    first, second, third = refused
    assert "the empty text cannot be told from null" in first
    assert "too long to name a folder after" in second
    assert "the text __HIVE_DEFAULT_PARTITION__ cannot be told from null in the partition column 'a'" in third


def test_times_are_rounded_down_in_utc_also_before_1970_and_at_the_end_of_a_leap_day(tmp_path: Path) -> None:
    columns = schema("at timestamp, plain timestamp_ntz, day date")
    times = [
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC),
        datetime.datetime(2024, 2, 29, 0, 0, 0, tzinfo=datetime.UTC),
        datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    ]
    rows = [{"at": each, "plain": each.replace(tzinfo=None), "day": each.date()} for each in times]

    write(opened(tmp_path, columns, "hours(at)", "days(plain)", "months(day)"), columns, rows)

    assert [
        ("1969-12-31-23", datetime.date(1969, 12, 31), "1969-12"),
        ("2024-02-29-00", datetime.date(2024, 2, 29), "2024-02"),
        ("0001-01-01-00", datetime.date(1, 1, 1), "0001-01"),
    ] == landed(tmp_path, "at_hour", "plain_day", "day_month")


def test_a_time_beyond_the_calendar_is_refused(tmp_path: Path) -> None:
    columns = schema("at timestamp")
    sink = opened(tmp_path, columns, "days(at)")
    stager = sink.stager()(OffsetRange(A, 0, 2))
    beyond = pa.array([253_402_300_800_000_000, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_arrays(
        [beyond, pa.array(["x", "x"]), pa.array([0, 0], pa.int32()), pa.array([0, 1])], schema=columns
    )

    refused = stager.write(rows, pa.array([0, 1]))

    assert [0] == [index for index, _ in refused]
    assert "outside the years 1 to 9999" in refused[0][1]["message"]


def test_numbers_booleans_and_dates_are_partitions_of_their_own_type(tmp_path: Path) -> None:
    columns = schema("n bigint, b boolean, d date, text string")
    row = {"n": -5, "b": False, "d": datetime.date(2026, 2, 1), "text": "x"}

    write(opened(tmp_path, columns, "n", "b", "d"), columns, [row, dict.fromkeys(row)])

    assert [(-5, False, datetime.date(2026, 2, 1), "x"), (None,) * 4] == landed(tmp_path, "n", "b", "d", "text")


@pytest.mark.parametrize(
    ("partition_by", "reason"),
    [
        (["city"], "names the column 'city', which the pipeline does not write"),
        (["_partition"], "names the column '_partition'"),
        (["at"], "cannot be partitioned by the column 'at' of type timestamp.*days"),
        (["price"], "cannot be partitioned by the column 'price' of type double"),
        (["days(country)"], "needs a time, and 'country' is of type string"),
        (["country", "country"], "names the same partition twice"),
        (["months(at)"], "makes the column 'at_month', which the pipeline writes itself"),
    ],
)
def test_a_table_that_cannot_be_partitioned_so_is_refused_in_one_line(
    tmp_path: Path, partition_by: list[str], reason: str
) -> None:
    columns = schema("country string, at timestamp, price double, at_month string")
    sink = DeltaSink(Delta.model_validate({"path": tmp_path / "t", "partition_by": partition_by}), "delta", "orders")

    with pytest.raises(Conflict, match=reason):
        sink.require_fitting(lambda: columns)
    with pytest.raises(Conflict, match=reason):
        sink.open(columns)

    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (["country"], [], "is partitioned by country, and the pipeline has no `partition_by`"),
        ([], ["country"], r"is not partitioned, and `partition_by` says \[country\]"),
        (
            ["days(at)", "country"],
            ["country", "days(at)"],
            r"is partitioned by at_day, country, and .* says \[country,",
        ),
        (["days(at)"], ["hours(at)"], "is partitioned by at_day"),
    ],
)
def test_a_table_that_is_partitioned_otherwise_is_refused_and_left_alone(
    tmp_path: Path, before: list[str], now: list[str], reason: str
) -> None:
    columns = schema("country string, at timestamp")
    opened(tmp_path, columns, *before)

    with pytest.raises(Conflict, match=reason):
        opened(tmp_path, columns, *now)

    assert 0 == DeltaTable(str(tmp_path)).version()


@pytest.mark.parametrize("partitions", [200, pytest.param(1000, marks=pytest.mark.soak)], ids=str)
def test_many_partitions_are_written_with_few_open_files(tmp_path: Path, partitions: int) -> None:
    columns = schema("shop int, text string")
    sink = opened(tmp_path, columns, "shop")
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 40, hard))
    try:
        for batch in range(2):
            rows = [{"shop": number % partitions, "text": "x" * 10} for number in range(3 * partitions)]
            write(sink, columns, rows, batch * 3 * partitions)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

    table = DeltaTable(str(tmp_path))
    assert (2 * partitions, 6 * partitions) == (len(table.file_uris()), table.to_pyarrow_table().num_rows)
    assert {A: 6 * partitions} == opened(tmp_path, columns, "shop").positions([A])


def test_rows_of_a_partitioned_table_are_replaced_in_their_partitions(tmp_path: Path) -> None:
    columns = schema("country string, at timestamp")
    write(opened(tmp_path, columns, "country", "hours(at)"), columns, [{"country": "DE", "at": AT}] * 4)
    again = SourcePartition("orders", "range-0badcafe-Ab-_9", 0)
    sink = DeltaSink(
        Delta.model_validate({"path": tmp_path, "partition_by": ["country", "hours(at)"]}), "delta", "orders"
    )
    sink.replace({again: [OffsetRange(A, 1, 3)]})
    sink.open(columns)
    part, _ = stage(sink, columns, [{"country": "FR", "at": AT}] * 2, 1)

    sink.prepare([Staged(OffsetRange(again, 1, 3), 2, part.detail)], {again: None})
    sink.commit()

    assert ["DE", "FR", "FR", "DE"] == [country for (country,) in landed(tmp_path, "country")]
    assert ["2026-01-31-23"] * 4 == [hour for (hour,) in landed(tmp_path, "at_hour")]


def test_rows_are_replaced_by_rows_with_a_column_that_the_others_have_not(tmp_path: Path) -> None:
    before, now = schema("country string, n int"), schema("country string, n int, city string")
    write(opened(tmp_path, before, "country"), before, [{"country": "DE", "n": number} for number in range(4)])
    again = SourcePartition("orders", "range-0badcafe-Ab-_9", 0)
    sink = DeltaSink(Delta.model_validate({"path": tmp_path, "partition_by": ["country"]}), "delta", "orders")
    sink.replace({again: [OffsetRange(A, 1, 3)]})
    sink.open(now)
    part, _ = stage(sink, now, [{"country": "FR", "n": 9, "city": "Lyon"}] * 2, 1)

    sink.prepare([Staged(OffsetRange(again, 1, 3), 2, part.detail)], {again: None})
    sink.commit()

    assert [("DE", 0, None), ("FR", 9, "Lyon"), ("FR", 9, "Lyon"), ("DE", 3, None)] == landed(
        tmp_path, "country", "n", "city"
    )
    assert {A: 4} == opened(tmp_path, now, "country").positions([A])


def test_files_that_a_driver_offered_and_never_committed_are_withdrawn_from_their_partition(tmp_path: Path) -> None:
    columns = schema("country string")
    columns = columns.append(pa.field("n", pa.int32()))
    sink = opened(tmp_path, columns, "country")
    part, _ = stage(sink, columns, [{"country": "DE", "n": 1}])
    sink.prepare([part], {A: None})
    sink._offer()
    offered = list(tmp_path.glob("country=DE/*.parquet"))

    sink.close()

    assert (1, []) == (len(offered), list(tmp_path.glob("country=DE/*.parquet")))
