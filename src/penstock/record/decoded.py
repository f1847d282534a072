"""What decoding gives: columns of equal length, and an error or a drop for each value that is no row."""

import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

RecordError = dict[str, str]
"""Why a record failed: stage, error (a class), message and, if the user's code raised it, the line of that."""

FLOAT_END = 2.0**128 - 2.0**103
"""The first number that becomes infinite in 32 bits."""

_LONGEST_MESSAGE = 500
_KEPT = (bytes, datetime.datetime, datetime.date, decimal.Decimal)
_UNFIT = (pa.ArrowException, ValueError, OverflowError, TypeError, RecursionError)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US = datetime.timedelta(microseconds=1)
_MOMENTS = pa.timestamp("us", tz="UTC")
_PLAIN_TIMES = {datetime.datetime, type(None)}
_FIRST_US = (datetime.datetime.min.replace(tzinfo=datetime.UTC) - _EPOCH) // _US
_LAST_US = (datetime.datetime.max.replace(tzinfo=datetime.UTC) - _EPOCH) // _US

_PER_US = {"s": Fraction(1, 1_000_000), "ms": Fraction(1, 1000), "us": Fraction(1), "ns": Fraction(1000)}


def record_error(error: str, message: str, stage: str = "decode", line: str | None = None) -> RecordError:
    """Describe a failure; long messages are cut, as they are sent in headers, and unpaired surrogates replaced."""
    text = message[:_LONGEST_MESSAGE].encode(errors="replace").decode()
    found = {"stage": stage, "error": error, "message": text}
    return {**found, "line": line} if line else found


@dataclass(frozen=True)
class Decoded:
    """The columns of one chunk."""

    columns: list[pa.Array]
    record_errors: list[RecordError | None]
    dropped: list[bool]


def columns_of(
    schema: pa.Schema,
    rows: list[tuple[Any, ...]],
    record_errors: list[RecordError | None],
    dropped: list[bool],
    stage: str = "decode",
) -> Decoded:
    """Turn rows into columns; a row whose values do not fit their type after all becomes a failed one."""
    by_column = zip(*rows, strict=True) if rows else [()] * len(schema)
    return Decoded(arrays_of(schema, by_column, record_errors, stage), record_errors, dropped)


def arrays_of(
    schema: pa.Schema,
    by_column: Iterable[Sequence[Any]],
    record_errors: list[RecordError | None],
    stage: str = "decode",
) -> list[pa.Array]:
    """Turn the values of each column into an array; a value that does not fit its type fails its row."""
    return [_column(field, values, record_errors, stage) for field, values in zip(schema, by_column, strict=True)]


def _column(field: pa.Field, values: Sequence[Any], record_errors: list[RecordError | None], stage: str) -> pa.Array:
    try:
        return _array(values, field.type)
    except _UNFIT:
        return _array(
            [_fitting(field, value, index, record_errors, stage) for index, value in enumerate(values)], field.type
        )


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_nested(kind):
        values = msgspec.to_builtins(values, builtin_types=_KEPT)
    array = _moments(values, kind) if kind == _MOMENTS else pa.array(values, kind)
    if leaves_the_calendar(array):
        raise ValueError("a time before the year 1 or after the year 9999, once it is in UTC")
    return array


def _moments(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return times in UTC: Arrow would ask each for its zone, which takes four times as long as a subtraction."""
    if not set(map(type, values)) <= _PLAIN_TIMES:
        return pa.array(values, kind)
    try:
        since = [None if each is None else each - _EPOCH for each in values]
    except TypeError:  # one has no zone, and is taken for UTC
        return pa.array(values, kind)
    return pa.array(since, pa.duration("us")).cast(pa.int64()).cast(kind)


def leaves_the_calendar(array: pa.Array) -> bool:
    """Find times that Arrow can hold and Python cannot: they would break whatever reads them next."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        found, per_us = pc.min_max(array.cast(pa.int64())).as_py(), _PER_US[kind.unit]
        return found["min"] is not None and (
            found["min"] < _FIRST_US * per_us or found["max"] >= (_LAST_US + 1) * per_us
        )
    if pa.types.is_map(kind):
        return leaves_the_calendar(array.items)
    if pa.types.is_list(kind):
        return leaves_the_calendar(array.flatten())
    return pa.types.is_struct(kind) and any(map(leaves_the_calendar, array.flatten()))


def _fitting(field: pa.Field, value: Any, index: int, record_errors: list[RecordError | None], stage: str) -> Any:
    try:
        _array([value], field.type)
    except _UNFIT as error:
        record_errors[index] = record_error("SchemaMismatch", f"{field.name}: {error}", stage)
        return None
    return value
