"""Parents and children of jobs and runs, and other names of datasets: all of them, however far away."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Table, select

from penstock.lineage.query.io import refuse_more_than_most
from penstock.lineage.query.sets import among
from penstock.lineage.store import tables


class Symlink(NamedTuple):
    """Another name of a dataset."""

    from_dataset_id: int
    to_dataset_id: int
    type: str


def symlinks(connection: Connection, dataset_ids: Iterable[int]) -> set[Symlink]:
    """Return the other names of datasets, and the other names of those."""
    of = tables.dataset_symlink.c
    found: set[Symlink] = set()
    known = set(dataset_ids)
    frontier = set(known)
    while frontier:
        rows = connection.execute(
            select(of.from_dataset_id, of.to_dataset_id, of.type).where(among(connection, of.from_dataset_id, frontier))
        )
        new = {Symlink(*row) for row in rows}
        found |= new
        frontier = {each.to_dataset_id for each in new} - known
        known |= frontier
    return found


def child_jobs(connection: Connection, job_ids: Collection[int]) -> set[tuple[int, int]]:
    """Return (parent, child) of all descendants."""
    return _descendants(connection, tables.job, "parent_job_id", job_ids)


def parent_jobs(connection: Connection, job_ids: Collection[int]) -> set[tuple[int, int]]:
    """Return (parent, child) of all ancestors."""
    of = tables.job.c
    found: set[tuple[int, int]] = set()
    known, frontier = set(job_ids), set(job_ids)
    while frontier:
        rows = connection.execute(
            select(of.parent_job_id, of.id).where(among(connection, of.id, frontier), of.parent_job_id.is_not(None))
        )
        new = {(row.parent_job_id, row.id) for row in rows}
        found |= new
        frontier = {parent for parent, _ in new} - known
        known |= frontier
    return found


def child_runs(connection: Connection, run_ids: Collection[UUID]) -> set[tuple[UUID, UUID]]:
    """Return (parent, child) of all descendants."""
    return _descendants(connection, tables.run, "parent_run_id", run_ids)


def _descendants(connection: Connection, table: Table, parent: str, ids: Collection[Any]) -> set[tuple[Any, Any]]:
    found: set[tuple[Any, Any]] = set()
    known, frontier = set(ids), set(ids)
    while frontier:
        rows = connection.execute(
            select(table.c[parent], table.c.id).where(among(connection, table.c[parent], frontier))
        )
        new = {(row[0], row[1]) for row in rows}
        found |= new
        refuse_more_than_most(len(found))
        frontier = {child for _, child in new} - known
        known |= frontier
    return found
