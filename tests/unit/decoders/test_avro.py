"""Avro by a registry: which column each type gives, and what fails."""

import datetime
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.decoders.avro import Avro
from penstock.errors import BadInput, RegistryUnavailable
from penstock.schemas.wire import framed

from support.avro_records import decoded, errors, record, rows, written
from support.events import OPENING
from support.registry_stub import RegistryStub, registry_stub

UTC = datetime.UTC
NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=UTC)
US = pa.timestamp("us", tz="UTC")
POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "int"]}],
}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "value", "column", "expected"),
    [
        ("boolean", True, pa.bool_(), True),
        ("int", -5, pa.int32(), -5),
        ("long", 2**62, pa.int64(), 2**62),
        ("float", 1.5, pa.float32(), 1.5),
        ("double", 0.1, pa.float64(), 0.1),
        ("string", "é", pa.string(), "é"),
        ("bytes", b"\xff", pa.binary(), b"\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(), b"ab"),
        (COLOUR, "BLUE", pa.string(), "BLUE"),
        (["null", "long"], None, pa.int64(), None),
        (["long", "null"], 7, pa.int64(), 7),
        (["null", COLOUR], "RED", pa.string(), "RED"),
        (["null", "int", "long"], 2**40, pa.int64(), 2**40),
        (["float", "double"], 0.1, pa.float64(), 0.1),
        (
            ["null", "string", "long", POINT],
            {"x": 1, "y": None},
            pa.struct(
                [
                    ("string", pa.string()),
                    ("long", pa.int64()),
                    ("Point", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
                ]
            ),
            {"string": None, "long": None, "Point": {"x": 1, "y": None}},
        ),
        (
            ["string", "bytes"],
            b"b",
            pa.struct([("string", pa.string()), ("bytes", pa.binary())]),
            {"string": None, "bytes": b"b"},
        ),
        ({"type": "array", "items": ["null", "int"]}, [1, None], pa.list_(pa.int32()), [1, None]),
        ({"type": "map", "values": "long"}, {"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        (POINT, {"x": 1, "y": 2}, pa.struct([("x", pa.int32()), ("y", pa.int32())]), {"x": 1, "y": 2}),
        (
            {"type": "array", "items": POINT},
            [{"x": 1, "y": None}],
            pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())])),
            [{"x": 1, "y": None}],
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Decimal("-12.34"),
            pa.decimal128(9, 2),
            Decimal("-12.34"),
        ),
        (
            {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 12, "scale": 3},
            Decimal("1.500"),
            pa.decimal128(12, 3),
            Decimal("1.500"),
        ),
        ({"type": "int", "logicalType": "date"}, datetime.date(2026, 1, 31), pa.date32(), datetime.date(2026, 1, 31)),
        ({"type": "long", "logicalType": "timestamp-millis"}, NOON, US, NOON),
        ({"type": "long", "logicalType": "timestamp-micros"}, NOON, US, NOON),
        (["null", {"type": "long", "logicalType": "timestamp-millis"}], NOON, US, NOON),
        (
            {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}},
            [NOON],
            pa.list_(US),
            [NOON],
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            NOON.replace(tzinfo=None),
            pa.timestamp("us"),
            NOON.replace(tzinfo=None),
        ),
        ({"type": "int", "logicalType": "time-millis"}, datetime.time(0, 0, 1), pa.int32(), 1000),
        ({"type": "long", "logicalType": "time-micros"}, datetime.time(0, 0, 1), pa.int64(), 1_000_000),
        (
            {"type": "string", "logicalType": "uuid"},
            uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            pa.string(),
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        ),
    ],
)
def test_each_type_gives_its_column(
    stub: RegistryStub, kind: Any, value: Any, column: pa.DataType, expected: Any
) -> None:
    schema, found = decoded(stub, written(stub, record({"name": "c", "type": kind}), {"c": value}))

    assert [(column, [{"c": expected}])] == [(schema.field("c").type, rows(schema, found))]


def test_a_schema_that_is_no_record_gives_the_column_value(stub: RegistryStub) -> None:
    schema, found = decoded(stub, written(stub, ["null", "string"], "x"), written(stub, ["null", "string"], None))

    assert [{"value": "x"}, {"value": None}] == rows(schema, found)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ({"type": "array", "items": "shop.Order"}, "contains itself, which no table can"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}, "no table holds decimal"),
    ],
)
def test_a_schema_that_no_table_can_hold_is_refused_when_the_driver_opens(
    stub: RegistryStub, kind: Any, told: str
) -> None:
    stub.add("orders-value", record({"name": "c", "type": kind}))

    with pytest.raises(BadInput, match=told):
        Avro(registry=stub.registry).resolved(["orders"])


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
PART = {
    "type": "record",
    "name": "Part",
    "fields": [{"name": "raw", "type": "bytes"}, {"name": "count", "type": "int", "default": 3}],
}


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([{"type": "int", "logicalType": "date"}, MILLIS], "whether int or long was written is not known"),
        (
            [{**PART, "name": "a.Part"}, {**PART, "name": "b.Part"}],
            "its union has two types that are called 'Part'",
        ),
    ],
)
def test_a_union_whose_values_cannot_be_told_apart_is_refused(stub: RegistryStub, kinds: Any, told: str) -> None:
    stub.add("orders-value", record({"name": "u", "type": kinds}))

    with pytest.raises(BadInput, match=told):
        Avro(registry=stub.registry).resolved(["orders"])


