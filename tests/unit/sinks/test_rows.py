import datetime
import math
import subprocess
import sys
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from penstock.record.schema import parse
from penstock.sinks.postgres_types import column_type, row_values
from penstock.sinks.rows import fitting, plain, plain_rows, readable

AT = pa.timestamp("us", "UTC")
MOMENT = datetime.datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=datetime.UTC)


def rows(kind: pa.DataType, *values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], ["a"])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("bigint", 2**63 - 1, 2**63 - 1),
        ("double", 0.1, 0.1),
        ("string", "ü\x00😀", "ü\x00😀"),
        ("boolean", False, False),
        ("binary", b"\xff\x00", "/wA="),
        ("date", datetime.date(2026, 1, 31), "2026-01-31"),
        ("timestamp", MOMENT, "2026-01-31T12:00:00.000005+00:00"),
        ("timestamp_ntz", MOMENT.replace(tzinfo=None), "2026-01-31T12:00:00.000005"),
        ("decimal(20,2)", Decimal("123456789012345678.90"), "123456789012345678.90"),
        ("decimal(38,20)", Decimal("0.00000000000000000001"), "0.00000000000000000001"),
        ("array<binary>", [b"x", None], ["eA==", None]),
        ("map<string, date>", {"k": datetime.date(2026, 1, 31)}, {"k": "2026-01-31"}),
        ("struct<x: struct<y: array<decimal(3,1)>>>", {"x": {"y": [Decimal("1.5")]}}, {"x": {"y": ["1.5"]}}),
    ],
)
def test_a_value_is_shown_as_json_shows_it(kind: str, value: Any, expected: Any) -> None:
    given = pa.RecordBatch.from_arrays([pa.array([value, None], parse(f"a {kind}").field("a").type)], ["a"])

    actual = list(plain_rows(given))

    assert [{"a": expected}, {"a": None}] == actual
    assert actual == orjson.loads(orjson.dumps(actual))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.list_(pa.float64())])
def test_a_number_that_json_does_not_have_becomes_text_and_not_null(kind: pa.DataType, value: float) -> None:
    given = [value] if pa.types.is_list(kind) else value

    (actual,) = plain_rows(rows(kind, given))

    text = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    assert {"a": [text] if pa.types.is_list(kind) else text} == actual


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.duration("us"), datetime.timedelta(hours=1)), (pa.time64("us"), datetime.time(1, 2))]
)
def test_intervals_and_times_of_day_that_sql_can_make_become_text(kind: pa.DataType, value: Any) -> None:
    (actual,) = plain_rows(rows(kind, value))

    assert isinstance(orjson.loads(orjson.dumps(actual))["a"], str)


def test_what_is_plain_already_stays() -> None:
    assert [1, 1.5, "x", True, None] == [plain(value) for value in (1, 1.5, "x", True, None)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("string", "text"),
        ("boolean", "boolean"),
        ("tinyint", "smallint"),
        ("smallint", "smallint"),
        ("int", "integer"),
        ("bigint", "bigint"),
        ("float", "real"),
        ("double", "double precision"),
        ("binary", "bytea"),
        ("date", "date"),
        ("timestamp", "timestamptz"),
        ("timestamp_ntz", "timestamp"),
        ("decimal(38,10)", "numeric(38, 10)"),
        ("array<int>", "jsonb"),
        ("map<string, int>", "jsonb"),
        ("struct<x: int>", "jsonb"),
    ],
)
def test_each_type_has_one_of_postgres_that_holds_all_of_its_values(kind: str, expected: str) -> None:
    assert expected == column_type(parse(f"a {kind}").field("a").type)


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.time64("us")])
def test_a_type_that_is_not_nested_is_no_json(kind: pa.DataType) -> None:
    """Values of such a type are handed over as they are, and would be refused one by one."""
    assert "jsonb" != column_type(kind)


def test_values_come_in_the_order_of_the_columns_and_nested_ones_as_json() -> None:
    schema = parse("a bigint, b array<timestamp>, c map<string, binary>, d string, e decimal(5,2)")
    given = pa.RecordBatch.from_pylist(
        [{"a": 1, "b": [MOMENT, None], "c": {"k": b"x"}, "d": "[]", "e": Decimal("1.50")}, {}], schema
    )

    assert [
        [1, '["2026-01-31T12:00:00.000005+00:00",null]', '{"k":"eA=="}', "[]", Decimal("1.50")],
        [None] * 5,
    ] == list(row_values(given))


