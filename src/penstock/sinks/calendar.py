"""Days and times of Python's calendar, the years 1 to 9999, in which changes of a table are compared."""

import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.columns import CHANGE

_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)


def require_comparable(rows: pa.RecordBatch) -> None:
    """Raise `ValueError` for a change with a day or time outside of these years; rows of no changes may have them."""
    if CHANGE.name in rows.schema.names:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            _require_in_calendar(name, column)


def _require_in_calendar(name: str, values: pa.Array) -> None:
    kind = values.type
    if pa.types.is_date32(kind):
        _require_within(name, values.cast(pa.int32()), _DAYS)
    elif pa.types.is_timestamp(kind):
        _require_within(name, values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()), _MICROSECONDS)
    elif pa.types.is_map(kind):
        first, last = (values.offsets[at].as_py() for at in (0, -1))
        for each in (values.keys, values.items):
            _require_in_calendar(name, each.slice(first, last - first))
    elif pa.types.is_struct(kind):
        for each in values.flatten():
            _require_in_calendar(name, each)
    elif pa.types.is_list(kind):
        _require_in_calendar(name, values.flatten())


def _require_within(name: str, numbers: pa.Array, bounds: tuple[int, int]) -> None:
    found = pc.min_max(numbers)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and not bounds[0] <= low <= high <= bounds[1]:
        raise ValueError(f"{name} lies outside of the years 1 to 9999, and a change cannot be applied with it")
