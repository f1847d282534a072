"""From Arrow to PostgreSQL: types of columns, and values as COPY takes them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.sinks.rows import plain

OF_THE_USER = "user-defined"

_TYPES = {
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.binary(): "bytea",
    pa.date32(): "date",
}


def column_type(kind: pa.DataType) -> str:
    """Name the type that holds every value of `kind`; what is nested becomes jsonb."""
    if kind in _TYPES:
        return _TYPES[kind]
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_duration(kind):
        return "interval"
    if pa.types.is_time(kind):
        return "time"
    return "jsonb"


_TEXTS = frozenset({"text", "character varying"})
_PRECISE = re.compile(r"\((?P<numbers>[-\d,]+)\)")
_HELD = {
    pa.string(): {"uuid", "json", "jsonb", "xml", OF_THE_USER},
    pa.bool_(): {"boolean"},
    pa.int8(): {"smallint", "integer", "bigint", "real", "double precision"},
    pa.int16(): {"smallint", "integer", "bigint", "real", "double precision"},
    pa.int32(): {"smallint", "integer", "bigint", "double precision"},
    pa.int64(): {"smallint", "integer", "bigint"},
    pa.float32(): {"real", "double precision", "numeric"},
    pa.float64(): {"double precision", "numeric"},
    pa.date32(): {"date", "timestamp without time zone"},
}


def holds(kind: pa.DataType, column: str) -> bool:
    """Return whether a column of this type gives back every value of `kind` as it was, or refuses it aloud.

    `column` is the type as PostgreSQL writes it, or `OF_THE_USER` for one that it does not come with.
    """
    if pa.types.is_null(kind):
        return True
    if pa.types.is_binary(kind):
        return column == "bytea"
    if _PRECISE.sub("", column) in _TEXTS:
        return True
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        scale = kind.scale if pa.types.is_decimal(kind) else 0
        limits = _PRECISE.search(column)
        if column.startswith("numeric") and (limits is None or int(limits["numbers"].split(",")[1]) >= scale):
            return True
    if pa.types.is_nested(kind):
        return column in {"json", "jsonb"}
    if pa.types.is_timestamp(kind):
        return column == f"timestamp with{'' if kind.tz else 'out'} time zone"
    if pa.types.is_time(kind):
        return column == "time without time zone"
    return column in _HELD.get(kind, {column_type(kind)})


def require_kept_blanks(rows: pa.RecordBatch, limits: Mapping[str, int]) -> None:
    """Raise ValueError if PostgreSQL would cut off blanks at the end of a text, which it does silently.

    `limits` are the characters that columns take. Text that is too long for another reason it refuses itself.
    """
    for name, most in limits.items():
        if name not in rows.schema.names or not pa.types.is_string(rows.schema.field(name).type):
            continue
        column = rows.column(name)
        is_too_long = pc.greater(pc.utf8_length(column), most)
        without_blanks = pc.utf8_length(pc.utf8_rtrim(column, characters=" "))
        if pc.any(pc.and_(is_too_long, pc.less_equal(without_blanks, most))).as_py():
            raise ValueError(f"{name}: the column takes {most} characters, and would lose the blanks at the end")


def row_values(rows: pa.RecordBatch) -> Iterator[list[Any]]:
    """Return each row's values in the order of the columns."""
    columns = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_nested(field.type):
            values = column.to_pylist(maps_as_pydicts="strict")
            columns.append([None if each is None else orjson.dumps(plain(each)).decode() for each in values])
        else:
            columns.append(column.to_pylist())
    for row in zip(*columns, strict=True):
        yield list(row)