def test_no_rows_give_no_values() -> None:
    assert ([], []) == (list(row_values(rows(pa.int64()))), list(plain_rows(rows(pa.int64()))))


def test_rows_that_do_not_fit_are_named_and_the_others_are_converted_in_order() -> None:
    late = 4 * 10**17
    given = rows(pa.timestamp("us", tz="UTC"), *(late if number in (2, 3, 9) else number for number in range(10)))

    made, kept, refused = fitting(given, lambda some: [row["a"][-6:] for row in plain_rows(some)])

    assert [0, 1, 4, 5, 6, 7, 8] == kept
    assert 7 == len(made)
    assert [2, 3, 9] == [index for index, _ in refused]
    assert {"sink"} == {problem["stage"] for _, problem in refused}


@pytest.mark.parametrize(
    "bad",
    [
        pa.StringArray.from_buffers(1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")),
        pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64())),
        pa.array([4 * 10**17], pa.timestamp("us")),
    ],
)
def test_text_that_is_no_utf_8_a_doubled_key_and_a_year_beyond_9999_fit_no_json(bad: pa.Array) -> None:
    given = pa.RecordBatch.from_arrays([bad], ["a"])

    made, kept, refused = fitting(given, lambda some: [orjson.dumps(row) for row in plain_rows(some)])

    assert ([], [], [0]) == (made, kept, [index for index, _ in refused])


def test_times_to_look_at_are_those_of_python_and_need_no_pandas() -> None:
    utc = datetime.UTC
    times = [
        datetime.datetime(2026, 1, 31, 12, 0, 40, tzinfo=utc),
        None,
        datetime.datetime(1969, 12, 31, 23, 59, 59, 120000, tzinfo=utc),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=utc),
    ]
    early = [datetime.datetime(1, 1, 1, tzinfo=utc), *times]
    program = """
import sys
import pyarrow as pa
from penstock.sinks.rows import plain_rows, readable
second = pa.Array.from_buffers(pa.timestamp("us", "UTC"), 1, [None, pa.py_buffer(b"@B" + bytes([15]) + bytes(5))])
print(*plain_rows(readable(pa.record_batch([second], ["at"]))), "pandas" in sys.modules)
"""

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    for each in (times, early, [None]):
        rows = pa.record_batch([pa.array(each, pa.timestamp("us", "UTC"))], ["at"])
        assert [value and value.isoformat() for value in each] == [row["at"] for row in plain_rows(readable(rows))]
    assert "{'at': '1970-01-01T00:00:01+00:00'} False\n" == said


def test_times_that_no_calendar_has_can_be_looked_at_as_numbers() -> None:
    odd = pa.RecordBatch.from_pydict({"at": pa.array([2**62, None], pa.timestamp("us", "UTC")), "id": [1, 2]})

    assert [{"at": 2**62, "id": 1}, {"at": None, "id": 2}] == list(plain_rows(readable(odd)))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param(pa.date32(), 2**30, 2**30, id="a date"),
        pytest.param(pa.list_(AT), [2**62], [2**62], id="in a list"),
        pytest.param(
            pa.struct([("x", AT), ("d", pa.date32())]), {"x": 1, "d": 2**30}, {"x": 1, "d": 2**30}, id="a part"
        ),
        pytest.param(pa.list_(pa.struct([("x", AT)])), [{"x": 2**62}], [{"x": 2**62}], id="deep"),
        pytest.param(pa.map_(pa.string(), AT), [("k", -(2**62))], {"k": -(2**62)}, id="in a map"),
        pytest.param(pa.map_(AT, pa.int32()), [(2**62, 1)], {str(2**62): 1}, id="a key"),
        pytest.param(pa.list_(AT), [0], ["1970-01-01T00:00:00+00:00"], id="within the calendar"),
    ],
)
def test_times_beyond_the_calendar_are_shown_as_numbers_at_any_depth(
    kind: pa.DataType, value: object, expected: object
) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([value, None], kind)], names=["odd"])

    assert [{"odd": expected}, {"odd": None}] == list(plain_rows(readable(rows)))
