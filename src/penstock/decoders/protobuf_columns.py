"""The columns of a Protobuf message, and how each is read from a message.

A missing field without presence has Protobuf's default; all other missing ones are null: messages, members
of a oneof, `optional` fields. Google's well-known types become the values that they represent.
"""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.decoders.columns import MOST_PARTS, Column

Read = Callable[[Any], Any]
_UNSIGNED_LONG = pa.decimal128(20, 0)
# By the numbers that descriptors have for types: google.protobuf.FieldDescriptor.TYPE_*.
_SCALARS: dict[int, tuple[pa.DataType, Any]] = {
    1: (pa.float64(), 0.0),  # double
    2: (pa.float32(), 0.0),  # float
    3: (pa.int64(), 0),  # int64
    4: (_UNSIGNED_LONG, Decimal(0)),  # uint64
    5: (pa.int32(), 0),  # int32
    6: (_UNSIGNED_LONG, Decimal(0)),  # fixed64
    7: (pa.int64(), 0),  # fixed32
    8: (pa.bool_(), False),  # bool
    9: (pa.string(), ""),  # string
    12: (pa.binary(), b""),  # bytes
    13: (pa.int64(), 0),  # uint32
    14: (pa.string(), ""),  # enum
    15: (pa.int32(), 0),  # sfixed32
    16: (pa.int64(), 0),  # sfixed64
    17: (pa.int32(), 0),  # sint32
    18: (pa.int64(), 0),  # sint64
}
_UNSIGNED = {4, 6}
_BOOL = 8
_ENUM = 14
_MESSAGES = {10, 11}
_GOOGLE = "google.protobuf."
_WRAPPERS = {
    f"{_GOOGLE}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
TIMESTAMP = f"{_GOOGLE}Timestamp"
DURATION = f"{_GOOGLE}Duration"
INSIDE = {TIMESTAMP, DURATION, *_WRAPPERS}
"""Messages that become one value instead of a struct."""
_AS_JSON = {f"{_GOOGLE}{name}" for name in ("Struct", "Value", "ListValue", "Any", "Empty", "FieldMask")}


def protobuf_columns(message: Any) -> tuple[tuple[Column, ...], tuple[Read, ...]]:
    """Return the columns of a message, and what reads each; raise `ValueError` if no table can have them."""
    if _parts(message, {}) > MOST_PARTS:
        raise ValueError(f"the message '{message.full_name}' has more parts than any table, with all that it names")
    made = [_field(field, frozenset({message.full_name})) for field in message.fields]
    if not made:
        raise ValueError(f"the message '{message.full_name}' has no fields")
    return tuple(column for column, _ in made), tuple(read for _, read in made)


def _parts(message: Any, known: dict[str, int]) -> int:
    """Count the fields of a message; those of a nested one count each time: a few that nest each other are millions."""
    if message.full_name not in known:
        known[message.full_name] = 0  # if it holds itself, that is reported elsewhere
        inside = [each.message_type for each in message.fields if each.type in _MESSAGES]
        known[message.full_name] = len(message.fields) + sum(_parts(each, known) for each in inside)
    return known[message.full_name]


def _field(field: Any, above: frozenset[str]) -> tuple[Column, Read]:
    name = field.name
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        inner, convert = _single(value, above)
        kind = pa.map_(pa.string(), inner.type)
        text = _key_text(key)
        return Column(name, kind, [], inside=(replace(inner, default=None),)), lambda found: [
            (text(each), convert(value)) for each, value in sorted(getattr(found, name).items())
        ]
    inner, convert = _single(field, above)
    if field.is_repeated:
        column = Column(name, pa.list_(inner.type), [], inside=(replace(inner, default=None),))
        return column, lambda found: [convert(each) for each in getattr(found, name)]
    if field.has_presence:
        column = replace(inner, default=None)
        return column, lambda found: convert(getattr(found, name)) if found.HasField(name) else None
    return inner, lambda found: convert(getattr(found, name))


def _single(field: Any, above: frozenset[str]) -> tuple[Column, Read]:
    """Return the column of one value, and what makes it of what a message holds."""
    if field.type in _MESSAGES:
        return _message(field, above)
    kind, default = _SCALARS[field.type]
    if field.type in _UNSIGNED:
        return Column(field.name, kind, default), Decimal
    if field.type == _ENUM:
        names = {each.number: each.name for each in field.enum_type.values}
        column = Column(field.name, kind, names.get(0, next(iter(names.values()))))
        return column, lambda value: names.get(value, str(value))
    return Column(field.name, kind, default), _same


def _message(field: Any, above: frozenset[str]) -> tuple[Column, Read]:
    whole, name = field.message_type.full_name, field.name
    if whole == TIMESTAMP:
        return Column(name, pa.timestamp("us", tz="UTC")), lambda value: value.seconds * 1_000_000 + value.nanos // 1000
    if whole == DURATION:
        return Column(name, pa.int64()), lambda value: value.seconds * 1_000_000 + int(value.nanos / 1000)
    if whole in _WRAPPERS:
        inner, convert = _single(field.message_type.fields_by_name["value"], above)
        return Column(name, inner.type), lambda value: convert(value.value)
    if whole in _AS_JSON:
        return Column(name, pa.string()), _in_json(field.message_type.file.pool)
    if whole in above:
        raise ValueError(f"{name}: the message '{whole}' contains itself, which no table can")
    made = [_field(each, above | {whole}) for each in field.message_type.fields]
    if not made:
        raise ValueError(f"{name}: the message '{whole}' has no fields")
    kind = pa.struct([pa.field(column.name, column.type) for column, _ in made])
    reads = [(column.name, read) for column, read in made]
    return Column(name, kind, inside=tuple(column for column, _ in made)), lambda value: {
        each: read(value) for each, read in reads
    }


def _is_map(field: Any) -> bool:
    return field.type in _MESSAGES and field.message_type.GetOptions().map_entry


def _key_text(key: Any) -> Read:
    """Return what makes text of a map's key, as JSON has it."""
    return (lambda each: str(each).lower()) if key.type == _BOOL else str


def _same(value: Any) -> Any:
    return value


def _in_json(pool: Any) -> Read:
    """Return what writes a message as JSON; the types that an `Any` may hold are those of the pool."""
    from google.protobuf import json_format

    def written(value: Any) -> str:
        try:
            return str(json_format.MessageToJson(value, indent=None, descriptor_pool=pool))
        except (json_format.Error, TypeError) as error:
            raise ValueError(str(error)) from None

    return written
