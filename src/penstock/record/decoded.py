"""What decoding gives: columns of equal length, and an error or a drop for each value that is no row."""

import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

RecordError = dict[str, str]
"""Why a record failed: stage, error (a class) and message."""

FLOAT_END = 2.0**128 - 2.0**103
"""The first number that becomes infinite in 32 bits."""

_LONGEST_MESSAGE = 500
_KEPT = (bytes, datetime.datetime, datetime.date, decimal.Decimal)
_UNFIT = (pa.ArrowException, ValueError, OverflowError, TypeError, RecursionError)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US = datetime.timedelta(microseconds=1)
_FIRST_US = (datetime.datetime.min.replace(tzinfo=datetime.UTC) - _EPOCH) // _US
_LAST_US = (datetime.datetime.max.replace(tzinfo=datetime.UTC) - _EPOCH) // _US


def record_error(error: str, message: str, stage: str = "decode") -> RecordError:
    """Describe a failure; long messages are cut, for they travel in headers, and halves of characters replaced."""
    text = message[:_LONGEST_MESSAGE].encode(errors="replace").decode()
    return {"stage": stage, "error": error, "message": text}


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
    array = pa.array(values, kind)
    if _leaves_the_calendar(array):
        raise ValueError("a time before the year 1 or after the year 9999, once it is in UTC")
    return array


def _leaves_the_calendar(array: pa.Array) -> bool:
    """Find times that Arrow can hold and Python cannot: they would break whatever reads them next."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        found = pc.min_max(array.cast(pa.int64())).as_py()
        return found["min"] is not None and (found["min"] < _FIRST_US or found["max"] > _LAST_US)
    if pa.types.is_map(kind):
        return _leaves_the_calendar(array.items)
    if pa.types.is_list(kind):
        return _leaves_the_calendar(array.flatten())
    return pa.types.is_struct(kind) and any(map(_leaves_the_calendar, array.flatten()))


def _fitting(field: pa.Field, value: Any, index: int, record_errors: list[RecordError | None], stage: str) -> Any:
    try:
        _array([value], field.type)
    except _UNFIT as error:
        record_errors[index] = record_error("SchemaMismatch", f"{field.name}: {error}", stage)
        return None
    return value
