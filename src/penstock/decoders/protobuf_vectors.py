"""Protobuf messages of one kind, decoded column by column with numpy: several times as fast as one by one.

Fields are taken in the order of their numbers, in which every serializer of Google's writes them; values of a repeated
one stand together.
A message that is odd, with fields in another order, twice or unknown, or bytes that are none, is marked, and Protobuf
itself reads it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.decoders.columns import Column
from penstock.decoders.protobuf_columns import DURATION, INSIDE, TIMESTAMP, protobuf_columns
from penstock.decoders.vectors import Chunk, Numbers, Offsets, spread, zigzag

_Read = Callable[[Chunk, Offsets, Offsets], tuple[pa.Array, Offsets]]
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_MESSAGE, _ENUM = 11, 14
_TEXTS = {9, 12}
_LOW_BITS = np.uint64(0xFFFF_FFFF)
_FIXED = {1: "<f8", 2: "<f4", 6: "<u8", 7: "<u4", 15: "<i4", 16: "<i8"}
_LONGEST_LIST = 100
_MOST_SECONDS = 2**63 // 1_000_000 - 10


def _int32(values: Numbers) -> Any:
    return (values & _LOW_BITS).astype(np.uint32).view(np.int32)


_VARINTS: dict[int, Callable[[Numbers], Any]] = {
    3: lambda values: values.view(np.int64),  # int64
    4: lambda values: values,  # uint64
    5: _int32,  # int32
    8: lambda values: values != 0,  # bool
    13: lambda values: (values & _LOW_BITS).astype(np.int64),  # uint32
    17: lambda values: zigzag(values & _LOW_BITS),  # sint32
    18: zigzag,  # sint64
}


@dataclass(frozen=True)
class _Field:
    """How one field is read."""

    place: int
    """Where it stands in the message; fields are kept in the order of their numbers."""
    tag: bytes
    read: _Read
    default: pa.Scalar | None
    """What a message without the field has; None if that is null, or an empty list."""
    oneof: str | None


class ProtobufVectors:
    """Decodes many messages at once."""

    def __init__(self, fields: list[_Field], begin: int) -> None:
        self._fields = fields
        self._begin = begin

    @classmethod
    def of(cls, message: Any, columns: Sequence[Column], begin: int = 0) -> "ProtobufVectors | None":
        """Return what decodes a message that begins behind this many bytes; None if only Protobuf reads all of it."""
        fields = []
        for place, (field, column) in sorted(
            enumerate(zip(message.fields, columns, strict=True)), key=lambda each: each[1][0].number
        ):
            read = (
                None if field.is_required else _repeated(field, column) if field.is_repeated else _reader(field, column)
            )
            if read is None:
                return None
            default = None if field.has_presence or field.is_repeated else pa.scalar(column.default, column.type)
            oneof = field.containing_oneof
            fields.append(_Field(place, _tag(field), read, default, oneof.name if oneof is not None else None))
        return cls(fields, begin)

    def read(self, chunk: Chunk) -> list[pa.Array]:
        """Return the columns, in the order of the message."""
        return self.read_inside(chunk, chunk.starts + self._begin, chunk.ends)

    def read_inside(self, chunk: Chunk, starts: Offsets, ends: Offsets) -> list[pa.Array]:
        """Return the columns of messages that stand at these places."""
        at, columns = starts.copy(), [pa.nulls(0)] * len(self._fields)
        chosen: dict[str, npt.NDArray[np.bool_]] = {}
        for field in self._fields:
            there = _begins(chunk, at, ends, field.tag)
            if field.oneof is not None:
                before = chosen.setdefault(field.oneof, np.zeros(len(at), bool))
                chunk.require(~(there & before), ends)
                before |= there
            found, at[there] = field.read(chunk, at[there] + len(field.tag), ends[there])
            columns[field.place] = _with_default(spread(found, there), field.default)
        chunk.require(at == ends, ends)
        return columns


def _begins(chunk: Chunk, at: Offsets, ends: Offsets, tag: bytes) -> npt.NDArray[np.bool_]:
    """Return at which places there is a field with this tag."""
    there = at < ends
    for place, byte in enumerate(tag):
        there &= chunk.bytes[at + place] == byte
    return there


def _with_default(column: pa.Array, default: pa.Scalar | None) -> pa.Array:
    if pa.types.is_list(column.type):
        return pa.ListArray.from_arrays(column.offsets, column.values, column.type)  # without nulls, which are empty
    return column if default is None else pc.fill_null(column, default)


def _tag(field: Any) -> bytes:
    if field.is_repeated and field.is_packed:
        kind = _SIZED
    elif field.type in _VARINTS or field.type == _ENUM:
        kind = _VARINT
    elif field.type in _FIXED:
        kind = _FOUR_BYTES if np.dtype(_FIXED[field.type]).itemsize == 4 else _EIGHT_BYTES  # noqa: PLR2004 - bytes
    else:
        kind = _SIZED
    rest, written = field.number << 3 | kind, bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - the highest bit says that more follows
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _reader(field: Any, column: Column) -> _Read | None:
    """Return what reads a single value behind its tag; None if only Protobuf does."""
    if field.type in _VARINTS:
        return _varints(_VARINTS[field.type], column.type)
    if field.type in _FIXED:
        return _fixed(_FIXED[field.type], column.type)
    if field.type in _TEXTS:
        return _texts(column.type)
    if field.type == _ENUM:
        return _enums(field)
    return _messages(field.message_type, column) if field.type == _MESSAGE else None


def _repeated(field: Any, column: Column) -> _Read | None:
    """Return what reads all values of a field; None of a map, whose keys have an order of their own."""
    if field.type == _MESSAGE and field.message_type.GetOptions().map_entry:
        return None
    one = _reader(field, column.inside[0])
    if one is None:
        return None
    return _packed(one, column.type) if field.is_packed else _one_after_another(one, _tag(field), column.type)


def _packed(one: _Read, kind: pa.DataType) -> _Read:
    """Return what reads values that stand together, behind their size."""

    def read(chunk: Chunk, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
        sizes, begin = chunk.varints(at, ends)
        after, values = chunk.behind(begin, sizes, ends), _Lists(kind)
        places, going = begin.copy(), np.flatnonzero(begin < after)
        while len(going) and values.has_room:
            found, places[going] = one(chunk, places[going], after[going])
            values.add(going, found)
            going = going[places[going] < after[going]]
        chunk.require(places == after, ends)
        return values.made(len(at)), after

    return read


def _one_after_another(one: _Read, tag: bytes, kind: pa.DataType) -> _Read:
    """Return what reads values that have a tag each; the first one's was read already."""

    def read(chunk: Chunk, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
        places, values = at.copy(), _Lists(kind)
        going = np.arange(len(at))
        while len(going) and values.has_room:
            found, after = one(chunk, places[going], ends[going])
            values.add(going, found)
            there = _begins(chunk, after, ends[going], tag)
            places[going] = after + np.where(there, len(tag), 0)
            going = going[there]
        chunk.require(np.isin(np.arange(len(at)), going, invert=True), ends)
        return values.made(len(at)), np.minimum(places, ends)

    return read


class _Lists:
    """Values of lists that are read side by side: first those that stand first in each, then the second ones, ..."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._rows: list[Offsets] = [np.empty(0, np.int64)]
        self._parts = [pa.nulls(0, kind.value_type)]

    @property
    def has_room(self) -> bool:
        """Whether the lists are not so long yet that reading them one by one is faster."""
        return len(self._parts) <= _LONGEST_LIST

    def add(self, rows: Offsets, values: pa.Array) -> None:
        """Take the next value of each of some lists."""
        self._rows.append(rows)
        self._parts.append(values)

    def made(self, count: int) -> pa.Array:
        """Return the lists."""
        rows = np.concatenate(self._rows)
        ends = np.cumsum(np.bincount(rows, minlength=count))
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
        values = pa.concat_arrays(self._parts).take(pa.array(np.argsort(rows, kind="stable")))
        return pa.ListArray.from_arrays(offsets, values, self._kind)


def _varints(meant: Callable[[Numbers], Any], kind: pa.DataType) -> _Read:
    def read(chunk: Chunk, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
        values, after = chunk.varints(at, ends)
        return pa.array(meant(values)).cast(kind), after

    return read


def _fixed(numbers: str, kind: pa.DataType) -> _Read:
    def read(chunk: Chunk, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
        values, after = chunk.fixed(at, numbers, ends)
        return pa.array(values).cast(kind), after

    return read


def _texts(kind: pa.DataType) -> _Read:
    def read(chunk: Chunk, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
        sizes, after = chunk.varints(at, ends)
        return chunk.slices(after, sizes, ends, kind)

    return read


def _enums(field: Any) -> _Read:
    names = {each.number: each.name for each in field.enum_type.values}
    known, texts = pa.array(names, pa.int32()), pa.array(names.values(), pa.string())

    def read(chunk: Chunk, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
        values, after = chunk.varints(at, ends)
        places = pc.index_in(pa.array(_int32(values)), known)
        chunk.require(pc.is_valid(places).to_numpy(zero_copy_only=False), ends)
        return texts.take(places.fill_null(0)), after

    return read


def _messages(message: Any, column: Column) -> _Read | None:
    parts = protobuf_columns(message)[0] if message.full_name in INSIDE else column.inside
    inner = ProtobufVectors.of(message, parts) if parts else None
    if inner is None:
        return None
    made = _meant(message.full_name, column.type)

    def read(chunk: Chunk, at: Offsets, ends: Offsets) -> tuple[pa.Array, Offsets]:
        sizes, begin = chunk.varints(at, ends)
        after = chunk.behind(begin, sizes, ends)
        return made(chunk, inner.read_inside(chunk, begin, after), after), after

    return read


def _meant(name: str, kind: pa.DataType) -> Callable[[Chunk, list[pa.Array], Offsets], pa.Array]:
    """Return what makes a column's values of those of a message's fields."""
    if name in {TIMESTAMP, DURATION}:

        def times(chunk: Chunk, fields: list[pa.Array], ends: Offsets) -> pa.Array:
            seconds, nanos = (each.to_numpy() for each in fields)
            chunk.require(np.abs(seconds) < _MOST_SECONDS, ends)
            # Of a duration what is below a microsecond is cut off, towards zero.
            micros = nanos // 1000 if name == TIMESTAMP else np.fix(nanos / 1000).astype(np.int64)
            return pa.array(seconds * 1_000_000 + micros).cast(kind)

        return times
    if name in INSIDE:
        return lambda _chunk, fields, _ends: fields[0]
    return lambda _chunk, fields, _ends: pa.StructArray.from_arrays(fields, fields=list(kind))
