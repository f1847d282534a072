"""Values that Arrow would accept and change silently, which are found before it gets them.

Guarantee: a value that a user's function returns is stored exactly as it is, or its record fails.
"""

import datetime
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
    if pa.types.is_timestamp(kind):
        return partial(_of_time, has_zone=kind.tz is not None)
    if pa.types.is_date(kind):
        return _of_date
    if pa.types.is_map(kind):
        return _of_map(_of_field(kind.item_field))
    if pa.types.is_list(kind):
        return _of_list(_of_field(kind.value_field))
    return _of_struct(kind) if pa.types.is_struct(kind) else None


def _of_time(value: Any, *, has_zone: bool) -> str:
    if isinstance(value, float):
        return "a number with a fraction, and no time"
    if getattr(value, "nanosecond", 0):
        return "a time with digits beyond the microsecond"
    is_zoned = isinstance(value, datetime.datetime) and value.tzinfo is not None
    return "a time with a zone" if is_zoned and not has_zone else ""


def _of_date(value: Any) -> str:
    if isinstance(value, float):
        return "a number with a fraction, and no date"
    if not isinstance(value, datetime.datetime):
        return ""
    is_midnight = value.tzinfo is None and value.time() == datetime.time() and not getattr(value, "nanosecond", 0)
    return "" if is_midnight else "a time, and a date is all that the column takes"


def _of_map(item: Complaint | None) -> Complaint:
    def complain(value: Any) -> str:
        pairs = list(value.items() if isinstance(value, dict) else value)
        if len({key for key, _ in pairs}) < len(pairs):
            return "a key occurs twice"
        return "" if item is None else _first(item(each) for _, each in pairs)

    return complain


def _of_list(item: Complaint | None) -> Complaint:
    def complain(value: Any) -> str:
        if not isinstance(value, Collection) or isinstance(value, str | bytes | bytearray | memoryview | Mapping):
            return f"{type(value).__name__}, and a list belongs there"
        return "" if item is None else _first(map(item, value))

    return complain


def _of_struct(kind: pa.StructType) -> Complaint:
    complaints = [(field.name, _of_field(field)) for field in kind]
    listed = [(name, complaint) for name, complaint in complaints if complaint is not None]
    names = {field.name for field in kind}

    def complain(value: Any) -> str:
        if isinstance(value, Mapping) and (wrong := _misnamed(value.keys(), names)):
            return wrong
        return _first(complaint(value.get(name)) for name, complaint in listed)

    return complain


def _misnamed(given: AbstractSet[Any], names: AbstractSet[Any]) -> str:
    """Complain of a field that is nowhere, while another one is missing: a typo would make nulls."""
    unknown, missing = given - names, names - given
    if not unknown or not missing:
        return ""
    return f"{min(map(repr, unknown))} is none of its fields, and it lacks {', '.join(sorted(missing))}"


def cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return columns as these types; raise `SchemaMismatch` if a value would be another then.

    A number becomes the nearest that a `float` has, a time without a zone is UTC, and text is read as Arrow reads it.
    """
    for field, before in zip(schema, table.columns, strict=True):
        if wrong := _misnamed_in(before.type, field.type):
            raise SchemaMismatch(f"{field.name}: {wrong}")
    made = table.cast(schema)
    for field, before, after in zip(schema, table.columns, made.columns, strict=True):
        if before.type != field.type and not _are_same(before.combine_chunks(), after.combine_chunks()):
            raise SchemaMismatch(f"{field.name}: a value of {before.type} that {field.type} cannot hold")
    return made


def _misnamed_in(given: pa.DataType, wanted: pa.DataType) -> str:
    """Complain of a struct, at any depth, that lacks a field and has one that is nowhere."""
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        parts = {field.name: field.type for field in given}
        return _misnamed(parts.keys(), {field.name for field in wanted}) or _first(
            _misnamed_in(parts[field.name], field.type) for field in wanted if field.name in parts
        )
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return _misnamed_in(given.item_type, wanted.item_type)
    if _is_list(given) and _is_list(wanted):
        return _misnamed_in(given.value_type, wanted.value_type)
    return ""


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _are_same(before: pa.Array, after: pa.Array) -> bool:
    """Compare the plain columns that two columns are made of."""
    if pa.types.is_dictionary(before.type):
        before = before.dictionary_decode()
    if pa.types.is_null(before.type):
        return True
    if pa.types.is_map(after.type):
        pairs = list(zip(_entries(before), _entries(after), strict=True))
    elif pa.types.is_struct(after.type):
        parts = dict(zip((field.name for field in before.type), before.flatten(), strict=True))
        named = zip((field.name for field in after.type), after.flatten(), strict=True)
        pairs = [(parts[name], part) for name, part in named if name in parts]
    elif pa.types.is_nested(after.type):
        pairs = [(before.flatten(), after.flatten())]
    else:
        return _is_same(before, after)
    return all(_are_same(was, now) for was, now in pairs)


def _entries(values: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    first, last = (values.offsets[at].as_py() for at in (0, -1))
    return values.keys.slice(first, last - first), values.items.slice(first, last - first)


def _is_same(before: pa.Array, after: pa.Array) -> bool:
    was, now = before.type, after.type
    if was == now or pa.types.is_null(was) or pa.types.is_string(was) or pa.types.is_large_string(was):
        return True
    if pa.types.is_floating(was) and pa.types.is_floating(now):
        same = pc.or_(pc.is_inf(before), pc.invert(pc.is_inf(after)))
    elif pa.types.is_timestamp(was) and was.tz and pa.types.is_timestamp(now) and not now.tz:
        return bool(before.null_count == len(before))
    else:
        back = after.cast(was)
        same = pc.equal(before, back)
        if pa.types.is_floating(was):
            same = pc.or_(same, pc.and_(pc.is_nan(before), pc.is_nan(back)))
    return pc.all(same).as_py() is not False


def _first(complaints: Iterable[str]) -> str:
    return next(filter(None, complaints), "")
