"""Protobuf by a registry: which column each type gives, and what fails."""

import base64
import datetime
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.decoders.protobuf import Protobuf
from penstock.errors import BadInput, SchemaChanged
from penstock.record.decoded import Decoded
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.schema import Schema
from penstock.schemas.wire import framed

from support.events import OPENING
from support.registry_stub import RegistryStub, registry_stub

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=datetime.UTC)
KINDS = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
message Order {
  double a_double = 1; float a_float = 2; int32 an_int32 = 3; int64 an_int64 = 4; uint32 a_uint32 = 5;
  uint64 a_uint64 = 6; sint32 a_sint32 = 7; sint64 a_sint64 = 8; fixed32 a_fixed32 = 9; fixed64 a_fixed64 = 10;
  sfixed32 a_sfixed32 = 11; sfixed64 a_sfixed64 = 12; bool a_bool = 13; string a_string = 14; bytes some_bytes = 15;
  enum Colour { RED = 0; BLUE = 1; }
  Colour colour = 16;
  message Point { int32 x = 1; optional int32 y = 2; }
  Point point = 17;
  repeated Point points = 18;
  map<string, int64> counts = 19;
  map<int32, Point> places = 20;
  oneof paid { string card = 21; int64 cash = 22; }
  optional string note = 23;
  google.protobuf.Timestamp at = 24;
  google.protobuf.Duration took = 25;
  google.protobuf.StringValue name = 26;
  google.protobuf.UInt64Value big = 27;
  google.protobuf.Struct extra = 28;
  repeated google.protobuf.Timestamp times = 29;
}
message Refund { int64 an_int64 = 1; }
"""
US = pa.timestamp("us", tz="UTC")
POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])
WRITTEN: dict[str, Any] = {
    "a_double": 0.1, "a_float": 1.5, "an_int32": -1, "an_int64": -(2**62), "a_uint32": 2**32 - 1,
    "a_uint64": 2**64 - 1, "a_sint32": -2, "a_sint64": -3, "a_fixed32": 4, "a_fixed64": 5, "a_sfixed32": -6,
    "a_sfixed64": -7, "a_bool": True, "a_string": "é", "some_bytes": base64.b64encode(b"\xff").decode(),
    "colour": "BLUE", "point": {"x": 1}, "points": [{"x": 1, "y": 0}], "counts": {"b": 2, "a": 1},
    "places": {"7": {"x": 3}}, "cash": 0, "note": "", "at": "2026-01-31T12:00:00.123456789Z", "took": "1.5s",
    "name": "n", "big": 9, "extra": {"k": [1]}, "times": ["2026-01-31T12:00:00.123456Z"],
}  # fmt: skip
EXPECTED: dict[str, tuple[pa.DataType, Any, Any]] = {
    "a_double": (pa.float64(), 0.1, 0.0),
    "a_float": (pa.float32(), 1.5, 0.0),
    "an_int32": (pa.int32(), -1, 0),
    "an_int64": (pa.int64(), -(2**62), 0),
    "a_uint32": (pa.int64(), 2**32 - 1, 0),
    "a_uint64": (pa.decimal128(20, 0), Decimal(2**64 - 1), Decimal(0)),
    "a_sint32": (pa.int32(), -2, 0),
    "a_sint64": (pa.int64(), -3, 0),
    "a_fixed32": (pa.int64(), 4, 0),
    "a_fixed64": (pa.decimal128(20, 0), Decimal(5), Decimal(0)),
    "a_sfixed32": (pa.int32(), -6, 0),
    "a_sfixed64": (pa.int64(), -7, 0),
    "a_bool": (pa.bool_(), True, False),
    "a_string": (pa.string(), "é", ""),
    "some_bytes": (pa.binary(), b"\xff", b""),
    "colour": (pa.string(), "BLUE", "RED"),
    "point": (POINT, {"x": 1, "y": None}, None),
    "points": (pa.list_(POINT), [{"x": 1, "y": 0}], []),
    "counts": (pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", 2)], []),
    "places": (pa.map_(pa.string(), POINT), [("7", {"x": 3, "y": None})], []),
    "card": (pa.string(), None, None),
    "cash": (pa.int64(), 0, None),
    "note": (pa.string(), "", None),
    "at": (US, NOON, None),
    "took": (pa.int64(), 1_500_000, None),
    "name": (pa.string(), "n", None),
    "big": (pa.decimal128(20, 0), Decimal(9), None),
    "extra": (pa.string(), '{"k": [1.0]}', None),
    "times": (pa.list_(US), [NOON], []),
}


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def written(stub: RegistryStub, text: str, value: Any, message: str | None = None) -> bytes:
    schema = ProtobufSchema(Schema(text=text, format="PROTOBUF"))
    indexes = (0,) if message is None else schema.indexes_of(message)
    return framed(stub.add("orders-value", text, "PROTOBUF"), schema.encode(value, indexes))


def decoded(stub: RegistryStub, *values: bytes, **options: Any) -> tuple[pa.Schema, Decoded]:
    decoder = Protobuf(registry=stub.registry, **options).resolved(["orders"])
    travelled = pickle.loads(pickle.dumps(decoder))  # noqa: S301 - as it comes to a task
    assert travelled.arrow_schema is not None
    return travelled.arrow_schema, travelled.open(OPENING).decode(values)


def errors(found: Decoded) -> list[str | None]:
    return [None if each is None else f"{each['error']}: {each['message']}" for each in found.record_errors]


def test_each_type_gives_its_column_and_what_is_not_there_its_default_or_null(stub: RegistryStub) -> None:
    schema, found = decoded(stub, written(stub, KINDS, WRITTEN), written(stub, KINDS, {}))

    assert [None, None] == errors(found)
    made = dict(zip(schema.names, (each.to_pylist() for each in found.columns), strict=True))
    assert {name: (kind, [value, default]) for name, (kind, value, default) in EXPECTED.items()} == {
        name: (schema.field(name).type, values) for name, values in made.items()
    }


def test_a_number_that_no_name_of_the_enum_has_stays_a_number(stub: RegistryStub) -> None:
    value = written(stub, 'syntax = "proto3"; enum E { A = 0; } message M { E e = 1; }', {})

    _, found = decoded(stub, value + b"\x08\x07")

    assert [["7"]] == [each.to_pylist() for each in found.columns]


ANY = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
message Order { int32 id = 1; google.protobuf.Any more = 2; google.protobuf.Value v = 3; }
message Part { string name = 1; }
"""


