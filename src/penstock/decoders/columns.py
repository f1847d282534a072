"""The columns of a registry's schema, and converting those of a record's own schema to the wanted ones.

Fields are found by name, or by an alias. A number may become a wider one, text bytes and the other way round, and a
time one of another unit; what a record's schema does not have is the default, and fails the record if there is none.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc


class Required(enum.Enum):
    """The default of a field that every record must have; the same one in every process."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED
MOST_PARTS: Final = 100_000
"""Columns, and fields within them: a schema with more is not a table's, but an attempt to fill the memory."""


@dataclass(frozen=True)
class Column:
    """A field: its type in Arrow, and where its value comes from if a record's schema does not have it."""

    name: str
    type: pa.DataType
    default: Any = None
    aliases: tuple[str, ...] = ()
    inside: "tuple[Column, ...]" = ()
    """The fields of a struct, or the one item of a list or map."""
    is_choice: bool = False
    """Whether it is a union: a struct of which one field is filled, each named after its type."""


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns that a pipeline file lists."""
    return tuple(Column(each.name, each.type, None if each.nullable else REQUIRED) for each in schema)


def arrow_schema_of(columns: Iterable[Column]) -> pa.Schema:
    """Return columns as tables have them."""
    return pa.schema([pa.field(each.name, each.type, nullable=each.default is not REQUIRED) for each in columns])


def settled(column: Column) -> Column:
    """Return a column whose times are microseconds, as all tables hold them."""
    return replace(column, type=_settled_type(column.type), inside=tuple(map(settled, column.inside)))


def _settled_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_settled_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _settled_type(kind.item_type))
    return pa.list_(_settled_type(kind.value_type)) if pa.types.is_list(kind) else kind


def fitted(found: dict[str, pa.Array], own: Mapping[str, Column], wanted: Column, count: int) -> pa.Array:
    """Return the wanted column out of those of a record's schema; raise `ValueError` if a value does not fit."""
    for name in (wanted.name, *wanted.aliases):
        if name in found:
            return _fitted(found[name], own.get(name), wanted)
    if wanted.default is REQUIRED:
        raise ValueError(f"{wanted.name}: the record's schema does not have it, and it has no default")
    if wanted.default is None:
        return pa.nulls(count, wanted.type)
    return pa.array([wanted.default] * count, wanted.type)


def _fitted(array: pa.Array, own: Column | None, wanted: Column) -> pa.Array:
    if wanted.default is REQUIRED and array.null_count:
        raise ValueError(f"{wanted.name}: is null, and may not be")
    was_choice = own is not None and own.is_choice
    if array.type == wanted.type and was_choice == wanted.is_choice:
        return array
    try:
        if wanted.is_choice and not was_choice:
            return _choice(array, own, wanted)
        # A struct that a pipeline file lists takes the fields of a union by their names.
        if own is not None and was_choice and not wanted.is_choice and not _is_listed_struct(wanted):
            return _chosen(array, own, wanted)
        return _cast(array, own, wanted)
    except (pa.ArrowException, NotImplementedError) as error:
        raise ValueError(f"{wanted.name}: {error}") from None


def _is_listed_struct(column: Column) -> bool:
    return bool(pa.types.is_struct(column.type)) and not column.inside


def _choice(array: pa.Array, own: Column | None, wanted: Column) -> pa.Array:
    """Return a union of what was written as one of its types: the same one, or else the first that it can become."""
    is_nested = pa.types.is_nested(array.type)
    same = [each for each in wanted.inside if each.type == array.type]
    candidates = same or [
        each
        for each in wanted.inside
        if (each.type.id == array.type.id if is_nested else _can_become(array.type, each.type))
    ]
    if not candidates or (len(candidates) > 1 and (same or is_nested)):
        raise ValueError(f"{wanted.name}: which type of {wanted.type} was written as {array.type} is not known")
    made = [
        _fitted(array, own, each) if each is candidates[0] else pa.nulls(len(array), each.type)
        for each in wanted.inside
    ]
    return pa.StructArray.from_arrays(made, fields=list(wanted.type), mask=pc.is_null(array))


def _chosen(array: pa.Array, own: Column, wanted: Column) -> pa.Array:
    """Return what was written as one type of a union."""
    pairs = zip(array.flatten(), own.inside, strict=True)
    filled = [(part, each) for part, each in pairs if part.null_count < len(part)]
    if len(filled) > 1:
        raise ValueError(f"{wanted.name}: values of several types")  # each is looked at alone then
    return _fitted(*filled[0], wanted) if filled else pa.nulls(len(array), wanted.type)


def _cast(array: pa.Array, own: Column | None, wanted: Column) -> pa.Array:
    kind = wanted.type
    inside_own = () if own is None else own.inside
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        inside = wanted.inside or columns_of(pa.schema(list(kind)))
        parts = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        known = {each.name: each for each in inside_own}
        made = [
            fitted(parts, known, each if array.null_count == 0 else replace_required(each), len(array))
            for each in inside
        ]
        return pa.StructArray.from_arrays(made, fields=list(kind), mask=pc.is_null(array))
    own_item = inside_own[0] if inside_own else None
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        item = wanted.inside[0] if wanted.inside else Column(wanted.name, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, _fitted(array.values, own_item, item), kind, mask=_mask(array))
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        item = wanted.inside[0] if wanted.inside else Column(wanted.name, kind.item_type)
        made = pa.MapArray.from_arrays(array.offsets, array.keys, _fitted(array.items, own_item, item))
        return pc.if_else(pc.is_valid(array), made, pa.scalar(None, made.type)).cast(kind)
    if not _can_become(array.type, kind):
        raise ValueError(f"{wanted.name}: {array.type} does not become {kind}")
    # Numbers become the nearest one, and times are cut to microseconds, as with every decoder.
    is_nearest = pa.types.is_floating(kind) or pa.types.is_timestamp(kind)
    made = array.cast(kind, safe=not (is_nearest and _is_fine(array.type)))
    if kind == pa.float32() and array.type == pa.float64():
        beyond = array.filter(pc.and_(pc.is_inf(made), pc.is_finite(array)))
        if len(beyond):
            raise ValueError(f"{wanted.name}: {beyond[0].as_py()} is beyond what float holds")
    return made


def _can_become(kind: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_integer(kind):
        return bool(pa.types.is_integer(other) or pa.types.is_floating(other) or pa.types.is_decimal(other))
    if pa.types.is_floating(kind):
        return bool(pa.types.is_floating(other))
    if pa.types.is_decimal(kind):
        return bool(pa.types.is_decimal(other))
    if pa.types.is_timestamp(kind):
        return bool(pa.types.is_timestamp(other)) and (kind.tz is None) == (other.tz is None)
    return {kind, other} == {pa.string(), pa.binary()}


def _is_fine(kind: pa.DataType) -> bool:
    """Return whether a type has more digits than the column may hold, and is not cut where it has more seconds."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind)) or getattr(kind, "unit", "") == "ns"


def replace_required(column: Column) -> Column:
    """Return a column that may be null: inside a struct that is null, its parts are, too."""
    return replace(column, default=None) if column.default is REQUIRED else column


def _mask(array: pa.Array) -> pa.Array | None:
    return pc.is_null(array) if array.null_count else None
