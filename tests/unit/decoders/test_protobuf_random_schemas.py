"""Random schemas and messages, whole and damaged: the rows are those that Google's own library reads."""

import base64
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.decoders.columns import settled
from penstock.decoders.protobuf import ProtobufPayloads
from penstock.decoders.protobuf_columns import protobuf_columns
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.schema import Schema
from penstock.schemas.wire import with_message_indexes

Proto = descriptor_pb2.FieldDescriptorProto
SCALARS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18]
ENUM, MESSAGE, GROUP = 14, 11, 10
PACKABLE = {*SCALARS, ENUM} - {9, 12}
GOOGLES = {"Timestamp": timestamp_pb2, "StringValue": wrappers_pb2, "UInt64Value": wrappers_pb2}
RESERVED = range(19000, 20000)


class Maker:
    """Makes a file of messages; what is chosen is up to Hypothesis."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._is_proto3 = dice.random() < 0.6
        self.file = descriptor_pb2.FileDescriptorProto(
            name="random.proto", package="shop", syntax="proto3" if self._is_proto3 else "proto2"
        )
        colours = self.file.enum_type.add(name="Colour")
        for name, number in {"RED": 0, "BLUE": 1, "BLACK": -7, "FAR": 2**31 - 1}.items():
            colours.value.add(name=name, number=number)
        self._fill(self.file.message_type.add(name="Order"), ".shop.Order", 0)
        self.file.dependency.extend(sorted({each.DESCRIPTOR.name for each in self._used()}))

    def _used(self) -> list[Any]:
        text = str(self.file)
        return [module for name, module in GOOGLES.items() if f".google.protobuf.{name}" in text]

    def schema(self) -> ProtobufSchema:
        """Return it as Confluent's client for Python registers it, with Google's files as references."""
        referred = {}
        for each in self._used():
            described = descriptor_pb2.FileDescriptorProto()
            each.DESCRIPTOR.CopyToProto(described)
            referred[described.name] = _written(described)
        return ProtobufSchema(_written(self.file), referred)

    def _fill(self, message: Any, path: str, depth: int) -> None:
        dice, numbers = self._dice, set[int]()
        for place in range(dice.randint(1, 5)):
            number = dice.choice([dice.randint(1, 20), dice.randint(1, 5000), dice.randint(20000, 2**29 - 1)])
            if number not in numbers and number not in RESERVED:
                field = message.field.add(name=f"f{place}", number=number, label=Proto.LABEL_OPTIONAL)
                self._choose_type(message, field, path, depth)
                if field.label != Proto.LABEL_REPEATED:  # as a map is
                    self._choose_label(message, field, depth)
            numbers.add(number)
        if not message.field:
            message.field.add(name="only", number=1, label=Proto.LABEL_OPTIONAL, type=3)
        for field in message.field if self._is_proto3 else ():  # a oneof of each, behind all others
            is_plain = field.label == Proto.LABEL_OPTIONAL and not field.HasField("oneof_index")
            if is_plain and dice.random() < 0.3:
                field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _choose_label(self, message: Any, field: Any, depth: int) -> None:
        dice = self._dice
        match dice.choice(["single", "repeated", "oneof", "required"]):
            case "repeated":
                field.label = Proto.LABEL_REPEATED
                if field.type in PACKABLE and dice.random() < 0.5:
                    field.options.packed = dice.random() < 0.5
            case "oneof":
                if not message.oneof_decl:
                    message.oneof_decl.add(name="choice")
                field.oneof_index = 0
            case "required" if not self._is_proto3 and depth == 0 and dice.random() < 0.3:
                field.label = Proto.LABEL_REQUIRED

    def _choose_type(self, message: Any, field: Any, path: str, depth: int) -> None:
        dice = self._dice
        match dice.choice(["scalar"] * 6 + ["enum", "message", "map", "google", "group"]):
            case "enum":
                field.type, field.type_name = ENUM, ".shop.Colour"
            case "message" if depth < 2:
                inner = message.nested_type.add(name=f"M{field.number}")
                self._fill(inner, f"{path}.M{field.number}", depth + 1)
                field.type, field.type_name = MESSAGE, f"{path}.M{field.number}"
            case "group" if depth < 2 and not self._is_proto3:
                inner = message.nested_type.add(name=f"G{field.number}")
                self._fill(inner, f"{path}.G{field.number}", depth + 1)
                field.name, field.type, field.type_name = f"g{field.number}", GROUP, f"{path}.G{field.number}"
            case "map" if depth < 2:
                entry = message.nested_type.add(name=f"{field.name.upper()}Entry")
                entry.options.map_entry = True
                keys = [each for each in SCALARS if each not in {1, 2, 12}]
                entry.field.add(name="key", number=1, label=Proto.LABEL_OPTIONAL, type=dice.choice(keys))
                entry.field.add(name="value", number=2, label=Proto.LABEL_OPTIONAL, type=dice.choice(SCALARS))
                field.label, field.type, field.type_name = Proto.LABEL_REPEATED, MESSAGE, f"{path}.{entry.name}"
            case "google":
                field.type, field.type_name = MESSAGE, f".google.protobuf.{dice.choice([*GOOGLES])}"
            case _:
                field.type = dice.choice(SCALARS)


def _written(described: Any) -> Schema:
    return Schema(text=base64.b64encode(described.SerializeToString()).decode(), format="PROTOBUF")


def value(dice: random.Random, field: Any) -> Any:
    """Make a value of a type, often one at an edge of it."""
    bits = 32 if field.type in {5, 7, 13, 15, 17} else 64
    signed = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), dice.randint(-300, 300)]
    made: dict[int, Callable[[], Any]] = {
        1: lambda: dice.choice([0.0, -0.0, math.inf, math.nan, dice.uniform(-1e300, 1e300)]),
        2: lambda: dice.choice([0.0, -0.0, -math.inf, math.nan, 1.5]),
        8: lambda: dice.random() < 0.5,
        9: lambda: dice.choice(["", "a", "é漢😀\x00", "long " * 30]),
        12: lambda: dice.randbytes(dice.choice([0, 1, 130])),
        ENUM: lambda: dice.choice([each.number for each in field.enum_type.values]),
        **dict.fromkeys((4, 6, 7, 13), lambda: dice.choice([0, 1, 2**bits - 1, dice.randint(0, 300)])),
    }
    return made.get(field.type, lambda: dice.choice(signed))()


def filled(dice: random.Random, message: Any) -> Any:
    """Set some fields to something; required ones always."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        message.seconds, message.nanos = dice.randint(-(10**10), 10**11), dice.randrange(10**9)
        return message
    for field in message.DESCRIPTOR.fields:
        if dice.random() < 0.3 and not field.is_required:
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            for _ in range(dice.randrange(4)):
                key = value(dice, inner.fields_by_name["key"])
                getattr(message, field.name)[key] = value(dice, inner.fields_by_name["value"])
        elif field.is_repeated:
            longest = 120 if inner is None and dice.random() < 0.05 else 3  # very long ones are left to Protobuf
            for _ in range(dice.choice([0, 1, longest])):
                if inner is None:
                    getattr(message, field.name).append(value(dice, field))
                else:
                    filled(dice, getattr(message, field.name).add())
        elif inner is not None:
            filled(dice, getattr(message, field.name)).SetInParent()
        else:
            setattr(message, field.name, value(dice, field))
    return message


