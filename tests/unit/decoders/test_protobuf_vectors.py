"""Columns of many messages at once are those that Protobuf itself reads; what is odd is marked, and left to that."""

import functools
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from penstock.decoders.columns import settled
from penstock.decoders.protobuf import ProtobufPayloads
from penstock.decoders.protobuf_columns import protobuf_columns
from penstock.decoders.protobuf_vectors import ProtobufVectors
from penstock.decoders.vectors import Chunk
from penstock.record.decoded import RecordError
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.schema import Schema

PROTO3 = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Order {
  double a_double = 1; float a_float = 2; int32 an_int32 = 3; int64 an_int64 = 4; uint32 a_uint32 = 5;
  uint64 a_uint64 = 6; sint32 a_sint32 = 7; sint64 a_sint64 = 8; fixed32 a_fixed32 = 9; fixed64 a_fixed64 = 10;
  sfixed32 a_sfixed32 = 11; sfixed64 a_sfixed64 = 12; bool a_bool = 13; string a_string = 14; bytes some_bytes = 15;
  enum Colour { RED = 0; BLUE = 1; BLACK = -7; }
  string far = 70000;
  Colour colour = 16;
  message Point { int32 x = 1; optional int32 y = 2; Colour colour = 3; string name = 4; }
  Point point = 17;
  message Line { Point from = 1; Point to = 2; }
  Line line = 18;
  oneof paid { string card = 21; int64 cash = 22; Point place = 20; }
  optional string note = 23;
  optional double maybe = 30;
  google.protobuf.Timestamp at = 24;
  google.protobuf.Duration took = 25;
  google.protobuf.StringValue name = 26;
  google.protobuf.UInt64Value big = 27;
  repeated string names = 31; repeated int64 numbers = 32; repeated Point points = 33; repeated Colour colours = 34;
  repeated double doubles = 35; repeated sint32 apart = 36 [packed = false]; repeated bytes blobs = 37;
  repeated google.protobuf.Timestamp times = 38;
  message Path { repeated Point points = 1; repeated string names = 2; }
  Path path = 39; repeated Path paths = 40;
}
"""
PROTO2 = """
syntax = "proto2";
message Order {
  enum Colour { RED = 1; BLUE = 2; }
  optional Colour colour = 1; optional string name = 2; optional int64 number = 3 [default = 7];
  repeated Colour colours = 4; repeated int32 numbers = 5 [packed = true];
}
"""
TEXTS = PROTO3, PROTO2


@functools.cache
def compiled(text: str) -> ProtobufSchema:
    return ProtobufSchema(Schema(text=text, format="PROTOBUF"))


def filled(dice: random.Random, message: Any) -> Any:
    """Set some of a message's fields to something."""
    for field in message.DESCRIPTOR.fields:
        if dice.random() < 0.3:
            continue
        if field.is_repeated:
            values = getattr(message, field.name)
            for _ in range(dice.choice([0, 1, 2, 5])):
                if field.message_type is None:
                    values.append(single(dice, field))
                else:
                    within_calendar(dice, filled(dice, values.add()))
        elif field.message_type is not None:
            inner = filled(dice, getattr(message, field.name))
            inner.SetInParent()
            within_calendar(dice, inner)
        else:
            setattr(message, field.name, single(dice, field))
    return message


def within_calendar(dice: random.Random, message: Any) -> None:
    if message.DESCRIPTOR.name in {"Timestamp", "Duration"}:
        message.seconds, message.nanos = dice.randrange(-(10**10), 10**11), dice.randrange(10**9)


def single(dice: random.Random, field: Any) -> Any:
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            size = dice.choice([0, 1, 5, 130, 200])
            return dice.randbytes(size) if field.type == field.TYPE_BYTES else "".join(dice.choices("aé漢😀\0", k=size))
        case field.CPPTYPE_ENUM:
            return dice.choice(field.enum_type.values).number
        case field.CPPTYPE_BOOL:
            return dice.random() < 0.5
        case field.CPPTYPE_DOUBLE | field.CPPTYPE_FLOAT:
            return dice.choice([0.0, -0.0, float("inf"), struct.unpack("<f", dice.randbytes(2) + b"\x80\x3f")[0]])
        case field.CPPTYPE_INT32 | field.CPPTYPE_INT64:
            most = 31 if field.cpp_type == field.CPPTYPE_INT32 else 63
            return dice.getrandbits(dice.randint(1, most)) * dice.choice([1, -1])
        case _:
            return dice.getrandbits(dice.randint(1, 32 if field.cpp_type == field.CPPTYPE_UINT32 else 64))


