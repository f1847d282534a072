"""What an Iceberg table's metadata say of a data file, so that readers can skip it: counts, lowest and highest values.

The library takes them from the Parquet footer. Where that does not tell the bounds of a column in every row group, as
with long texts, or where they cannot be written down, there are none: that costs a reader a look into the file.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq


def statistics_of(footer: pq.FileMetaData, metadata: Any) -> dict[str, Any]:
    """Return the statistics of a file with the columns that the table has by these metadata of it."""
    from pyiceberg.io.pyarrow import MetricModeTypes, compute_statistics_plan, parquet_path_to_id_mapping

    schema = metadata.schema()
    ids = parquet_path_to_id_mapping(schema)
    plan = compute_statistics_plan(schema, metadata.properties)
    # The library would warn of a column without statistics, which was written so on purpose.
    unmeasured = {
        ids[footer.schema.column(at).path] for at in range(footer.num_columns) if not _has_statistics(footer, at)
    }
    plan = _less(plan, unmeasured, MetricModeTypes.NONE)
    uncertain = {ids[footer.schema.column(at).path] for at in range(footer.num_columns) if not _has_bounds(footer, at)}
    try:
        return _collected(footer, _less(plan, uncertain, MetricModeTypes.COUNTS), ids)
    except (ValueError, OverflowError):  # a time that no calendar has, or a text above which the library finds none
        return _collected(footer, _less(plan, set(plan), MetricModeTypes.COUNTS), ids)


def _collected(footer: pq.FileMetaData, plan: Mapping[int, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata

    found: dict[str, Any] = data_file_statistics_from_parquet_metadata(footer, plan, ids).to_serialized_dict()
    return found


def _less(plan: Mapping[int, Any], columns: set[int], kind: Any) -> dict[int, Any]:
    """Let less be collected of some columns: their values counted, and no more, or nothing at all."""
    from pyiceberg.io.pyarrow import MetricModeTypes, MetricsMode

    return {
        number: replace(each, mode=MetricsMode(kind))
        if number in columns and each.mode.type != MetricModeTypes.NONE
        else each
        for number, each in plan.items()
    }


def _has_bounds(footer: pq.FileMetaData, at: int) -> bool:
    """Return whether every row group that has values of a column tells the lowest and the highest."""
    return all(each is not None and (each.has_min_max or not each.num_values) for each in _groups(footer, at))


def _has_statistics(footer: pq.FileMetaData, at: int) -> bool:
    return all(each is not None for each in _groups(footer, at))


def _groups(footer: pq.FileMetaData, at: int) -> list[Any]:
    return [footer.row_group(number).column(at).statistics for number in range(footer.num_row_groups)]
