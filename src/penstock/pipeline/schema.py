"""Schemas as people write them, `id bigint NOT NULL, at timestamp`, turned into Arrow."""

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_SIMPLE = {
    exp.DType.TEXT: pa.string(),
    exp.DType.VARCHAR: pa.string(),
    exp.DType.CHAR: pa.string(),
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.BINARY: pa.binary(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    exp.DType.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    exp.DType.TIMESTAMPLTZ: pa.timestamp("us", tz="UTC"),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
}
_WIDEST_DECIMAL = 38


def parse(text: str) -> pa.Schema:
    """Read Spark's column list; raise `ValueError` that says what is not understood."""
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({text}\n)", dialect="spark")
    except SqlglotError:
        raise ValueError(f"'{text}' is no list of columns: write as in 'id bigint NOT NULL, at timestamp'") from None
    listed = table.this.expressions if isinstance(table, exp.Create) and isinstance(table.this, exp.Schema) else []
    columns = [column for column in listed if isinstance(column, exp.ColumnDef)]
    if not columns or len(columns) != len(listed):
        raise ValueError(f"'{text}' is no list of columns: write as in 'id bigint NOT NULL, at timestamp'")
    names = [column.name for column in columns]
    for name in names:
        if name.startswith("_"):
            raise ValueError(f"'{name}': names that begin with an underscore belong to Penstock")
        if names.count(name) > 1:
            raise ValueError(f"the column '{name}' stands twice")
    return pa.schema([_field(column) for column in columns])


def _field(column: exp.ColumnDef) -> pa.Field:
    if column.kind is None:
        raise ValueError(f"the column '{column.name}' has no type")
    required = any(isinstance(each.kind, exp.NotNullColumnConstraint) for each in column.constraints)
    return pa.field(column.name, _type(column.kind, column.name), nullable=not required)


def _type(kind: exp.DataType, name: str) -> pa.DataType:
    inner = kind.expressions
    if kind.this in _SIMPLE:
        return _SIMPLE[kind.this]
    if kind.this == exp.DType.DECIMAL:
        precision, scale = ([int(each.name) for each in inner] + [10, 0][len(inner) :])[:2]
        if not 0 <= scale <= precision <= _WIDEST_DECIMAL:
            raise ValueError(f"the column '{name}': decimal({precision},{scale}) is not possible")
        return pa.decimal128(precision, scale)
    if kind.this == exp.DType.ARRAY and len(inner) == 1:
        return pa.list_(_type(inner[0], name))
    if kind.this == exp.DType.STRUCT and inner:
        return pa.struct([_field(each) for each in inner])
    if kind.this == exp.DType.MAP and len(inner) == 2:  # noqa: PLR2004 - a key and a value
        key = _type(inner[0], name)
        if key != pa.string():
            raise ValueError(f"the column '{name}': the keys of a map must be strings, as in JSON")
        return pa.map_(key, _type(inner[1], name))
    raise ValueError(f"the column '{name}' has the type '{kind.sql('spark')}', which Penstock does not know")
