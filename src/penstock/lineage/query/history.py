"""Runs and operations by their ids, and what they read and wrote in sum.

They come as plain values: an answer has tens of thousands, for which models would take most of the time.
"""

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, Table, func, select

from penstock.lineage.facts import Status
from penstock.lineage.query.sets import among, by_uuid, total
from penstock.lineage.query.window import horizon
from penstock.lineage.shapes.runs import IoStatistics, Run
from penstock.lineage.store import tables

Values = dict[str, Any]
_RUN = [str(each.name) for each in tables.run.columns]
_OPERATION = [str(each.name) for each in tables.operation.columns]
_STATUS: dict[int, Any] = {each.value: each.name for each in Status}


def runs(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Values]:
    """Return the values of `shapes.runs.Run` in the order of time."""
    of = tables.run.c
    found = connection.execute(
        select(tables.run).where(by_uuid(connection, of.id, of.created_at, ids)).order_by(of.created_at, of.id)
    )
    return {row.id: _run(row) for row in found}


def _run(row: Row[Any]) -> Values:
    values = dict(zip(_RUN, row, strict=True))
    started_by = values.pop("started_by")
    return values | {
        "job_id": None if row.job_id is None else str(row.job_id),
        "status": _STATUS[row.status],
        "started_by_user": None if started_by is None else {"name": started_by},
    }


def operations(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Values]:
    """Return the values of `shapes.runs.Operation` in the order of time."""
    of = tables.operation.c
    found = connection.execute(
        select(tables.operation).where(by_uuid(connection, of.id, of.created_at, ids)).order_by(of.created_at, of.id)
    )
    return {
        row.id: dict(zip(_OPERATION, row, strict=True)) | {"status": _STATUS[row.status], "type": row.type or "BATCH"}
        for row in found
    }


def last_runs(connection: Connection, job_ids: Collection[int]) -> dict[int, Run]:
    """Return the last run of each job; one that a wrong clock has put years ahead only if there is no other."""
    job, run = tables.job.c, tables.run.c
    listed = select(run.id).where(run.job_id == job.id).order_by(run.created_at.desc(), run.id.desc()).limit(1)
    last = func.coalesce(listed.where(run.created_at <= horizon()).scalar_subquery(), listed.scalar_subquery())
    ids = connection.execute(select(last).where(among(connection, job.id, job_ids))).scalars()
    found = runs(connection, {each for each in ids if each is not None})
    return {int(each["job_id"]): Run.model_validate(each) for each in found.values()}


def statistics(connection: Connection, io: Table, by: str, ids: Iterable[UUID]) -> dict[UUID, IoStatistics]:
    """Return what runs or operations (`by`: the column) read or wrote.

    A long operation has counted for each hour what it has done so far: the greatest counts.
    """
    of = io.c
    key = of[by]
    hours = (
        select(
            key.label("key"),
            of.dataset_id,
            func.max(of.num_bytes).label("bytes"),
            func.max(of.num_rows).label("rows"),
            func.max(of.num_files).label("files"),
        )
        .where(among(connection, key, ids))
        .group_by(key, of.operation_id, of.dataset_id)
        .subquery()
    )
    found = connection.execute(
        select(
            hours.c.key,
            func.count(hours.c.dataset_id.distinct()).label("datasets"),
            total(hours.c.bytes).label("bytes"),
            total(hours.c.rows).label("rows"),
            total(hours.c.files).label("files"),
        ).group_by(hours.c.key)
    )
    return {
        row.key: IoStatistics(
            total_datasets=row.datasets,
            total_bytes=row.bytes or 0,
            total_rows=row.rows or 0,
            total_files=row.files or 0,
        )
        for row in found
    }


def operation_counts(connection: Connection, run_ids: Collection[UUID]) -> dict[UUID, int]:
    """Return how many operations runs have."""
    of = tables.operation.c
    found = connection.execute(
        select(of.run_id, func.count().label("count")).where(among(connection, of.run_id, run_ids)).group_by(of.run_id)
    )
    return {row.run_id: row._mapping["count"] for row in found}  # noqa: SLF001 - a row has a method of this name
