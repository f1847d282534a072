"""Values of changes: those of every type as the database had them, and a failed record instead of another value."""

import base64
import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

from penstock.steps.debezium import column_type

from support.cdc_step import INT, run, table
from support.debezium import change

AT = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=datetime.UTC)
AT_US = int(AT.timestamp()) * 1_000_000 + 123456


@pytest.mark.parametrize(
    ("kind", "value", "named", "expected"),
    [
        ("timestamp", AT_US, None, AT),
        ("timestamp", AT_US // 1000, "io.debezium.time.Timestamp", AT.replace(microsecond=123000)),
        ("timestamp", AT_US, "io.debezium.time.MicroTimestamp", AT),
        ("timestamp", AT_US * 1000, "io.debezium.time.NanoTimestamp", AT),
        ("timestamp", "2024-02-29T12:30:15.123456Z", "io.debezium.time.ZonedTimestamp", AT),
        ("timestamp_ntz", AT_US, "io.debezium.time.MicroTimestamp", AT.replace(tzinfo=None)),
        ("date", 19782, "io.debezium.time.Date", datetime.date(2024, 2, 29)),
        ("date", "2024-02-29Z", "io.debezium.time.IsoDate", datetime.date(2024, 2, 29)),
        ("decimal(10,2)", "12.30", None, Decimal("12.30")),
        ("decimal(10,2)", {"scale": 1, "value": base64.b64encode(b"\x7b").decode()}, None, Decimal("12.30")),
        ("double", 0.1, None, 0.1),
        ("double", "-Infinity", None, -math.inf),
        ("float", "Infinity", None, math.inf),
        ("map<string, double>", {"a": 0.5}, None, {"a": 0.5}),
        ("struct<x: double, at: timestamp>", {"x": 0.5, "at": AT_US}, None, {"x": 0.5, "at": AT}),
        ("binary", base64.b64encode(b"\x00\xff").decode(), None, b"\x00\xff"),
        ("array<bigint>", [1, None], None, [1, None]),
        ("boolean", True, None, True),
        ("string", '{"a": 1}', "io.debezium.data.Json", '{"a": 1}'),
    ],
)
def test_values_of_every_type_are_what_the_database_had(
    kind: str, value: Any, named: str | None, expected: Any
) -> None:
    fields = [INT, {"type": "int64", "field": "v", **({"name": named} if named else {})}]
    rows = run(change("c", {"id": 1, "v": value}, schema=fields), schema=f"id bigint NOT NULL, v {kind}")

    assert [(1, expected)] == table(rows)


def test_a_decimal_in_bytes_has_the_scale_of_its_schema() -> None:
    scaled = {
        "type": "bytes",
        "field": "v",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
    }
    few, many = (
        base64.b64encode(each.to_bytes(16, "big", signed=True)).decode() for each in (-1230, 123456789 * 10**29 + 7)
    )

    rows = run(
        *(change("c", {"id": 1, "v": value}, schema=[INT, scaled]) for value in (few, many)),
        schema="id bigint NOT NULL, v decimal(38,2)",
    )

    assert [(1, Decimal("-12.30")), (1, Decimal("123456789000000000000000000000000000.07"))] == table(rows)


def test_a_number_with_more_digits_than_a_double_has_stays_exact() -> None:
    value = change("c", {"id": 1, "v": 0}).replace(b'"v": 0', b'"v": 12345678901234567890.12')

    rows = run(value, schema="id bigint NOT NULL, v decimal(38,2)")

    assert [(1, Decimal("12345678901234567890.12"))] == table(rows)


def test_a_double_that_is_no_number_is_none() -> None:
    ((_, value),) = table(run(change("c", {"id": 1, "v": "NaN"}), schema="id bigint NOT NULL, v double"))

    assert math.isnan(value)


@pytest.mark.parametrize(
    ("kind", "items", "value", "expected"),
    [
        ("timestamp", {"type": "int64", "name": "io.debezium.time.Timestamp"}, 86_400_000, datetime.date(1970, 1, 2)),
        (
            "decimal(10,2)",
            {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
            base64.b64encode((1230).to_bytes(2, "big")).decode(),
            Decimal("12.30"),
        ),
    ],
)
def test_items_of_an_array_are_meant_as_its_schema_says(
    kind: str, items: dict[str, Any], value: Any, expected: Any
) -> None:
    fields: list[dict[str, Any]] = [INT, {"type": "array", "items": items, "field": "v"}]
    rows = run(change("c", {"id": 1, "v": [value, None]}, schema=fields), schema=f"id bigint NOT NULL, v array<{kind}>")

    ((_, (found, nothing)),) = table(rows)
    assert (expected, None) == (found.date() if isinstance(found, datetime.datetime) else found, nothing)


@pytest.mark.parametrize(
    ("kind", "value", "named"),
    [
        ("timestamp", 19782, "io.debezium.time.Date"),
        ("timestamp", 43_200_000_000, "io.debezium.time.MicroTime"),
        ("timestamp", 1_700_000_000_000_000_001, "io.debezium.time.NanoTimestamp"),
        ("timestamp", "2024-02-29T12:30:15.123456789Z", "io.debezium.time.ZonedTimestamp"),
        ("timestamp", 2**63 - 1, "io.debezium.time.MicroTimestamp"),
        ("timestamp", "+292278994-08-16T23:00:00Z", "io.debezium.time.ZonedTimestamp"),
        ("timestamp", 1.5, None),
        ("date", 1_700_000_000_000, "io.debezium.time.Timestamp"),
        ("date", 3600, "io.debezium.time.MicroTime"),
        ("date", 2**31 - 1, "io.debezium.time.Date"),
        ("date", -800_000, "io.debezium.time.Date"),
        ("decimal(10,2)", "NaN", None),
        ("decimal(10,2)", "1.234", None),
        ("double", "seven", None),
        ("bigint", 2**63, None),
        ("array<bigint>", [None, None], None),
        ("array<string>", ["[Ljava.lang.String;@79c7aabc", "[Ljava.lang.String;@3a2b7ca2"], None),
    ],
)
def test_a_value_that_its_column_would_hold_as_another_one_fails_its_record(
    kind: str, value: Any, named: str | None
) -> None:
    fields = [INT, {"type": "int64", "field": "v", **({"name": named} if named else {})}]
    (row,) = run(change("c", {"id": 1, "v": value}, schema=fields), schema=f"id bigint NOT NULL, v {kind}")

    assert ("SchemaMismatch", True) == (row["_error"]["error"], row["_error"]["message"].startswith("v: "))


DECIMAL = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        ("string", "aGk=", {"type": "bytes"}),
        ("binary", "text", {"type": "string"}),
        ("string", "BM4=", {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}}),
        ("array<string>", ["aGk="], {"type": "array", "items": {"type": "bytes"}}),
    ],
)
def test_text_and_bytes_which_look_alike_in_json_are_told_apart_by_the_schema(
    kind: str, value: Any, field: dict[str, Any]
) -> None:
    changes = [change("c", {"id": 1, "v": each}, schema=[INT, {**field, "field": "v"}]) for each in (value, None)]
    failed, passed = run(*changes, schema=f"id bigint NOT NULL, v {kind}")

    assert "SchemaMismatch" == failed["_error"]["error"]
    assert [(1, None)] == table([passed])


