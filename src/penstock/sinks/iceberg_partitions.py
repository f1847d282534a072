"""Partitions of an Iceberg table: what its specification says, and which one each row belongs to."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import Conflict
from penstock.sinks.partitioning import PartitionField

_NAMES = {"identity": "identity", "months": "month", "days": "day", "hours": "hour"}
_FIRST_ID = 1000
_ROW = "row"
_MICROSECONDS_PER_HOUR = 3_600_000_000
_EPOCH_YEAR, _MONTHS = 1970, 12


def partition_spec(partition_by: Sequence[PartitionField], schema: Any) -> Any:
    """Return the specification for a table with this schema of Iceberg's."""
    from pyiceberg.partitioning import PartitionField as Field
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.transforms import parse_transform

    return PartitionSpec(
        *(
            Field(
                source_id=schema.find_field(each.column).field_id,
                field_id=_FIRST_ID + number,
                transform=parse_transform(_NAMES[each.transform]),
                name=each.name,
            )
            for number, each in enumerate(partition_by)
        )
    )


def require_same_partitions(table: Any, partition_by: Sequence[PartitionField], what: str) -> None:
    """Raise `Conflict` if the table is partitioned otherwise."""
    names = {"month": "months", "day": "days", "hour": "hours"}
    there = []
    for each in table.spec().fields:
        column, transform = table.schema().find_column_name(each.source_id), str(each.transform)
        there.append(column if transform == "identity" else f"{names.get(transform, transform)}({column})")
    wanted = [str(each) for each in partition_by]
    if there != wanted:
        raise Conflict(
            f"{what} is partitioned by {', '.join(there) or 'nothing'}, and the pipeline says"
            f" {', '.join(wanted) or 'nothing'}",
            safe="Nothing was written",
            fix=f"Say `partition_by: [{', '.join(there)}]`, or write to another path",
        )


def split(rows: pa.Table, partition_by: Sequence[PartitionField]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Return the rows of each partition, in order, with the values that Iceberg has for it."""
    if not partition_by:
        yield (), rows
        return
    names = [str(number) for number in range(len(partition_by))]
    values = pa.table([_values(rows.column(each.column), each) for each in partition_by], names)
    numbered = values.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    groups = numbered.group_by(names, use_threads=False).aggregate([(_ROW, "list")])
    indexes = groups.column(f"{_ROW}_list")
    for key, of_key in zip(groups.select(names).to_pylist(), indexes, strict=True):
        yield tuple(key.values()), rows.take(of_key.values)


def _values(column: pa.ChunkedArray, field: PartitionField) -> pa.ChunkedArray:
    kind = column.type
    if field.transform == "identity":
        return column.cast(pa.int32()) if pa.types.is_date32(kind) else column
    if pa.types.is_date32(kind) and field.transform == "days":
        return column.cast(pa.int32())
    # Times are rounded in UTC, also those before 1970, which are negative.
    utc = column.cast(pa.timestamp("us"))
    if field.transform == "days":
        return pc.floor_temporal(utc, unit="day").cast(pa.date32()).cast(pa.int32())
    if field.transform == "hours":
        whole = pc.floor_temporal(utc, unit="hour").cast(pa.int64())
        return pc.divide(whole, _MICROSECONDS_PER_HOUR).cast(pa.int32())
    years = pc.subtract(pc.year(utc), _EPOCH_YEAR)
    return pc.add(pc.multiply(years, _MONTHS), pc.subtract(pc.month(utc), 1)).cast(pa.int32())