def test_what_json_has_no_word_for_fails_its_record_alone(stub: RegistryStub) -> None:
    order = ProtobufSchema(Schema(text=ANY, format="PROTOBUF")).message_class()
    stub.add("orders-value", ANY, "PROTOBUF")
    messages = [order(id=number) for number in range(4)]
    messages[1].more.type_url = "type.googleapis.com/Part"
    messages[1].more.value = b"\x0a\x01x"
    messages[2].more.type_url = "type.googleapis.com/nobody.Knows"
    messages[3].v.number_value = float("nan")

    _, found = decoded(stub, *(framed(1, b"\x00" + each.SerializeToString()) for each in messages))

    told = errors(found)
    assert ([None, None], [0, 1, None, None]) == (told[:2], found.columns[0].to_pylist())
    assert '{"@type": "type.googleapis.com/Part", "name": "x"}' == found.columns[1].to_pylist()[1]
    assert ["SchemaMismatch: more: ", "SchemaMismatch: v: Fai"] == [str(each)[:22] for each in told[2:]]


def test_a_schema_that_is_none_fails_the_records_that_name_it_and_no_others(stub: RegistryStub) -> None:
    good = written(stub, 'syntax = "proto3"; message M { string name = 1; }', {"name": "a"})
    broken = stub.add("other", 'syntax = "proto3"; message M { nonsense name = 1; }', "PROTOBUF")

    _, found = decoded(stub, good, framed(broken, b"\x00"))

    assert [None, "UnusableSchema: schema 2: this is not a Protobuf schema"] == [
        each and each[:55] for each in errors(found)
    ]