NUMERIC = {
    "__debezium.source.column.type": "NUMERIC",
    "__debezium.source.column.length": "12",
    "__debezium.source.column.scale": "2",
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "int16"}, "bigint"),
        ({"type": "int64"}, "bigint"),
        ({"type": "float"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "string", "name": "io.debezium.data.Json"}, "string"),
        ({"type": "string", "parameters": NUMERIC}, "decimal(12,2)"),
        ({"type": "string", "parameters": {"__debezium.source.column.type": "NUMERIC"}}, "string"),
        ({"type": "string", "parameters": {**NUMERIC, "__debezium.source.column.length": "131089"}}, "string"),
        (
            {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "3", "connect.decimal.precision": "9"}},
            "decimal(9,3)",
        ),
        ({"type": "bytes"}, "binary"),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "date"),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "timestamp_ntz"),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "timestamp"),
        ({"type": "array", "items": {"type": "int32"}}, "array<bigint>"),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}}, "map<string, string>"),
        ({"type": "struct", "fields": []}, None),
        ({"type": "array", "items": {"type": "struct"}}, None),
    ],
)
def test_a_column_of_the_records_schema_has_the_type_that_holds_its_values(
    schema: dict[str, Any], expected: str | None
) -> None:
    assert expected == column_type(schema)
