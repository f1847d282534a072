"""Schemas that anybody may have registered: records that name one fail alone, and the others become rows."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from penstock.decoders.avro import Avro
from penstock.decoders.json import Json
from penstock.decoders.protobuf import Protobuf
from penstock.errors import BadInput
from penstock.schemas.client import RegistryClient
from penstock.schemas.compatibility import check
from penstock.schemas.schema import Schema
from penstock.schemas.wire import framed

from support.avro_records import errors, record, written
from support.events import OPENING
from support.registry_stub import RegistryStub, registry_stub

ORDER = record({"name": "id", "type": "long"})
SECOND = 'syntax = "proto3"; message Second { int64 id = 1; }'


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def of_type(kind: Any) -> dict[str, Any]:
    return record({"name": "id", "type": kind})


def doubled_messages(count: int) -> str:
    """Return a file whose few messages each name the next one twice."""
    last = f"message M{count} {{ int64 id = 1; }}"
    others = (f"message M{each} {{ M{each + 1} a = 1; M{each + 1} b = 2; }}" for each in range(count))
    return "\n".join(['syntax = "proto3";', *others, last])


@pytest.mark.parametrize(
    "schema",
    [
        of_type({"type": "long", "logicalType": []}),
        of_type({"type": "bytes", "logicalType": "decimal"}),
        of_type({"type": "bytes", "logicalType": "decimal", "precision": "x"}),
        record({"name": "id", "type": "long", "aliases": 5}),
        of_type({"type": "array", "items": "null"}),
        record({"name": "id", "type": "long"}, {"name": "id", "type": "long"}),
    ],
)
def test_an_odd_avro_schema_fails_the_records_that_name_it_and_no_others(stub: RegistryStub, schema: Any) -> None:
    good = written(stub, ORDER, {"id": 7})
    odd = framed(stub.add("elsewhere", schema), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00")
    found = Avro(registry=stub.registry, schema="id bigint").open(OPENING).decode([good, odd, good])

    assert [None, True, None] == [
        each and each.split(":")[0] in {"UnusableSchema", "Malformed"} for each in errors(found)
    ]


@pytest.mark.parametrize(
    "schema",
    [
        of_type({"type": "bytes", "logicalType": "decimal"}),
        of_type({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": {}}),
        of_type(["null", ["null", "long"]]),
        of_type({"type": "bytes", "logicalType": {}}),
        record({"name": True, "type": "long"}),
        record({"name": "", "type": "long"}),
        record({"name": "id", "type": "long"}, {"name": "id", "type": "long"}),
    ],
)
def test_an_odd_avro_schema_gives_no_columns_and_is_compared_by_the_registry_alone(
    stub: RegistryStub, schema: Any
) -> None:
    stub.add("orders-value", schema)

    with pytest.raises(BadInput, match=r"gives no columns|not an Avro schema"):
        Avro(registry=stub.registry, schema="registry").resolved(["orders"])
    with suppress(BadInput):
        ours = Schema(text=json.dumps(of_type({"type": "bytes", "logicalType": "decimal", "precision": 9})))
        check(RegistryClient(stub.registry), "orders-value", ours)


def test_references_without_an_end_fail_the_records_and_no_others(stub: RegistryStub) -> None:
    good = written(stub, ORDER, {"id": 7})
    stub.add("end", record())
    stub.add("again", record(), references=[{"name": "x", "subject": "end", "version": 1}])
    again = stub.add("a", ORDER, references=[{"name": "x", "subject": "again", "version": 1}])
    long = 0
    for number in range(1100):
        reference = {"name": f"n{number}", "subject": f"s{number - 1}", "version": 1}
        long = stub.add(f"s{number}", of_type("long"), references=[reference] if number else [])
    decoder = Avro(registry=stub.registry, schema="id bigint").open(OPENING)
    found = decoder.decode([good, framed(again, b"\x02"), framed(long, b"\x02"), good])

    assert [
        None,
        f"UnusableSchema: schema {again}: the schema 'x' refers to itself through its references",
        f"UnusableSchema: schema {long}: its references lead on through more than 100 schemas",
        None,
    ] == errors(found)


@pytest.mark.parametrize("name", ["", ".", "a\0b", "x" * 300, "x/" * 2000 + "y", "../x.proto", "/x.proto"])
def test_a_protobuf_file_with_an_odd_name_fails_the_records_and_no_others(stub: RegistryStub, name: str) -> None:
    good = framed(stub.add("orders-value", SECOND.replace("Second", "Order"), "PROTOBUF"), b"\x00\x08\x07")
    stub.add("second", SECOND, "PROTOBUF")
    references = [{"name": name, "subject": "second", "version": 1}]
    odd = framed(stub.add("odd", SECOND.replace("Second", "Odd"), "PROTOBUF", references), b"\x00\x08\x07")
    found = Protobuf(registry=stub.registry, schema="id bigint").open(OPENING).decode([good, odd])

    failure = errors(found)[1]
    assert failure is not None
    assert (None, True) == (errors(found)[0], "is not a name that a Protobuf file is imported by" in failure)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('syntax = "proto3"; message M { M next = 1; }', "contains itself"),
        ('syntax = "proto3"; message M { }', "has no fields"),
        (doubled_messages(40), "has more parts than any table"),
    ],
)
def test_a_message_that_no_table_can_hold_fails_the_records_and_no_others(
    stub: RegistryStub, text: str, told: str
) -> None:
    good = framed(stub.add("orders-value", SECOND, "PROTOBUF"), b"\x00\x08\x07")
    odd = framed(stub.add("odd", text, "PROTOBUF"), b"\x00")
    found = Protobuf(registry=stub.registry, schema="id bigint").open(OPENING).decode([good, odd, odd])

    assert [None, True, True] == [each and told in each for each in errors(found)]


def test_a_json_schema_whose_few_parts_name_each_other_gives_no_columns(stub: RegistryStub) -> None:
    parts: dict[str, Any] = {"p0": {"type": "integer"}}
    for number in range(1, 45):
        part = {"$ref": f"#/definitions/p{number - 1}"}
        parts[f"p{number}"] = {"type": "object", "properties": {"a": part, "b": part}}
    stub.add("orders-value", {"definitions": parts, "$ref": "#/definitions/p44"}, "JSON")

    with pytest.raises(BadInput, match="more parts than any table"):
        Json(registry=stub.registry, schema="registry").resolved(["orders"])
