"""Rows as JSON shows them: what Arrow has and JSON has not becomes text.

Bytes become base64, times and intervals ISO 8601, decimals plain digits, and numbers that are none NaN or Infinity.
"""

import base64
import datetime
import decimal
import math
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc


def plain_rows(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Give each row as a dictionary that any JSON writer takes."""
    complicated = [name for name, column in zip(rows.schema.names, rows.columns, strict=True) if not _is_plain(column)]
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        for name in complicated:
            row[name] = plain(row[name])
        yield row


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
