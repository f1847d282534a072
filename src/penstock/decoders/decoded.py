"""What decoding gives: columns of equal length, and a fault or a drop for each value that is no row."""

import datetime
import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

Fault = dict[str, str]
"""Why a record failed: stage, error (a class) and message."""

_LONGEST_MESSAGE = 500
_KEPT = (bytes, datetime.datetime, datetime.date, decimal.Decimal)
_UNFIT = (pa.ArrowException, ValueError, OverflowError, TypeError)


def fault(error: str, message: str, stage: str = "decode") -> Fault:
    """Describe a failure; long messages are cut, for they travel in headers."""
    return {"stage": stage, "error": error, "message": message[:_LONGEST_MESSAGE]}


@dataclass(frozen=True)
class Decoded:
    """The columns of one chunk."""

    columns: list[pa.Array]
    faults: list[Fault | None]
    dropped: list[bool]


def columns_of(
    schema: pa.Schema, rows: list[tuple[Any, ...]], faults: list[Fault | None], dropped: list[bool]
) -> Decoded:
    """Turn rows into columns; a row whose values do not fit their type after all becomes a failed one."""
    if not rows:
        return Decoded([pa.array([], field.type) for field in schema], faults, dropped)
    by_column = zip(schema, zip(*rows, strict=True), strict=True)
    return Decoded([_column(field, values, faults) for field, values in by_column], faults, dropped)


def _column(field: pa.Field, values: Sequence[Any], faults: list[Fault | None]) -> pa.Array:
    if pa.types.is_nested(field.type):
        values = msgspec.to_builtins(values, builtin_types=_KEPT)
    try:
        return pa.array(values, field.type)
    except _UNFIT:
        return pa.array([_fitting(field, value, index, faults) for index, value in enumerate(values)], field.type)


def _fitting(field: pa.Field, value: Any, index: int, faults: list[Fault | None]) -> Any:
    try:
        pa.array([value], field.type)
    except _UNFIT as error:
        faults[index] = fault("SchemaMismatch", f"{field.name}: {error}")
        return None
    return value
