import datetime
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadInput, NotFound
from penstock.schemas import protobuf
from penstock.schemas.schema import Reference, Schema
from penstock.schemas.serializer import Deserializer, Serializer
from penstock.schemas.wire import framed

from support.registry_stub import RegistryStub, registry_stub

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "raw", "type": ["null", "bytes"], "default": None},
        {
            "name": "lines",
            "type": {"type": "array", "items": {"type": "map", "values": ["null", "int"]}},
            "default": [],
        },
    ],
}
PERSON = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
PROTO = """
syntax = "proto3";
package shop;
message Order { int64 id = 1; string name = 2; message Line { int32 count = 1; } repeated Line lines = 3; }
message Refund { int64 id = 1; }
"""
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def avro(schema: Any = ORDER) -> Schema:
    return Schema(text=json.dumps(schema))


def test_a_value_comes_back_with_the_id_of_its_schema(stub: RegistryStub) -> None:
    value = {"id": 1, "price": Decimal("1.50"), "at": NOON, "raw": b"\xff", "lines": [{"a": 1, "b": None}]}
    data = Serializer(stub.registry, avro()).encode("orders", value)
    found = Deserializer(stub.registry).decode(data or b"")

    assert (value, 1) == (found.value, found.schema_id)
    assert {"orders-value": [1]} == stub.subjects


def test_json_and_protobuf_come_back_too(stub: RegistryStub) -> None:
    person = Serializer(stub.url, Schema(text=json.dumps(PERSON), format="JSON"))
    order = Serializer(stub.url, Schema(text=PROTO, format="PROTOBUF"))
    refund = Serializer(stub.url, Schema(text=PROTO, format="PROTOBUF"), message="Refund")
    reader = Deserializer(stub.registry)

    made = [
        person.encode("people", {"name": "ann", "age": 3}),
        order.encode("orders", {"id": 7, "name": "x", "lines": [{"count": 2}]}),
        refund.encode("refunds", {"id": 8}),
    ]

    assert [
        {"name": "ann", "age": 3},
        {"id": "7", "name": "x", "lines": [{"count": 2}]},
        {"id": "8"},
    ] == [reader.decode(each or b"").value for each in made]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"id": "1", "price": Decimal(1)}, "id: a value of type str is not long"),
        ({"id": 2**63, "price": Decimal(1)}, f"id: {2**63} is not long"),
        ({"id": True, "price": Decimal(1)}, "id: True is not long"),
        ({"id": 1}, "price: is missing, and has no default"),
        ({"id": 1, "price": Decimal(1), "extra": 1}, "extra: the schema has no such field"),
        ({"id": 1, "price": Decimal("0.001")}, r"price: Decimal\('0.001'\) is not decimal\(9,2\)"),
        ({"id": 1, "price": Decimal(10**8)}, r"is not decimal\(9,2\)"),
        ({"id": 1, "price": Decimal(1), "at": 1.5}, r"at: 1.5 is not long \(timestamp-millis\)"),
        ({"id": 1, "price": Decimal(1), "lines": [{"a": "x"}]}, r"lines\[0\].a: a value of type str is not int"),
        ([], "the value: a value of type list is not record shop.Order"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_part_before_the_schema_is_registered(
    stub: RegistryStub, value: Any, told: str
) -> None:
    with pytest.raises(BadInput, match=f"the value does not fit its schema: .*{told}.* It was not sent"):
        Serializer(stub.registry, avro()).encode("orders", value)

    assert {} == stub.subjects


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (Schema(text=json.dumps(PERSON), format="JSON"), {"name": 1}, "name: 1 is not of type 'string'"),
        (Schema(text=json.dumps(PERSON), format="JSON"), {"age": 1}, "'name' is a required property"),
        (Schema(text='{"type": "number"}', format="JSON"), math.nan, "the value: JSON has no number for nan"),
        (Schema(text='{"type": "object"}', format="JSON"), {"a": [math.inf]}, r"a\[0\]: JSON has no number for inf"),
        (Schema(text='"double"'), 2**53 + 1, "9007199254740993 is not double"),
        (Schema(text='"float"'), 2**24 + 1, "16777217 is not float"),
        (Schema(text='"double"'), 10**400, "is not double"),
        (Schema(text=json.dumps(PERSON), format="JSON"), {"name": "a", "x": 1}, "Additional properties"),
        (Schema(text=PROTO, format="PROTOBUF"), {"id": "x"}, "id"),
        (Schema(text=PROTO, format="PROTOBUF"), {"nothing": 1}, "has no field named"),
        (Schema(text=PROTO, format="PROTOBUF"), "text", "is not the message shop.Order"),
    ],
)
def test_the_other_formats_refuse_as_well(stub: RegistryStub, schema: Schema, value: Any, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        Serializer(stub.registry, schema).encode("t", value)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TopicName", "orders-key"), ("RecordName", "shop.Order"), ("TopicRecordName", "orders-shop.Order")],
)
def test_subjects_are_named_by_the_strategy(stub: RegistryStub, strategy: Any, subject: str) -> None:
    Serializer(stub.registry, avro(), strategy=strategy).schema_id("orders", is_key=True)

    assert [subject] == list(stub.subjects)


