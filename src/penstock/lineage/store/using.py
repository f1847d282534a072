"""Rows of operations and of what they read and wrote, made of what tasks have staged."""

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from sqlalchemy import Table

from penstock.lineage.collected import Facts
from penstock.lineage.keys import DatasetKey, JobKey
from penstock.lineage.store import tables
from penstock.lineage.store.columns import from_us
from penstock.lineage.store.row_columns import Array, PackedRows, RowColumns, TimedRows, created_us
from penstock.lineage.uses import Rows, Uses

_DAY_US = 86_400_000_000

Ids = tuple[Array, Array]
"""The numbers of a task's datasets and jobs in the store."""


def each_once(uses: Sequence[Uses], facts: Facts) -> list[Uses]:
    """Return the uses, without those of operations that several tasks have met: these become facts, which merge."""
    met = Counter(each for task in uses for each in task.operations())
    several = {each for each, times in met.items() if times > 1}
    return [task.put_back(facts, several) for task in uses] if several else list(uses)


def moments(uses: Sequence[Uses]) -> Iterator[tuple[Table, set[datetime.datetime]]]:
    """Return the first and the last time of each day of which there are rows, for each table."""
    for table, rows_of, _ in _TABLES:
        yield table, _ends_of_days([rows_of(task)["operation"] for task in uses])


def operation_moments(uses: Sequence[Uses]) -> set[datetime.datetime]:
    """Return the first and the last time of each day of which there are operations."""
    return _ends_of_days([task.done.ids for task in uses])


def _ends_of_days(ids: list[Array]) -> set[datetime.datetime]:
    times_us = np.sort(np.concatenate([np.array([], np.int64), *map(created_us, ids)]))
    days = times_us // _DAY_US
    ends = np.flatnonzero(np.diff(days, prepend=-1, append=-1))
    return {from_us(each) for each in times_us[[*ends[:-1], *(ends[1:] - 1)]].tolist()}


def histories(
    uses: Sequence[Uses], datasets: Mapping[DatasetKey, int], jobs: Mapping[JobKey, int]
) -> Iterator[tuple[Table, TimedRows]]:
    """Return the rows of each table, made when they are asked for."""
    done = [task.done for task in uses if task.done.packed_ids]
    if done:
        operations = np.concatenate([each.ids for each in done])
        packed = np.array([row for each in done for row in each.rows], object)
        yield tables.operation, PackedRows(created_us(operations), operations, packed)
    ids = [
        (
            np.array([datasets[each] for each in task.datasets], np.int64),
            np.array([jobs[each] for each in task.jobs], np.int64),
        )
        for task in uses
    ]
    for table, rows_of, columns_of in _TABLES:
        parts = [(rows_of(task), of) for task, of in zip(uses, ids, strict=True)]
        made = [columns_of(rows, of) for rows, of in parts if len(rows)]
        if made:
            operations = np.concatenate([rows["operation"] for rows, _ in parts])
            yield table, RowColumns(created_us(operations), operations, _joined(made))


def _joined(parts: list[list[tuple[Array, Array | None]]]) -> list[tuple[Array, Array | None]]:
    return [
        (
            np.concatenate([values for values, _ in column]),
            None if column[0][1] is None else np.concatenate([missing for _, missing in column if missing is not None]),
        )
        for column in zip(*parts, strict=True)
    ]


def _read(rows: Rows, ids: Ids) -> list[tuple[Array, Array | None]]:
    return [*_used(rows, ids), *_counted(rows)]


def _written(rows: Rows, ids: Ids) -> list[tuple[Array, Array | None]]:
    return [*_used(rows, ids), (rows["kinds"], None), *_counted(rows)]


def _used(rows: Rows, ids: Ids) -> list[tuple[Array, Array | None]]:
    is_later_hour = np.zeros(len(rows), np.bool_)
    columns = (ids[0][rows["dataset"]], rows["run"], ids[1][rows["job"]], is_later_hour)
    return [(each, None) for each in columns]


def _counted(rows: Rows) -> list[tuple[Array, Array | None]]:
    counts = [(rows[name], rows[name] < 0) for name in ("num_bytes", "num_rows", "num_files")]
    return [(rows["schema"], ~rows["has_schema"]), *counts]


def _lineage(rows: Rows, ids: Ids) -> list[tuple[Array, Array | None]]:
    datasets, jobs = ids
    columns = (datasets[rows["source"]], datasets[rows["target"]], rows["fingerprint"], rows["run"], jobs[rows["job"]])
    return [(each, None) for each in columns]


_Columns = Callable[[Rows, Ids], list[tuple[Array, Array | None]]]
_TABLES: tuple[tuple[Table, Callable[[Uses], Rows], _Columns], ...] = (
    (tables.input_, lambda task: task.inputs, _read),
    (tables.output, lambda task: task.outputs, _written),
    (tables.column_lineage, lambda task: task.column_lineage, _lineage),
)
"""Each table with what of a task goes there, and its columns behind the time and the operation."""