def row(message: Any) -> dict[str, Any]:
    """Say what the table should have of a message, as the documentation says it."""
    return {field.name: _cell(message, field) for field in message.DESCRIPTOR.fields}


def _cell(message: Any, field: Any) -> Any:
    found, inner = getattr(message, field.name), field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        values = inner.fields_by_name["value"]
        _require_text(inner.fields_by_name["key"], *found)
        texts = {key: str(key).lower() if isinstance(key, bool) else str(key) for key in found}
        return [(texts[key], _single(found[key], values)) for key in sorted(found)]
    if field.is_repeated:
        return [_single(each, field) for each in found]
    return None if field.has_presence and not message.HasField(field.name) else _single(found, field)


def _require_text(field: Any, *found: Any) -> None:
    """Raise for bytes in a field of text, which proto2 lets pass, and no column holds."""
    if field.type == 9 and any(isinstance(each, bytes) for each in found):
        raise UnicodeError


def _single(found: Any, field: Any) -> Any:
    _require_text(field, found)
    if field.type == ENUM:
        named = field.enum_type.values_by_number.get(found)
        return str(found) if named is None else named.name
    if field.type in {4, 6}:
        return Decimal(found)
    if isinstance(found, float) and math.isnan(found):
        return "NaN"
    if field.message_type is None:
        return found
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return found.seconds * 1_000_000 + found.nanos // 1000
    if name.startswith("google.protobuf."):
        return _single(found.value, field.message_type.fields_by_name["value"])
    return row(found)


