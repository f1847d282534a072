"""How Parquet files are written: compressed with zstd, with dictionaries and statistics where those are worth it."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_FEW, _LOOKED_AT = 1000, 10_000
_REPEATED = 2
"""A column has a dictionary if each of its values comes so often, on average."""


def parquet_settings(rows: pa.Table) -> dict[str, Any]:
    """Return what to write a file with that begins with these rows.

    A dictionary of values that hardly repeat takes time and room; what repeats is seen in the first rows. Statistics
    leave NaN out, and readers to whom it is greater than all numbers would pass it over: where it is, there are none.
    """
    without = nan_columns(rows)
    with_statistics = [name for name in rows.column_names if name not in without] if without else True
    return {"compression": "zstd", "use_dictionary": _repeating(rows), "write_statistics": with_statistics}


def nan_columns(rows: pa.Table) -> set[str]:
    """Name the columns that have a number which is none."""
    return {
        field.name
        for field in rows.schema
        if pa.types.is_floating(field.type) and pc.any(pc.is_nan(rows.column(field.name))).as_py()
    }


def _repeating(rows: pa.Table) -> bool | list[str]:
    if rows.num_rows < _FEW or any(pa.types.is_nested(field.type) for field in rows.schema):
        return True  # to look takes longer than it saves; and parts of columns have paths of their own
    first = rows.slice(0, _LOOKED_AT)
    counts = {name: pc.count_distinct(first.column(name)).as_py() for name in first.column_names}
    return [name for name, count in counts.items() if count * _REPEATED <= first.num_rows]
