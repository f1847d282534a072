"""Avro by a registry, when a schema has several versions: whose columns count, defaults, unions and former names."""

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from penstock.decoders.avro import Avro
from penstock.errors import SchemaChanged

from support.avro_records import decoded, errors, record, rows, written
from support.events import OPENING
from support.registry_stub import RegistryStub, registry_stub

UTC = datetime.UTC
NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=UTC)


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def test_records_of_several_versions_become_rows_of_the_newest_columns(stub: RegistryStub) -> None:
    first = written(
        stub, record({"name": "id", "type": "int"}, {"name": "gone", "type": "string"}), {"id": 1, "gone": "g"}
    )
    newest = record(
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": "string", "default": "open"},
    )
    second = written(stub, newest, {"id": 2**40, "note": "n", "state": "done"})

    schema, found = decoded(stub, second, first, second)

    new = {"id": 2**40, "note": "n", "state": "done", "gone": None}
    assert [new, {"id": 1, "note": None, "state": "open", "gone": "g"}, new] == rows(schema, found)


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
AT_MS = 1_769_860_800_123
PART = {
    "type": "record",
    "name": "Part",
    "fields": [{"name": "raw", "type": "bytes"}, {"name": "count", "type": "int", "default": 3}],
}
LONG = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        (MILLIS, AT_MS, NOON),
        (NANOS, AT_MS * 1_000_000, NOON),
        ({"type": "array", "items": MILLIS}, [AT_MS], [NOON]),
        ({"type": "map", "values": "bytes"}, {"a": "\u00ff"}, [("a", b"\xff")]),
        (PART, {"raw": "\u00ff"}, {"raw": b"\xff", "count": 3}),
        (["int", "string"], 5, {"int": 5, "string": None}),
        (["int", "string", "long"], 5, {"string": None, "long": 5}),
        (["null", "int", "string"], None, None),
        (LONG, ((10**37 + 1).to_bytes(16, "big")).decode("latin-1"), Decimal(f"{10**37 + 1}e-2")),
    ],
)
def test_a_default_of_every_type_is_the_value_that_a_record_would_have(
    stub: RegistryStub, kind: Any, default: Any, expected: Any
) -> None:
    first = written(stub, record({"name": "id", "type": "int"}), {"id": 1})
    stub.add("orders-value", record({"name": "id", "type": "int"}, {"name": "v", "type": kind, "default": default}))

    schema, found = decoded(stub, first)

    assert [{"id": 1, "v": expected}] == rows(schema, found)


OPTIONAL = {"type": "record", "name": "Part", "fields": [{"name": "x", "type": ["null", "int"]}]}


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        (OPTIONAL, [OPTIONAL, "string"], {"x": 5}, {"Part": {"x": 5}, "string": None}),
        ([OPTIONAL, "string"], OPTIONAL, {"x": 5}, {"x": 5}),
        (["null", OPTIONAL, "string"], ["null", OPTIONAL], None, None),
        ("int", ["string", "int"], 5, {"string": None, "int": 5}),
        ("int", ["string", "long"], 5, {"string": None, "long": 5}),
        (["string", "int"], "long", 5, 5),
        (
            {"type": "array", "items": "int"},
            {"type": "array", "items": ["string", "int"]},
            [5],
            [{"string": None, "int": 5}],
        ),
    ],
)
def test_a_type_becomes_a_union_and_the_other_way_round(
    stub: RegistryStub, writer: Any, reader: Any, value: Any, expected: Any
) -> None:
    first = written(stub, record({"name": "v", "type": writer}), {"v": value})
    stub.add("orders-value", record({"name": "v", "type": reader}))

    schema, found = decoded(stub, first, first)

    assert [{"v": expected}] * 2 == rows(schema, found)


def test_of_a_union_what_is_of_another_type_fails_alone(stub: RegistryStub) -> None:
    schema = record({"name": "v", "type": [OPTIONAL, "string"]})
    good, bad = written(stub, schema, {"v": {"x": 1}}), written(stub, schema, {"v": "text"})
    stub.add("orders-value", record({"name": "v", "type": OPTIONAL}))

    _, found = decoded(stub, good, bad, good)

    assert [{"x": 1}, None, {"x": 1}] == found.columns[0].to_pylist()
    assert [None, "SchemaMismatch: v: string does not become struct<x: int32>", None] == errors(found)


def test_a_number_that_is_too_large_for_a_narrower_column_fails_instead_of_becoming_infinite(
    stub: RegistryStub,
) -> None:
    values = [0.5, 1e300, -math.inf]
    sent = [written(stub, record({"name": "x", "type": "double"}), {"x": value}) for value in values]

    _, found = decoded(stub, *sent, schema="x float")

    assert [0.5, None, -math.inf] == found.columns[0].to_pylist()
    assert [None, "SchemaMismatch: x: 1e+300 is beyond what float holds", None] == errors(found)


def test_a_field_is_found_by_its_former_name(stub: RegistryStub) -> None:
    first = written(stub, record({"name": "nr", "type": "int"}), {"nr": 1})
    stub.add("orders-value", record({"name": "id", "type": "long", "aliases": ["nr"]}))

    schema, found = decoded(stub, first)

    assert [{"id": 1}] == rows(schema, found)


def test_a_record_without_a_field_that_has_no_default_fails_alone(stub: RegistryStub) -> None:
    first = written(stub, record({"name": "id", "type": "int"}), {"id": 1})
    second = written(stub, record({"name": "id", "type": "int"}, {"name": "k", "type": "int"}), {"id": 2, "k": 3})

    _, found = decoded(stub, first, second)

    assert ["SchemaMismatch: k: the record's schema does not have it, and it has no default", None] == errors(found)


def test_a_subject_that_was_deleted_and_begun_again_has_other_columns_under_the_same_number(stub: RegistryStub) -> None:
    written(stub, record({"name": "id", "type": "int"}), {"id": 1})
    decoder = Avro(registry=stub.registry).resolved(["orders"])
    del stub.subjects["orders-value"]
    schema = record({"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None})
    second = written(stub, schema, {"id": 2, "note": "n"})

    with pytest.raises(SchemaChanged, match="'orders-value' has a new version, 1"):
        decoder.open(OPENING).decode([second])


def test_a_new_version_makes_the_driver_look_again_before_its_fields_are_lost(stub: RegistryStub) -> None:
    first = written(stub, record({"name": "id", "type": "int"}), {"id": 1})
    decoder = Avro(registry=stub.registry).resolved(["orders"])
    schema = record({"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None})
    second = written(stub, schema, {"id": 2, "note": "n"})

    with pytest.raises(SchemaChanged, match="'orders-value' has a new version, 2"):
        decoder.open(OPENING).decode([first, second])


def test_a_schema_of_another_subject_is_no_new_version(stub: RegistryStub) -> None:
    written(stub, record({"name": "id", "type": "int"}), {"id": 1})
    decoder = Avro(registry=stub.registry).resolved(["orders"])
    other = written(stub, record({"name": "id", "type": "long"}), {"id": 2}, subject="elsewhere")

    assert [[2]] == [each.to_pylist() for each in decoder.open(OPENING).decode([other]).columns]


def test_a_subject_that_was_deleted_makes_no_record_of_another_worse(stub: RegistryStub) -> None:
    written(stub, record({"name": "id", "type": "int"}), {"id": 1})
    decoder = Avro(registry=stub.registry).resolved(["orders"])
    other = written(stub, record({"name": "id", "type": "long"}), {"id": 3}, subject="elsewhere")
    del stub.subjects["orders-value"]

    assert [[3]] == [each.to_pylist() for each in decoder.open(OPENING).decode([other]).columns]