def plain(found: Any) -> Any:
    """Return values of a column in the words of `row`."""
    if isinstance(found, dict):
        return {name: plain(each) for name, each in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(map(plain, found))
    if isinstance(found, float) and math.isnan(found):
        return "NaN"
    return found


def damaged(dice: random.Random, messages: list[bytes]) -> bytes:
    """Change bytes, cut them off, or put messages behind each other, which Protobuf takes for one."""
    data = bytearray(dice.choice(messages))
    match dice.choice(["change", "cut", "twice", "other", "insert"]):
        case "change" if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
        case "cut" if data:
            del data[dice.randrange(len(data)) :]
        case "insert":
            data[dice.randrange(len(data) + 1) :][:0] = dice.randbytes(3)
        case _:
            data += dice.choice(messages)
    return bytes(data)


def compare(dice: random.Random) -> None:
    """Make a schema and messages; decode them at once, one by one and with Google's library."""
    schema = Maker(dice).schema()
    kind, descriptor = schema.message_class(), schema.descriptor((0,))
    whole = [filled(dice, kind()).SerializeToString() for _ in range(dice.choice([1, 5, 12]))]
    given_bytes = [*whole, *(damaged(dice, whole) for _ in range(6))]
    decoder = ProtobufPayloads(schema, tuple(map(settled, protobuf_columns(descriptor)[0])))

    columns, errors = decoder.decode([with_message_indexes((0,), each) for each in given_bytes])

    names = [field.name for field in descriptor.fields]
    by_column = [plain(_numbers(each).to_pylist()) for each in columns]
    for number, (data, error) in enumerate(zip(given_bytes, errors, strict=True)):
        found = {name: each[number] for name, each in zip(names, by_column, strict=True)}
        try:
            expected = row(kind.FromString(data))
        except (DecodeError, UnicodeError):
            assert error is not None, data
            continue
        if error is None:
            assert expected == found, data
        else:  # a time that no calendar has, and only where bytes were changed
            assert (True, "SchemaMismatch") == (number >= len(whole), error["error"]), (error, data)


def _numbers(column: Any) -> Any:
    """Return times as numbers, also inside of others: not every damaged one is in a calendar."""
    import pyarrow as pa

    def kind(of: Any) -> Any:
        if pa.types.is_timestamp(of):
            return pa.int64()
        if pa.types.is_struct(of):
            return pa.struct([pa.field(each.name, kind(each.type)) for each in of])
        return pa.list_(kind(of.value_type)) if pa.types.is_list(of) else of

    return column.cast(kind(column.type))


@settings(
    max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)  # fmt: skip
@given(st.integers(0, 2**64 - 1))
def test_rows_of_random_messages_are_what_google_reads(number: int) -> None:
    compare(random.Random(number))


@pytest.mark.soak
@settings(
    max_examples=20_000, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(st.integers(0, 2**64 - 1))
def test_rows_of_many_more_random_messages_are_what_google_reads(number: int) -> None:
    compare(random.Random(number))
