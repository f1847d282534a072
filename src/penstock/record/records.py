"""Records as every source gives them: the reserved columns of an event, with `_error` only where one cannot be read."""

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kafka.topic_limits import NO_TIMESTAMP
from penstock.record.columns import HEADERS
from penstock.record.positions import SourcePartition

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)
_FIRST_MS = (datetime.datetime.min.replace(tzinfo=datetime.UTC) - _EPOCH) // _MS
_LAST_MS = (datetime.datetime.max.replace(tzinfo=datetime.UTC) - _EPOCH) // _MS


def records(
    source_partition: SourcePartition,
    offsets: pa.Array,
    timestamps_ms: pa.Array,
    keys: pa.Array,
    values: pa.Array,
    headers: list[Any],
) -> pa.RecordBatch:
    """Put together records of one source partition that are read for the first time; headers are pairs, or None."""
    count = len(offsets)
    columns = {
        "_topic": pa.repeat(source_partition.topic, count),
        "_topic_id": pa.repeat(source_partition.topic_id, count),
        "_partition": pa.repeat(pa.scalar(source_partition.partition, pa.int32()), count),
        "_offset": offsets,
        "_timestamp": times(timestamps_ms),
        "_timestamp_ms": timestamps_ms,
        "_key": keys,
        "_value": values,
        "_headers": _headers(headers),
        "_at": offsets,
        "_attempt": pa.repeat(pa.scalar(1, pa.int32()), count),
        "_sink": pa.nulls(count, pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def times(timestamps_ms: pa.Array) -> pa.Array:
    """Return times; null for those outside the years 1 to 9999: a record may hold any 64 bits."""
    known = pc.and_(pc.greater_equal(timestamps_ms, _FIRST_MS), pc.less_equal(timestamps_ms, _LAST_MS))
    known = pc.and_(known, pc.not_equal(timestamps_ms, NO_TIMESTAMP))
    found = pc.if_else(known, timestamps_ms, pa.scalar(None, pa.int64()))
    return found.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def _headers(listed: list[Any]) -> pa.Array:
    """Return a list for each record, never null. Most topics have no headers, and pay nothing for them."""
    if not any(listed):
        return pa.ListArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int32()), len(listed) + 1), pa.array([], HEADERS.value_type)
        )
    return pa.array([[{"name": name, "value": value} for name, value in each or ()] for each in listed], HEADERS)
