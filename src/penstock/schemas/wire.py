"""How a record says which schema it was written with: a byte 0 and the schema's id in front of the value.

Protobuf adds where in the file the message stands: the index of the message, then of the one inside it, and so on,
as zig-zag varints behind their count. A lone 0 means the first message of the file, [0].
"""

import struct

_FRAME = struct.Struct(">bI")
FRAME_BYTES = _FRAME.size
_MAGIC = 0
_MOST_INDEXES = 64
_WIDEST_BITS = 35


class UnframedError(ValueError):
    """A value that does not say which schema it was written with. `error` names the kind."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


def framed(schema_id: int, payload: bytes) -> bytes:
    """Return the value of a record."""
    return _FRAME.pack(_MAGIC, schema_id) + payload


def looks_framed(value: bytes) -> bool:
    """Return whether a value seems to have a schema's id in front: ids begin with 1, and something stands behind."""
    return len(value) > FRAME_BYTES and value[0] == _MAGIC and schema_id_of(value) > 0


def schema_id_of(value: bytes) -> int:
    """Return the id in front of a value; raise `UnframedError` if there is none."""
    if len(value) < FRAME_BYTES:
        raise UnframedError("NoSchemaId", f"{len(value)} bytes are too few for a schema id")
    magic, schema_id = _FRAME.unpack_from(value)
    if magic != _MAGIC:
        raise UnframedError(
            "WrongMagicByte", f"the first byte is {value[0]}, not 0: the value was not written with a schema registry"
        )
    return int(schema_id)


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes in front of a Protobuf message, and where the message begins."""
    count, at = _zigzag(payload, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise UnframedError("Malformed", f"{count} message indexes are not possible")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(payload, at)
        indexes.append(index)
    return tuple(indexes), at


def with_message_indexes(indexes: tuple[int, ...], message: bytes) -> bytes:
    """Put indexes in front of a Protobuf message."""
    if indexes == (0,):
        return b"\x00" + message
    return b"".join(map(_in_zigzag, (len(indexes), *indexes))) + message


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > _WIDEST_BITS:
            raise UnframedError("Malformed", "the message indexes end too early")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follows
            return (value >> 1) ^ -(value & 1), at


def _in_zigzag(value: int) -> bytes:
    rest, written = value << 1, bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - as above
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])
