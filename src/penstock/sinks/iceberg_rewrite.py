"""Rows with a key, put into an Iceberg table instead of those that it has of these keys: their files are rewritten.

Guarantee: what takes the place of what is worked out on one snapshot, and becomes visible in one commit on that very
snapshot, together with the positions.
"""

import functools
import math
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.delivery.durable import sync_all
from penstock.record.columns import COORDINATES
from penstock.record.positions import OffsetRange
from penstock.sinks.iceberg_compaction import rows_of_file
from penstock.sinks.iceberg_partitions import split
from penstock.sinks.iceberg_schema import arrow_schema
from penstock.sinks.key_values import with_plain_keys
from penstock.sinks.moved import Key
from penstock.sinks.parquet_settings import parquet_settings
from penstock.sinks.partitioning import PartitionField


class Rewrite:
    """What rows, one of each key, do to one snapshot of a table: each takes the place of what is there."""

    def __init__(self, rows: pa.Table, key: list[str]) -> None:
        self._rows = rows
        self._key = key
        self._places = {each: number for number, each in enumerate(keys_of(rows, key))}
        self._kept: list[pa.Table] = []
        self.replaced: list[Any] = []
        """The files that others take the place of."""

    def look_at(self, table: Any, columns: Any, *, is_whole: bool = False) -> None:
        """Look at the table's files that may hold rows of these keys, or at all of them.

        `columns` are Iceberg's columns that it will have after the commit.
        """
        self._look_at(table, columns, files_with(table, self._rows, self._key, is_whole=is_whole))

    def _look_at(self, table: Any, columns: Any, tasks: Iterable[Any]) -> None:
        for task in tasks:
            there = file_table(table, task, columns)
            going = self._going(there)
            if going:
                self.replaced.append(task.file)
                stays = np.ones(there.num_rows, dtype=bool)
                stays[list(going)] = False
                self._kept.append(there.filter(pa.array(stays)))

    def _going(self, there: pa.Table) -> set[int]:
        """Return the places of a file's rows that are not to stay."""
        return {place for place, _ in self._matches(there)}

    def _matches(self, there: pa.Table) -> Iterator[tuple[int, int]]:
        """Return the places of a file's rows whose keys are among ours, each with the number of our row."""
        first = self._rows.column(self._key[0]).combine_chunks()
        keys = with_plain_keys(there.select(self._key), self._key)
        candidates = pc.indices_nonzero(pc.is_in(keys.column(self._key[0]), value_set=first))
        some = keys.take(candidates)
        for place, key in zip(candidates.to_pylist(), keys_of(some, self._key), strict=True):
            number = self._places.get(key)
            if number is not None:
                yield place, number

    def _new_rows(self) -> pa.Table:
        """Return the rows that come in."""
        return self._rows

    def written(self, folder: Path, schema: pa.Schema, partition_by: Sequence[PartitionField]) -> list[dict[str, Any]]:
        """Write the files that come in, durable; return what the commit needs to know of each."""
        files = list[dict[str, Any]]()
        for rows in [*self._kept, self._new_rows()]:
            if not rows.num_rows:
                continue
            for partition, part in split(rows.select(schema.names).cast(schema), partition_by):
                name = f"upsert-{uuid.uuid4()}.parquet"
                pq.write_table(part, folder / name, **parquet_settings(part))
                files.append({"file": name, "partition": list(partition)})
        sync_all([folder / each["file"] for each in files])
        return files


class Rest(Rewrite):
    """What stays of the table's files without the rows of some records."""

    def __init__(self, table: Any, columns: Any, records: Sequence[OffsetRange]) -> None:
        from pyiceberg.expressions import Or

        super().__init__(_plain_schema(columns).empty_table(), [])
        self._records = records
        if records:
            tasks = table.scan(row_filter=functools.reduce(Or, map(_within, records))).plan_files()
            self._look_at(table, columns, tasks)

    def _going(self, there: pa.Table) -> set[int]:
        topic_ids, partitions, offsets = (there.column(name) for name in COORDINATES)
        is_of_them = np.zeros(there.num_rows, dtype=bool)
        for each in self._records:
            is_of_it = pc.and_(
                pc.equal(topic_ids, each.source_partition.topic_id),
                pc.equal(partitions, pa.scalar(each.source_partition.partition, partitions.type)),
            )
            is_within = pc.and_(pc.greater_equal(offsets, each.start), pc.less(offsets, each.end))
            is_of_them |= pc.and_(is_of_it, is_within).fill_null(False).to_numpy()  # noqa: FBT003
        return set(np.flatnonzero(is_of_them).tolist())


def _within(part: OffsetRange) -> Any:
    from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan

    return And(
        EqualTo("_topic_id", part.source_partition.topic_id),
        EqualTo("_partition", part.source_partition.partition),
        GreaterThanOrEqual("_offset", part.start),
        LessThan("_offset", part.end),
    )


def keys_of(rows: pa.Table, key: list[str]) -> Iterator[Key]:
    """Return the key of each row. NaN, which is not equal to itself, is one key, as it is to Spark."""
    return zip(*(_values(rows.column(name)) for name in key), strict=True)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_temporal(column.type):  # of which Python's calendar has not all
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    values: list[Any] = column.to_pylist()
    return [math.nan if each != each else each for each in values] if pa.types.is_floating(column.type) else values  # noqa: PLR0124 - NaN alone is not itself


def _plain_schema(columns: Any) -> pa.Schema:
    return pa.schema([each.remove_metadata() for each in arrow_schema(columns)])


def file_table(table: Any, task: Any, columns: Any) -> pa.Table:
    """Read one of a table's files whole, in these columns of Iceberg's."""
    schema = _plain_schema(columns)
    return pa.Table.from_batches((each.cast(schema) for each in rows_of_file(table, task, columns)), schema)


def files_with(table: Any, rows: pa.Table, key: list[str], *, is_whole: bool = False) -> list[Any]:
    """Return the files that may hold rows of these keys, or all of them: by the bounds of the first column."""
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual

    first = rows.column(key[0])
    kind = first.type
    has_bounds = pa.types.is_integer(kind) or pa.types.is_string(kind)
    if is_whole or not has_bounds or first.null_count or not rows.num_rows:
        condition: Any = AlwaysTrue()
    else:
        bounds = pc.min_max(first).as_py()
        condition = And(GreaterThanOrEqual(key[0], bounds["min"]), LessThanOrEqual(key[0], bounds["max"]))
    return list(table.scan(row_filter=condition).plan_files())
