"""Rows as JSON shows them: what Arrow has and JSON has not becomes text.

Bytes become base64, times and intervals ISO 8601, decimals plain digits, and numbers that are none NaN or Infinity.
"""

import base64
import datetime
import decimal
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.decoded import RecordError, record_error

Converted = TypeVar("Converted")
_UNFIT = (pa.ArrowException, ValueError, OverflowError, TypeError, KeyError, RecursionError)
"""What converting a value can raise: a year beyond 9999, text that is not UTF-8, a map that has a key twice."""
_IN_UTC = pa.timestamp("us", "UTC")
_ISO_8601 = "%Y-%m-%dT%H:%M:%S+00:00"
_FIRST_US, _LAST_US = -30_610_224_000_000_000, 253_402_300_799_999_999
"""The years that have four digits, 1000 to 9999."""


def fitting(
    rows: pa.RecordBatch, convert: Callable[[pa.RecordBatch], Converted]
) -> tuple[Converted, list[int], list[tuple[int, RecordError]]]:
    """Convert rows; return them, the indexes of those that fit, and each that does not with the reason."""
    try:
        return convert(rows), list(range(rows.num_rows)), []
    except _UNFIT:
        refused = dict(_misfits(rows, convert))
    kept = [index for index in range(rows.num_rows) if index not in refused]
    return convert(rows.take(pa.array(kept, pa.int64()))), kept, sorted(refused.items())


def _misfits(rows: pa.RecordBatch, convert: Callable[[pa.RecordBatch], object]) -> Iterator[tuple[int, RecordError]]:
    """Halve what cannot be converted until the failing rows are found."""
    waiting = [(0, rows.num_rows)]
    while waiting:
        first, last = waiting.pop()
        try:
            convert(rows.slice(first, last - first))
        except _UNFIT as error:
            if last - first == 1:
                yield first, record_error(type(error).__name__, f"this row cannot be written: {error}", stage="sink")
            else:
                middle = (first + last) // 2
                waiting += [(middle, last), (first, middle)]


def plain_rows(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Return each row as a dictionary that any JSON writer takes."""
    complicated = [name for name, column in zip(rows.schema.names, rows.columns, strict=True) if not _is_plain(column)]
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        for name in complicated:
            row[name] = plain(row[name])
        yield row


def readable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows to look at: the times of a column, at any depth, that Python's calendar has not become numbers."""
    columns = [_readable(each) for each in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _readable(column: pa.Array) -> pa.Array:
    if column.type == _IN_UTC:
        # Arrow imports pandas for a time with a zone, which takes longer than all the rest of a command.
        ends = pc.min_max(column.cast(pa.int64()))
        if (ends["min"].as_py() or 0) >= _FIRST_US and (ends["max"].as_py() or 0) <= _LAST_US:
            return pc.replace_substring_regex(pc.strftime(column, _ISO_8601), pattern=r"\.0+\+", replacement="+")
    return column if _is_in_calendar(column) else column.cast(_in_numbers(column.type))


def _is_in_calendar(column: pa.Array) -> bool:
    try:
        column.to_pylist()
    except (ValueError, OverflowError):
        return False
    return True


def _in_numbers(kind: pa.DataType) -> pa.DataType:
    """Return the type with the numbers behind its times: since 1970, in days or in the column's own unit."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_numbers(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_numbers(kind.key_type), _in_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_in_numbers(kind.value_type))
    return kind


def _is_plain(column: pa.Array) -> bool:
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.all(pc.is_finite(column)).as_py() is not False
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def plain(value: Any) -> Any:
    """Turn a value into what JSON has; look inside of lists and maps."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return msgspec.to_builtins(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value
