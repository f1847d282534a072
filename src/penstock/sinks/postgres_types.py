"""From Arrow to PostgreSQL: types of columns, and values as COPY takes them."""

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from penstock.sinks.rows import plain

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


def row_values(rows: pa.RecordBatch) -> Iterator[list[Any]]:
    """Give each row's values in the order of the columns."""
    columns = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_nested(field.type):
            values = column.to_pylist(maps_as_pydicts="strict")
            columns.append([None if each is None else orjson.dumps(plain(each)).decode() for each in values])
        else:
            columns.append(column.to_pylist())
    for row in zip(*columns, strict=True):
        yield list(row)
