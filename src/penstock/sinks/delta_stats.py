"""What a Delta table's log says of a file, so that readers can skip it: rows, nulls, lowest and highest values.

Taken from the Parquet footer, which has them anyway. Whatever is not certain is left out, and costs a reader a look
into the file: decimals, binaries, numbers that are none, times that no calendar has. Of files that the library writes
it tells what a footer has, which leaves NaN out; so those have no statistics of columns in which there may be one.
"""

import datetime
import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.record.columns import COORDINATES

_COLUMNS = 32
"""How many columns are with_stats of, as other writers do; beside the coordinates, which are always."""
_TEXT_LENGTH = 32
_HIGHEST = "\U0010ffff"


def stats_of(footer: pq.FileMetaData, schema: pa.Schema) -> dict[str, Any]:
    """Return the statistics of a file; of columns of which the footer has none there are none."""
    wanted = [name for name in schema.names if not pa.types.is_nested(schema.field(name).type)]
    wanted = [name for name in wanted if name not in COORDINATES][:_COLUMNS] + list(COORDINATES)
    paths = Counter(footer.schema.column(number).path for number in range(footer.num_columns))
    stats: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for number in range(footer.num_columns):
        name = footer.schema.column(number).path
        if name not in wanted or paths[name] > 1:  # a field of a struct has a path, too
            continue
        groups = [footer.row_group(each).column(number).statistics for each in range(footer.num_row_groups)]
        if any(each is None or not each.has_null_count for each in groups):
            continue
        stats["nullCount"][name] = sum(each.null_count for each in groups)
        filled = [each for each in groups if each.num_values]
        if filled and all(each.has_min_max for each in filled):
            _bound(stats, name, schema.field(name).type, filled)
    return stats


def library_settings(schema: pa.Schema) -> Any:
    """Return what the library writes rows of these columns with: None for its own, if they hold no fractions."""
    from deltalake import ColumnProperties, WriterProperties

    if not any(_has_floats(field.type) for field in schema):
        return None
    with_stats, without_stats = ColumnProperties(statistics_enabled="PAGE"), ColumnProperties(statistics_enabled="NONE")
    # Named are those that have statistics: of a struct's fields there is no telling which is which.
    plain = [each.name for each in schema if not pa.types.is_nested(each.type) and not _has_floats(each.type)]
    return WriterProperties(
        compression="ZSTD", default_column_properties=without_stats, column_properties=dict.fromkeys(plain, with_stats)
    )


def _has_floats(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_has_floats(kind.field(number).type) for number in range(kind.num_fields))


def _bound(stats: dict[str, Any], name: str, kind: pa.DataType, groups: list[Any]) -> None:
    try:
        low, high = min(each.min for each in groups), max(each.max for each in groups)
    except (ValueError, OverflowError, UnicodeDecodeError):
        return
    for key, value in (("minValues", _lowest(low, kind)), ("maxValues", _highest(high, kind))):
        if value is not None:
            stats[key][name] = value


def _lowest(value: Any, kind: pa.DataType) -> Any:
    return value[:_TEXT_LENGTH] if isinstance(value, str) else _plain(value, kind)


def _highest(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, str) or len(value) <= _TEXT_LENGTH:
        return _plain(value, kind)
    # Above everything that begins like this, unless that goes on with the highest character of all.
    return None if value[_TEXT_LENGTH] == _HIGHEST else value[:_TEXT_LENGTH] + _HIGHEST


def _plain(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if pa.types.is_timestamp(kind) and kind.tz else text
    return value.isoformat() if isinstance(value, datetime.date) else None
