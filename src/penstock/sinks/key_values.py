"""The values of keys, each written in one way.

A number with a fraction has several ways of writing zero and NaN. To SQL these are one value, to Arrow's groups and to
Delta's merge they are several: a batch with two of them would have two rows of one key.
"""

import math
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

AnyRows = TypeVar("AnyRows", pa.Table, pa.RecordBatch)


def with_plain_keys(rows: AnyRows, key: list[str]) -> AnyRows:
    """Return the rows with 0.0 for -0.0 and one NaN for all in the columns of the key."""
    for name in key:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        if pa.types.is_floating(field.type):
            rows = rows.set_column(at, field, _plain(rows.column(at)))
    return rows


def _plain(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    without_sign = pc.add(values, pa.scalar(0.0, values.type))  # of zero alone
    return pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), without_sign)
