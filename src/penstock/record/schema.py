"""Parsing schemas as people write them, `id bigint NOT NULL, at timestamp`, into Arrow."""

import difflib
import functools
import itertools
import re

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

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
_NAMES = [
    *("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "binary", "date", "timestamp"),
    *("timestamp_ntz", "decimal", "array", "struct", "map"),
]
_TABLE_RULES = {"", "CHECK", "CONSTRAINT", "FOREIGN", "PRIMARY", "UNIQUE"}
_TOP_LEVEL_COMMA = re.compile(r",(?![^<(]*[>)])")
_WORD = re.compile(r"\w+")
_REMEMBERED = 100
"""Every task of every batch parses the same columns, which takes longer than a few events do."""


@functools.lru_cache(_REMEMBERED)
def parse(text: str) -> pa.Schema:
    """Read Spark's column list; raise `ValueError`, which says what is wrong."""
    columns = _columns(text)
    if not columns:
        _refuse_first_unknown_type(text)
        raise ValueError(f"'{text}' is not a list of columns: write as in 'id bigint NOT NULL, at timestamp'")
    reserved = next((column.name for column in columns if column.name.startswith("_")), None)
    if reserved is not None:
        raise ValueError(f"'{reserved}': names that begin with an underscore belong to Penstock")
    return pa.schema(_fields(columns))


def _columns(text: str) -> list[exp.ColumnDef]:
    """Return the columns of a list; none if it is no list of columns, and nothing but that."""
    try:
        kinds = [token.token_type for token in Dialect.get_or_raise("spark").tokenize(text)]
        table = sqlglot.parse_one(f"CREATE TABLE t ({text}\n)", dialect="spark")
    except SqlglotError:
        return []
    except RecursionError:
        raise ValueError("types are nested too deeply to be read") from None
    # The parser overlooks a comma too many, and takes what follows a bracket for more of the statement.
    pairs = itertools.pairwise([TokenType.COMMA, *kinds, TokenType.COMMA])
    more = {key for key, value in table.args.items() if value} - {"this", "kind"}
    if more or (TokenType.COMMA, TokenType.COMMA) in pairs:
        return []
    listed = table.this.expressions
    return listed if all(isinstance(column, exp.ColumnDef) for column in listed) else []


def _refuse_first_unknown_type(text: str) -> None:
    """Raise for the column with an unknown type, if that is why a list cannot be parsed."""
    for column in _TOP_LEVEL_COMMA.split(text):
        name, _, kind = column.strip().partition(" ")
        word = _WORD.match(kind.strip())
        if (
            name.upper() not in _TABLE_RULES
            and word
            and not _columns(column)
            and _columns(f"{name} string{kind.strip()[word.end() :]}")
        ):
            nearest = difflib.get_close_matches(word[0].lower(), _NAMES, n=1, cutoff=0.7)
            meant = f"; did you mean '{nearest[0]}'?" if nearest else ""
            raise ValueError(f"the column '{name}': there is no type '{word[0]}'{meant}")


def _fields(columns: list[exp.ColumnDef]) -> list[pa.Field]:
    names = [column.name.lower() for column in columns]
    for column in columns:
        if not column.name:
            raise ValueError("a column has no name")
        if names.count(column.name.lower()) > 1:
            raise ValueError(f"the column '{column.name}' occurs twice")
    return [_field(column) for column in columns]


def _field(column: exp.ColumnDef) -> pa.Field:
    if column.kind is None:
        raise ValueError(f"the column '{column.name}' has no type")
    rules = [each.kind for each in column.constraints if not isinstance(each.kind, exp.CommentColumnConstraint)]
    required = any(isinstance(rule, exp.NotNullColumnConstraint) and not rule.args.get("allow_null") for rule in rules)
    other = next((rule for rule in rules if not isinstance(rule, exp.NotNullColumnConstraint)), None)
    if other is not None:
        raise ValueError(f"the column '{column.name}': no decoder does '{other.sql()}', only NOT NULL")
    return pa.field(column.name, _type(column.kind, column.name), nullable=not required)


def _type(kind: exp.DataType, name: str) -> pa.DataType:
    inner = kind.expressions
    if kind.this in _SIMPLE:
        return _SIMPLE[kind.this]
    if kind.this == exp.DType.DECIMAL:
        digits = [each.name for each in inner]
        given = [int(each) if each.isdecimal() else -1 for each in digits]
        precision, scale, *more = [*given, *[10, 0][len(given) :]]
        if more or not (1 <= precision <= _WIDEST_DECIMAL and 0 <= scale <= precision):
            raise ValueError(f"the column '{name}': decimal({','.join(digits)}) is not possible")
        return pa.decimal128(precision, scale)
    if kind.this == exp.DType.ARRAY and len(inner) == 1:
        return pa.list_(_type(inner[0], name))
    if kind.this == exp.DType.STRUCT and inner:
        return pa.struct(_fields(inner))
    if kind.this == exp.DType.MAP and len(inner) == 2:  # noqa: PLR2004 - a key and a value
        key = _type(inner[0], name)
        if key != pa.string():
            raise ValueError(f"the column '{name}': the keys of a map must be strings, as in JSON")
        return pa.map_(key, _type(inner[1], name))
    raise ValueError(f"the column '{name}' has the type '{kind.sql()}', which Penstock does not know")
