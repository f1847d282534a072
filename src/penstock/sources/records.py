"""Records as every source gives them: the reserved columns of an event but `_error`."""

from typing import Any

import pyarrow as pa

from penstock.delivery.positions import Place
from penstock.pipeline.columns import HEADERS


def records(
    place: Place,
    offsets: pa.Array,
    timestamps: pa.Array,
    keys: pa.Array,
    values: pa.Array,
    headers: list[Any],
) -> pa.RecordBatch:
    """Put together records of one place that are read for the first time; headers are pairs, or None."""
    count = len(offsets)
    columns = {
        "_topic": pa.repeat(place.topic, count),
        "_topic_id": pa.repeat(place.topic_id, count),
        "_partition": pa.repeat(pa.scalar(place.partition, pa.int32()), count),
        "_offset": offsets,
        "_timestamp": timestamps,
        "_key": keys,
        "_value": values,
        "_headers": _headers(headers),
        "_at": offsets,
        "_attempt": pa.repeat(pa.scalar(1, pa.int32()), count),
        "_sink": pa.nulls(count, pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _headers(listed: list[Any]) -> pa.Array:
    """Give a list for each record, never null. Most topics have no headers, and pay nothing for them."""
    if not any(listed):
        return pa.ListArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int32()), len(listed) + 1), pa.array([], HEADERS.value_type)
        )
    return pa.array([[{"name": name, "value": value} for name, value in each or ()] for each in listed], HEADERS)
