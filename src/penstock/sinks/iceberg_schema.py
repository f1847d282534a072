"""Columns of a pipeline as an Iceberg table has them, and the other way round. Each has an id, also in the files."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.errors import Conflict

_EPOCH_UNIT = "us"


def iceberg_schema(schema: pa.Schema) -> Any:
    """Return the schema of a table for these columns; raise `Conflict` if there is none."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    ids = count(1)
    fields = [NestedField(next(ids), each.name, iceberg_type(each, ids), required=False) for each in schema]
    _require_told_apart(fields)
    return Schema(*fields)


def _require_told_apart(fields: list[Any]) -> None:
    """Raise `Conflict` if a column has the name that Iceberg has for a part of one: the `b` in `a` is `a.b`."""
    from pyiceberg.schema import Schema

    column_of: dict[str, str] = {}
    for field in fields:
        try:
            names = Schema(field).column_names
        except ValueError:
            raise _not_told_apart(field.name, field.name) from None
        if taken := [name for name in names if name in column_of]:
            raise _not_told_apart(column_of[taken[0]], field.name)
        column_of |= dict.fromkeys(names, field.name)


def _not_told_apart(one: str, other: str) -> Conflict:
    where = f"in the column '{one}'" if one == other else f"of the columns '{one}' and '{other}'"
    return Conflict(
        f"an Iceberg table cannot tell names with dots {where} from parts of structs, lists or maps",
        safe="Nothing was written",
        fix="Give one of them another name in a step",
    )


def iceberg_type(field: pa.Field, ids: Iterator[int] | None = None) -> Any:
    """Return the type that a column gets; raise `Conflict` if there is none. A table renumbers its parts."""
    found = _iceberg_type(field.type, ids or count(1))
    if found is None:
        raise Conflict(
            f"an Iceberg table cannot hold the column '{field.name}' of type {field.type}",
            safe="Nothing was written",
            fix="Turn it into another type in a step",
        )
    return found


def _iceberg_type(kind: pa.DataType, ids: Iterator[int]) -> Any:
    from pyiceberg import types

    if pa.types.is_decimal128(kind):
        return types.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return types.TimestampType() if kind.tz is None else types.TimestamptzType()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _iceberg_type(kind.value_type, ids)
        return element and types.ListType(next(ids), element, element_required=False)
    if pa.types.is_map(kind):
        key, value = _iceberg_type(kind.key_type, ids), _iceberg_type(kind.item_type, ids)
        return key and value and types.MapType(next(ids), key, next(ids), value, value_required=False)
    if pa.types.is_struct(kind):
        parts = [(each.name, _iceberg_type(each.type, ids)) for each in kind]
        if not parts or any(part is None for _, part in parts):
            return None
        return types.StructType(*(types.NestedField(next(ids), name, part, required=False) for name, part in parts))
    return next((made() for is_one, made in _plain_types() if is_one(kind)), None)


def _plain_types() -> list[Any]:
    from pyiceberg import types

    is_int = {pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()}.__contains__
    return [
        (pa.types.is_boolean, types.BooleanType),
        (is_int, types.IntegerType),
        ({pa.int64(), pa.uint32()}.__contains__, types.LongType),
        ({pa.float16(), pa.float32()}.__contains__, types.FloatType),
        (pa.types.is_float64, types.DoubleType),
        (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), types.StringType),
        (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), types.BinaryType),
        (pa.types.is_date32, types.DateType),
        (pa.types.is_time64, types.TimeType),
    ]


def arrow_schema(schema: Any) -> pa.Schema:
    """Return a table's columns as files have them, with their ids."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return pa.schema([_small(each) for each in schema_to_pyarrow(schema)])


def held(schema: pa.Schema) -> pa.Schema:
    """Return a pipeline's columns in the types that a table has for them."""
    return plain(arrow_schema(iceberg_schema(schema)))


def plain(schema: pa.Schema) -> pa.Schema:
    """Return the columns without their ids, so that they can be compared."""
    return pa.schema([pa.field(each.name, _without_ids(each.type)) for each in schema])


def can_widen(was: pa.DataType, becomes: pa.DataType) -> bool:
    """Return whether a column's type can change with every value as it was: what Iceberg's specification allows."""
    if pa.types.is_decimal128(was) and pa.types.is_decimal128(becomes):
        return bool(was.scale == becomes.scale and was.precision <= becomes.precision)
    return (was, becomes) in {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}


def _small(field: pa.Field) -> pa.Field:
    """Return a field without the large types that the library prefers, and which only cost memory."""
    kind = field.type
    if pa.types.is_large_string(kind):
        kind = pa.string()
    elif pa.types.is_large_binary(kind):
        kind = pa.binary()
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(_small(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_small(kind.key_field), _small(kind.item_field))
    elif pa.types.is_struct(kind):
        kind = pa.struct([_small(each) for each in kind])
    return field.with_type(kind)


def _without_ids(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _without_ids(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_without_ids(kind.key_type), _without_ids(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _without_ids(each.type)) for each in kind])
    return kind