def payload(dice: random.Random, schema: ProtobufSchema) -> bytes:
    written: bytes = filled(dice, schema.message_class()()).SerializeToString()
    return b"\x00" + written


def both(schema: ProtobufSchema, payloads: list[bytes]) -> list[tuple[list[pa.Array], list[RecordError | None]]]:
    """Decode with and without; give columns and errors of each."""
    wanted = tuple(map(settled, protobuf_columns(schema.descriptor((0,)))[0]))
    fast, slow = ProtobufPayloads(schema, wanted), ProtobufPayloads(schema, wanted)
    slow._messages(b"\x00", (0,))._vectors = None
    return [fast.decode(payloads), slow.decode(payloads)]


def texts(columns: list[pa.Array]) -> list[str]:
    """Write columns out: a number that is none equals none."""
    return [str(each.to_pylist()) for each in columns]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seed", range(6))
def test_random_messages_give_the_same_columns_as_protobuf_itself(text: str, seed: int) -> None:
    dice, schema = random.Random(seed), compiled(text)
    payloads = [payload(dice, schema) for _ in range(dice.choice([1, 2, 300]))]
    vectors = ProtobufVectors.of(schema.descriptor((0,)), protobuf_columns(schema.descriptor((0,)))[0], 1)
    chunk = Chunk(payloads)
    assert vectors is not None
    vectors.read(chunk)
    assert not chunk.odd.any()

    (columns, errors), (expected, expected_errors) = both(schema, payloads)

    assert expected_errors == errors
    assert texts(expected) == texts(columns)
    assert [each.type for each in expected] == [each.type for each in columns]


def varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def damaged(dice: random.Random, good: bytes, other: bytes) -> bytes:
    at = dice.randrange(1, len(good) + 1)
    match dice.randrange(8):
        case 0:
            return good[:at]
        case 1:
            return good + dice.randbytes(dice.randint(1, 12))
        case 2:
            return good[: at - 1] + bytes([dice.randrange(256)]) + good[at:]
        case 3:
            return b"\x00" + dice.randbytes(dice.randint(0, 60))
        case 4:  # every field twice, and in another order
            return good + other[1:]
        case 5:  # an unknown field, in front or behind
            unknown = varint(99 << 3) + varint(dice.getrandbits(64))
            return dice.choice([b"\x00" + unknown + good[1:], good + unknown])
        case 6:  # a number that is too large for its field, or an enum that nobody knows
            number, large = dice.choice([3, 5, 7, 13, 16]), varint(dice.getrandbits(64))
            return b"\x00" + varint(number << 3) + large
        case _:  # a varint that is longer than it need be, or than it may be
            return b"\x00" + varint(4 << 3) + b"\x81" + b"\x80" * dice.randint(0, 10) + bytes([dice.randrange(3)])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seed", range(30))
def test_odd_and_damaged_messages_give_exactly_what_protobuf_itself_gives(text: str, seed: int) -> None:
    dice, schema = random.Random(seed), compiled(text)
    payloads = [payload(dice, schema) for _ in range(30)]
    for _ in range(dice.randint(1, 15)):
        index = dice.randrange(len(payloads))
        payloads[index] = damaged(dice, payloads[index], payload(dice, schema))

    (columns, errors), (expected, expected_errors) = both(schema, payloads)

    assert expected_errors == errors
    assert texts(expected) == texts(columns)


@pytest.mark.parametrize(
    "field",
    [
        "map<string, int32> c = 2;",
        "google.protobuf.Struct c = 2;",
        "message Inner { map<string, string> names = 1; } repeated Inner c = 2;",
    ],
)
def test_a_message_with_a_map_is_read_by_protobuf_itself(field: str) -> None:
    text = f'syntax = "proto3"; import "google/protobuf/struct.proto"; message M {{ int64 l = 1; {field} }}'
    message = compiled(text).descriptor((0,))

    assert None is ProtobufVectors.of(message, protobuf_columns(message)[0])


def test_a_very_long_list_is_read_by_protobuf_itself_and_is_the_same() -> None:
    schema = compiled(PROTO3)
    message = schema.message_class()
    payloads = [
        b"\x00" + message(names=["a"] * count, numbers=range(count)).SerializeToString() for count in (0, 99, 101, 5000)
    ]

    (columns, errors), (expected, _) = both(schema, payloads)

    assert [None] * 4 == errors
    assert texts(expected) == texts(columns)