def test_a_schema_that_is_none_fails_the_records_that_name_it_and_no_others(stub: RegistryStub) -> None:
    good = written(stub, record({"name": "id", "type": "long"}), {"id": 1})
    broken = stub.add("other", record({"name": "id", "type": "nonsense"}))

    _, found = decoded(stub, good, framed(broken, b"\x02"))

    assert (None, "UnusableSchema: schema 2: this is not an Avro schema: shop.nonsense") == tuple(errors(found))


def test_columns_of_the_file_are_found_by_name(stub: RegistryStub) -> None:
    value = written(
        stub,
        record(
            {"name": "id", "type": "int"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
        ),
        {"id": 1, "at": NOON},
    )

    schema, found = decoded(stub, value, schema="at timestamp, id bigint NOT NULL, other string")

    assert [{"at": NOON, "id": 1, "other": None}] == rows(schema, found)


def test_a_column_of_the_file_with_another_type_fails_the_record(stub: RegistryStub) -> None:
    value = written(stub, record({"name": "id", "type": "string"}), {"id": "12"})

    _, found = decoded(stub, value, schema="id bigint")

    assert ["SchemaMismatch: id: string does not become int64"] == errors(found)


def test_what_is_no_record_of_its_schema_fails_alone_with_the_reason(stub: RegistryStub) -> None:
    schema = record({"name": "id", "type": "long"}, {"name": "name", "type": "string"})
    good = written(stub, schema, {"id": 1, "name": "a"})

    _, found = decoded(
        stub, good, None, b"", b"{}{}{}", framed(99, b"x"), good[:-1], good + b"!", framed(1, b"\x02\x02\xff"), good
    )

    told = errors(found)
    assert [None, "Tombstone: the value is null", "NoSchemaId: 0 bytes are too few for a schema id"] == told[:3]
    assert "WrongMagicByte: the first byte is 123, not 0: the value was not written with a schema registry" == told[3]
    assert "UnknownSchema: the registry does not know the schema 99" == told[4]
    assert ["Malformed: the bytes do not fit the schema 'shop.Order'"] * 3 == [str(each)[:55] for each in told[5:8]]
    assert None is told[8]
    assert [1, None, None, None, None, None, None, None, 1] == found.columns[0].to_pylist()


def test_a_schema_in_another_format_is_told(stub: RegistryStub) -> None:
    good = written(stub, record({"name": "id", "type": "long"}), {"id": 1})
    other = stub.add("other", '{"type": "object"}', "JSON")

    _, found = decoded(stub, good, framed(other, b"{}"))

    assert [None, "UnusableSchema: schema 2: it is written in JSON, not in AVRO (schema 2)"] == errors(found)


def test_a_time_outside_of_the_calendar_fails_the_record(stub: RegistryStub) -> None:
    schema = record({"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}})
    good, bad = written(stub, schema, {"at": NOON}), written(stub, schema, {"at": 10**15})

    _, found = decoded(stub, good, bad)

    assert [NOON, None] == found.columns[0].to_pylist()
    assert [None, "SchemaMismatch"] == [each and each.partition(":")[0] for each in errors(found)]


def test_a_registry_that_is_down_is_an_outage_and_no_records_fault(stub: RegistryStub) -> None:
    value = written(stub, record({"name": "id", "type": "int"}), {"id": 1})
    decoder = Avro(registry=stub.registry, schema="id int")
    stub.answer = (503, b"")

    with pytest.raises(RegistryUnavailable):
        decoder.open(OPENING).decode([value])


def test_references_are_part_of_the_schema(stub: RegistryStub) -> None:
    stub.add("point", POINT)
    schema = record({"name": "at", "type": "Point"})
    named = {"name": "Point", "subject": "point", "version": 1}
    schema_id = stub.add("orders-value", json.dumps(schema).replace('"namespace": "shop", ', ""), references=[named])

    arrow, found = decoded(stub, framed(schema_id, b"\x02\x00"))

    assert [{"at": {"x": 1, "y": None}}] == rows(arrow, found)
