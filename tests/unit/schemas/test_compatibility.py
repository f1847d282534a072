"""Which change breaks whom, and at which field."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.schemas.client import RegistryClient
from penstock.schemas.compatibility import breaks, check
from penstock.schemas.schema import Schema
from penstock.schemas.serializer import AnySchema, opened

from support.registry_stub import RegistryStub, registry_stub

ID = {"name": "id", "type": "long"}
COLOURS = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def record(*fields: Any, name: str = "Order", **more: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more})


def of(stub: RegistryStub, text: str, format_: Any = "AVRO") -> AnySchema:
    return opened(RegistryClient(stub.registry), Schema(text=text, format=format_))


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        (record(ID), record(ID), []),
        (record(ID, {"name": "n", "type": "int", "default": 0}), record(ID), []),
        (record(ID, {"name": "n", "type": "int"}), record(ID), [("n", "was not written, and has no default")]),
        (record(ID), record(ID, {"name": "n", "type": "int"}), []),
        (record({"name": "a", "type": "double"}), record({"name": "a", "type": "int"}), []),
        (
            record({"name": "a", "type": "int"}),
            record({"name": "a", "type": "long"}),
            [("a", "long was written, and int is read")],
        ),
        (record({"name": "a", "type": ["null", "string"]}), record({"name": "a", "type": "string"}), []),
        (
            record({"name": "a", "type": "string"}),
            record({"name": "a", "type": ["null", "string"]}),
            [("a", "null was written, and string is read")],
        ),
        (record({"name": "b", "type": "int", "aliases": ["a"]}), record({"name": "a", "type": "int"}), []),
        (
            record({"name": "c", "type": {**COLOURS, "symbols": ["RED"]}}),
            record({"name": "c", "type": COLOURS}),
            [("c", "the symbols BLUE are not known to the reader")],
        ),
        (
            record({"name": "c", "type": {**COLOURS, "symbols": ["RED"], "default": "RED"}}),
            record({"name": "c", "type": COLOURS}),
            [],
        ),
        (
            record({"name": "l", "type": {"type": "array", "items": {"type": "record", "name": "L", "fields": [ID]}}}),
            record({"name": "l", "type": {"type": "array", "items": {"type": "record", "name": "L", "fields": []}}}),
            [("l[].id", "was not written, and has no default")],
        ),
        (record({"name": "next", "type": ["null", "Order"]}), record({"name": "next", "type": ["null", "Order"]}), []),
        (record(ID, name="New"), record(ID, name="Old"), [("the schema", "the record is called New, and was Old")]),
        (record(ID, name="New", aliases=["Old"]), record(ID, name="Old"), []),
    ],
)
def test_avro_follows_its_own_rules(stub: RegistryStub, reader: str, writer: str, expected: list[Any]) -> None:
    assert expected == breaks(of(stub, reader), of(stub, writer))


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ("message M { int64 a = 1; string b = 2; }", "message M { int32 a = 1; }", []),
        (
            "message M { string a = 1; }",
            "message M { int32 a = 1; }",
            [("M.a", "number 1 is read as string, and was written as int32")],
        ),
        (
            "message M { repeated string a = 1; }",
            "message M { string a = 1; }",
            [("M.a", "number 1 was a single field")],
        ),
        (
            "message M { int32 a = 1; }",
            "message M { int32 a = 1; } message N { int32 a = 1; }",
            [("N", "the message is gone")],
        ),
        (
            "message M { oneof o { int32 a = 1; int32 b = 2; } }",
            "message M { int32 a = 1; }",
            [("M.a", "goes into the oneof 'o'")],
        ),
        ("message M { optional int32 a = 1; }", "message M { int32 a = 1; }", []),
    ],
)
def test_protobuf_knows_fields_by_their_numbers(
    stub: RegistryStub, reader: str, writer: str, expected: list[Any]
) -> None:
    schemas = [of(stub, f'syntax = "proto3"; {text}', "PROTOBUF") for text in (reader, writer)]

    assert expected == breaks(*schemas)


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ({"properties": {"a": {"type": "number"}}}, {"properties": {"a": {"type": "integer"}}}, []),
        (
            {"properties": {"a": {"type": "integer"}}},
            {"properties": {"a": {"type": "number"}}},
            [("a", "number was allowed, and is not")],
        ),
        ({"properties": {"a": {}}, "required": ["a"]}, {"properties": {"a": {}}}, [("a", "is required, and was not")]),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, [("the schema", "b was allowed, and is not")]),
        ({"type": "integer", "minimum": 1}, {"type": "integer"}, [("the schema", "`minimum` is narrower")]),
        (
            {"type": "integer", "maximum": 9},
            {"type": "integer", "maximum": 10},
            [("the schema", "`maximum` is narrower")],
        ),
        (
            {"properties": {"a": {"type": "string"}}},
            {"properties": {}},
            [("a", "anything may have been written under this name, which only the reader knows")],
        ),
        ({"properties": {"a": {"type": "string"}}}, {"properties": {}, "additionalProperties": False}, []),
        (
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"properties": {"b": {"type": "string"}}}}},
            {"properties": {"a": {"properties": {"b": {"type": "integer"}}}}},
            [("a.b", "integer was allowed, and is not")],
        ),
        ({"items": {"$ref": "#"}, "type": "array"}, {"items": {"$ref": "#"}, "type": "array"}, []),
        (
            {"properties": {}, "additionalProperties": False},
            {"properties": {"a": {}}, "additionalProperties": False},
            [("a", "was allowed, and is not")],
        ),
    ],
)
def test_json_schema_breaks_where_less_is_allowed(
    stub: RegistryStub, reader: Any, writer: Any, expected: list[Any]
) -> None:
    schemas = [of(stub, json.dumps({"type": "object", **each}), "JSON") for each in (reader, writer)]

    assert expected == breaks(*schemas)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("NONE", []),
        ("BACKWARD", [(2, "those who read records of version 2 with the new schema", "new")]),
        (
            "BACKWARD_TRANSITIVE",
            [
                (1, "those who read records of version 1 with the new schema", "new"),
                (1, "those who read records of version 1 with the new schema", "k"),
                (2, "those who read records of version 2 with the new schema", "new"),
            ],
        ),
        ("FORWARD", []),
        ("FORWARD_TRANSITIVE", [(1, "those who read new records with version 1", "first")]),
        ("FULL", [(2, "those who read records of version 2 with the new schema", "new")]),
    ],
)
def test_whom_a_change_breaks_depends_on_whom_the_subject_protects(
    stub: RegistryStub, level: Any, expected: list[Any]
) -> None:
    key = {"name": "k", "type": "int"}
    stub.add("orders-value", record(ID, {"name": "first", "type": "int"}))
    stub.add("orders-value", record(ID, key))
    stub.levels["orders-value"] = level
    new = Schema(text=record(ID, {"name": "new", "type": "int"}, key))

    found = check(RegistryClient(stub.registry), "orders-value", new)

    assert (level, expected) == (found.level, [(each.version, each.whom, each.field) for each in found.breakages])
    assert 2 == len(stub.subjects["orders-value"])