def test_other_messages_of_the_schema_give_rows_of_the_same_columns(stub: RegistryStub) -> None:
    refund = written(stub, KINDS, {"an_int64": 5}, "Refund")

    schema, found = decoded(stub, refund, written(stub, KINDS, {"an_int64": 6}), schema="an_int64 bigint")
    _, chosen = decoded(stub, refund, message="Refund")

    assert [[5, 6]] == [each.to_pylist() for each in found.columns]
    assert (["an_int64"], [[5]]) == (schema.names, [each.to_pylist() for each in chosen.columns])


def test_another_message_makes_no_row_of_defaults(stub: RegistryStub) -> None:
    order, refund = written(stub, KINDS, {"an_int64": 6}), written(stub, KINDS, {"an_int64": 5}, "Refund")

    _, found = decoded(stub, order, refund)
    _, alone = decoded(stub, order, message="Refund")

    assert [None, "OtherMessage: it is the message 'Refund', and the columns are those of Order"] == errors(found)
    assert ["OtherMessage: it is the message 'Order', and the columns are those of Refund"] == errors(alone)


def test_a_serialised_descriptor_is_a_schema_too(stub: RegistryStub) -> None:
    text = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp at = 1; }'
    )
    serialised = base64.b64encode(ProtobufSchema(Schema(text=text, format="PROTOBUF")).file.serialized_pb).decode()
    value = written(stub, serialised, {"at": "2026-01-31T12:00:00.123456Z"})

    _, found = decoded(stub, value)

    assert [[NOON]] == [each.to_pylist() for each in found.columns]


def test_what_is_no_message_of_its_schema_fails_alone_with_the_reason(stub: RegistryStub) -> None:
    text = 'syntax = "proto3"; message M { string name = 1; }'
    good = written(stub, text, {"name": "a"})

    _, found = decoded(stub, good, good[:-1], framed(1, b"\x02\x08x"), framed(1, b""), framed(9, b"\x00"), b"nothing")

    told = errors(found)
    assert None is told[0]
    assert str(told[1]).startswith("Malformed: the bytes do not fit the message 'M'")
    assert [
        "Malformed: the schema has no message at [4]",
        "Malformed: the message indexes end too early",
        "UnknownSchema: the registry does not know the schema 9",
        "WrongMagicByte: the first byte is 110, not 0: the value was not written with a schema registry",
    ] == told[2:]
    assert ["a", None, None, None, None, None] == found.columns[0].to_pylist()


def test_a_new_field_makes_the_driver_look_again_and_older_records_have_its_default(stub: RegistryStub) -> None:
    first = written(stub, 'syntax = "proto3"; message M { string name = 1; }', {"name": "a"})
    decoder = Protobuf(registry=stub.registry).resolved(["orders"])
    newer = 'syntax = "proto3"; message M { string name = 1; int32 count = 2; optional string note = 3; }'
    second = written(stub, newer, {"name": "b", "count": 2, "note": "n"})
    with pytest.raises(SchemaChanged):
        decoder.open(OPENING).decode([second])

    schema, found = decoded(stub, first, second)

    assert ["name", "count", "note"] == schema.names
    assert [["a", "b"], [0, 2], [None, "n"]] == [each.to_pylist() for each in found.columns]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("message M { M next = 1; }", "contains itself, which no table can"),
        ("message M { }", "has no fields"),
        ("message M { strin a = 1; }", "this is not a Protobuf schema"),
    ],
)
def test_a_schema_that_no_table_can_hold_is_refused_when_the_driver_opens(
    stub: RegistryStub, text: str, told: str
) -> None:
    stub.add("orders-value", f'syntax = "proto3"; {text}', "PROTOBUF")

    with pytest.raises(BadInput, match=told):
        Protobuf(registry=stub.registry).resolved(["orders"])
