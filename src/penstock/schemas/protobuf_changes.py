"""Which changes of a Protobuf file break those who read it: fields are known by their numbers."""

from typing import Any

from penstock.schemas.protobuf import ProtobufSchema

# Types that share their bytes: each may become any other of its row.
_ALIKE = ({5, 13, 3, 4, 8, 14}, {17, 18}, {9, 12}, {7, 15}, {6, 16})
_MESSAGES = {10, 11}
_ENUM = 14
# By the numbers that descriptors have for types; messages and enums have names of their own.
_NAMES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}


def protobuf_breaks(reader: ProtobufSchema, writer: ProtobufSchema) -> list[tuple[str, str]]:
    """Return each field that cannot be read, with the reason; fields are known by their numbers."""
    ours, theirs = _all(reader.messages), _all(writer.messages)
    found = [(name, "the message is gone") for name in theirs if name not in ours]
    for name, message in ours.items():
        if name in theirs:
            found += _of_message(message, theirs[name])
    return found


def _of_message(reader: Any, writer: Any) -> list[tuple[str, str]]:
    found = []
    written = {field.number: field for field in writer.fields}
    for field in reader.fields:
        other = written.get(field.number)
        if other is None:
            if field.is_required:
                found.append((f"{reader.name}.{field.name}", "is required, and was not written"))
            continue
        where = f"{reader.name}.{field.name}"
        if not _is_alike(field, other):
            found.append((where, f"number {field.number} is read as {_type(field)}, and was written as {_type(other)}"))
        elif field.is_repeated != other.is_repeated:
            found.append(
                (where, f"number {field.number} was {'a single' if field.is_repeated else 'a repeated'} field")
            )
        elif _oneof(field) and not _oneof(other) and len(_oneof(field).fields) > 1:
            found.append((where, f"goes into the oneof '{_oneof(field).name}'"))
    return found


def _is_alike(field: Any, other: Any) -> bool:
    if field.type in _MESSAGES and other.type in _MESSAGES:
        return bool(field.message_type.full_name == other.message_type.full_name)
    return field.type == other.type or any({field.type, other.type} <= row for row in _ALIKE)


def _type(field: Any) -> str:
    """Return the type as it stands in the file."""
    if field.type in _MESSAGES:
        return str(field.message_type.full_name)
    return str(field.enum_type.full_name) if field.type == _ENUM else _NAMES[field.type]


def _oneof(field: Any) -> Any:
    """Return the oneof of a field; None of those that `optional` makes."""
    oneof = field.containing_oneof
    return None if oneof is None or oneof.name == f"_{field.name}" else oneof


def _all(messages: list[Any]) -> dict[str, Any]:
    found = {}
    for each in messages:
        found[each.full_name] = each
        found |= _all(each.nested_types)
    return found