def test_a_schema_is_only_looked_for_if_it_may_not_be_registered(stub: RegistryStub) -> None:
    serializer = Serializer(stub.registry, avro(), register=False)
    with pytest.raises(NotFound, match=r"'orders-value' does not have this schema\. Nothing was sent"):
        serializer.schema_id("orders")
    stub.add("orders-value", ORDER)

    assert 1 == serializer.schema_id("orders")


def test_a_tombstone_stays_one(stub: RegistryStub) -> None:
    assert None is Serializer(stub.registry, avro()).encode("orders", None)


def test_what_json_has_not_is_text_there(stub: RegistryStub) -> None:
    serializer = Serializer(stub.registry, avro())
    value = {"id": 1, "price": "1.50", "at": "2026-01-31T12:00:00Z", "raw": "/w==", "lines": [{"a": 1}]}

    assert {"id": 1, "price": Decimal("1.50"), "at": NOON, "raw": b"\xff", "lines": [{"a": 1}]} == serializer.of_json(
        value
    )


def test_references_of_every_format_are_found(stub: RegistryStub) -> None:
    stub.add("line", {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]})
    stub.add("line.proto", 'syntax = "proto3"; message Line { int32 n = 1; }', "PROTOBUF")
    stub.add("line.json", '{"type": "integer"}', "JSON")
    fields = [{"name": "line", "type": "Line"}]
    by_avro = Schema(
        text=json.dumps({"type": "record", "name": "O", "fields": fields}),
        references=(Reference(name="Line", subject="line", version=1),),
    )
    by_proto = Schema(
        text='syntax = "proto3"; import "shared/line.proto"; message O { Line line = 1; }',
        format="PROTOBUF",
        references=(Reference(name="shared/line.proto", subject="line.proto", version=1),),
    )
    by_json = Schema(
        text='{"type": "object", "properties": {"line": {"$ref": "line.json"}}}',
        format="JSON",
        references=(Reference(name="line.json", subject="line.json", version=1),),
    )
    reader = Deserializer(stub.registry)
    made = [
        Serializer(stub.registry, by_avro).encode("a", {"line": {"n": 1}}),
        Serializer(stub.registry, by_proto).encode("b", {"line": {"n": 1}}),
        Serializer(stub.registry, by_json).encode("c", {"line": 1}),
    ]

    assert [{"line": {"n": 1}}, {"line": {"n": 1}}, {"line": 1}] == [reader.decode(each or b"").value for each in made]
    with pytest.raises(BadInput, match="line: 'x' is not of type 'integer'"):
        Serializer(stub.registry, by_json).encode("c", {"line": "x"})


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (Schema(text='{"type": "record"}'), "this is not an Avro schema"),
        (Schema(text="{"), "this is not an Avro schema"),
        (Schema(text='{"type": "strin"}'), "this is not an Avro schema: .*strin"),
        (Schema(text="{", format="JSON"), "this is not a JSON Schema"),
        (Schema(text='{"type": 5}', format="JSON"), "this is not a JSON Schema"),
        (Schema(text="message X {", format="PROTOBUF"), "this is not a Protobuf schema: line 1"),
        (Schema(text='syntax = "proto3";', format="PROTOBUF"), "has no message"),
    ],
)
def test_a_schema_that_is_none_is_told(stub: RegistryStub, schema: Schema, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        Serializer(stub.registry, schema)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{}", "too few for a schema id"),
        (b"plain text", "the first byte is 112"),
        (framed(1, b"\x02"), "do not fit the schema 'shop.Order'"),
    ],
)
def test_bytes_that_cannot_be_read_say_why(stub: RegistryStub, data: bytes, told: str) -> None:
    stub.add("orders-value", ORDER)

    with pytest.raises(BadInput, match=told):
        Deserializer(stub.registry).decode(data)


def test_a_file_is_known_by_its_name(stub: RegistryStub, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "order.txt").write_text(json.dumps(ORDER))

    assert avro() == Serializer(stub.registry, tmp_path / "order.avsc").schema
    with pytest.raises(BadInput, match=r"by its name it is not an \.avsc"):
        Serializer(stub.registry, tmp_path / "order.txt")
    with pytest.raises(NotFound, match="there is no file"):
        Serializer(stub.registry, tmp_path / "other.avsc")


def test_a_json_schema_that_refers_to_itself_for_ever_fits_no_value(stub: RegistryStub) -> None:
    schema_id = stub.add("loop-value", {"$ref": "#"}, "JSON")

    with pytest.raises(BadInput, match="nested without an end"):
        Deserializer(stub.registry).decode(framed(schema_id, b"{}"))


def test_a_schema_that_cannot_be_used_is_not_compiled_again_for_each_record(
    stub: RegistryStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, compile_ = list[str](), protobuf._protoc

    def counted(folder: Path, name: str) -> bytes:
        compiled.append(name)
        return compile_(folder, name)

    monkeypatch.setattr(protobuf, "_protoc", counted)
    schema_id = stub.add("odd-value", 'syntax = "proto3"; message M { strin a = 1; }', "PROTOBUF")
    reader = Deserializer(stub.registry)
    for _ in range(3):
        with pytest.raises(BadInput, match="this is not a Protobuf schema"):
            reader.decode(framed(schema_id, b"\x00"))

    assert 1 == len(compiled)
