"""Values that Arrow would take and change without a word: found before it gets them.

Guarantee: a value of a user's function is in its column exactly as it was given, or its record fails.
"""

import datetime
import math
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from penstock.record.decoded import FLOAT_END

Complaint = Callable[[Any], str]
"""Says what is wrong with a value; empty if it fits."""


class SchemaMismatch(ValueError):
    """A value does not fit its column."""


def requirement(schema: pa.Schema) -> Callable[[tuple[Any, ...]], None]:
    """Return a function that raises for a row that does not fit; what Arrow refuses by itself is left to it."""
    complaints = [(number, field.name, _of_field(field)) for number, field in enumerate(schema)]
    listed = [(number, name, complaint) for number, name, complaint in complaints if complaint is not None]

    def require(row: tuple[Any, ...]) -> None:
        for number, name, complaint in listed:
            try:
                wrong = complaint(row[number])
            except (TypeError, ValueError, OverflowError, AttributeError) as error:
                raise SchemaMismatch(f"{name}: {error}") from None
            if wrong:
                raise SchemaMismatch(f"{name}: {wrong}")

    return require


def _of_field(field: pa.Field) -> Complaint | None:
    inner = _of_type(field.type)
    if field.nullable:
        return None if inner is None else lambda value: "" if value is None else inner(value)
    if inner is None:
        return lambda value: "" if value is not None else "null, and it is required"
    return lambda value: inner(value) if value is not None else "null, and it is required"


def _of_type(kind: pa.DataType) -> Complaint | None:
    if pa.types.is_integer(kind):
        return lambda value: "" if int(value) == value else "no whole number"
    if kind == pa.float32():
        return lambda value: "beyond a float" if FLOAT_END <= abs(value) < math.inf else ""
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return _of_time
    if pa.types.is_map(kind):
        return _of_map(_of_field(kind.item_field))
    if pa.types.is_list(kind):
        item = _of_field(kind.value_field)
        return None if item is None else lambda value: _first(map(item, value))
    return _of_struct(kind) if pa.types.is_struct(kind) else None


def _of_time(value: Any) -> str:
    return "a time with a zone" if isinstance(value, datetime.datetime) and value.tzinfo is not None else ""


def _of_map(item: Complaint | None) -> Complaint:
    def complain(value: Any) -> str:
        pairs = list(value.items() if isinstance(value, dict) else value)
        if len({key for key, _ in pairs}) < len(pairs):
            return "a key occurs twice"
        return "" if item is None else _first(item(each) for _, each in pairs)

    return complain


def _of_struct(kind: pa.StructType) -> Complaint | None:
    complaints = [(field.name, _of_field(field)) for field in kind]
    listed = [(name, complaint) for name, complaint in complaints if complaint is not None]
    return (lambda value: _first(complaint(value.get(name)) for name, complaint in listed)) if listed else None


def _first(complaints: Iterable[str]) -> str:
    return next(filter(None, complaints), "")
