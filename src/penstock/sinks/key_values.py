"""The values of keys, each written in one way, and the last row of each.

A number with a fraction has several ways of writing zero and NaN. To SQL these are one value, to Arrow's groups and to
Delta's merge they are several: a batch with two of them would have two rows of one key.
"""

import math
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = "row"

AnyRows = TypeVar("AnyRows", pa.Table, pa.RecordBatch)


def with_plain_keys(rows: AnyRows, key: list[str]) -> AnyRows:
    """Return the rows with 0.0 for -0.0 and one NaN for all in the columns of the key."""
    for name in key:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        if pa.types.is_floating(field.type):
            rows = rows.set_column(at, field, _plain(rows.column(at)))
    return rows


def last_of_each(rows: pa.Table, key: list[str]) -> Any:
    """Return the numbers of the rows that are the last ones of their key, in order."""
    # Under names of our own: one that begins with a dot or a bracket is a path to what groups them.
    names = [str(number) for number in range(len(key))]
    numbered = rows.select(key).rename_columns(names).append_column(_NUMBER, pa.array(np.arange(rows.num_rows)))
    grouped = numbered.group_by(names).aggregate([(_NUMBER, "max")])
    return np.sort(grouped.column(f"{_NUMBER}_max").to_numpy())


def _plain(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    without_sign = pc.add(values, pa.scalar(0.0, values.type))  # of zero alone
    return pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), without_sign)
