"""Rows as JSON shows them: what Arrow has and JSON has not becomes text."""

import base64
import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def plain_rows(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Give each row as a dictionary that any JSON writer takes."""
    complicated = [field.name for field in rows.schema if not _is_plain(field.type)]
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        for name in complicated:
            row[name] = plain(row[name])
        yield row


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind)
    )


def plain(value: Any) -> Any:
    """Turn bytes into base64, times into ISO 8601, decimals into text; look inside of lists and maps."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value
