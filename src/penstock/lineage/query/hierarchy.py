"""Which jobs a job belongs to, starts, waits for and is waited for."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, Table, select

from penstock.lineage.query import catalogue
from penstock.lineage.query.io import refuse_more_than_most
from penstock.lineage.query.relatives import child_jobs, parent_jobs, symlinks
from penstock.lineage.query.sets import among
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.lineage import (
    JobDependency,
    JobEntity,
    JobHierarchy,
    JobHierarchyRelations,
    JobParentRelation,
)
from penstock.lineage.shapes.parameters import HierarchyQuery
from penstock.lineage.store import tables

INFERRED = "INFERRED_FROM_LINEAGE"


class _Dependency(NamedTuple):
    source: int
    target: int
    type: str


def hierarchy(connection: Connection, query: HierarchyQuery) -> JobHierarchy:
    """Return the relatives of a job, and jobs within `depth` steps of waiting; what is seen is not followed again."""
    window = None
    if query.infer_from_lineage:
        window = Window(query.since, query.until).with_streams(connection)
    parents: set[tuple[int, int]] = set()
    dependencies: set[_Dependency] = set()
    for way in ("UPSTREAM", "DOWNSTREAM"):
        if query.direction not in {way, "BOTH"}:
            continue
        seen: set[int] = set()
        frontier = {query.start_node_id}
        for _ in range(query.depth):
            relatives = parent_jobs(connection, frontier) | child_jobs(connection, frontier)
            parents |= relatives
            family = (frontier | {one for pair in relatives for one in pair}) - seen
            if not family:
                break
            seen |= family
            new = _dependencies(connection, family, window, is_up=way == "UPSTREAM")
            dependencies |= new
            refuse_more_than_most(len(dependencies))
            frontier = {each.source if way == "UPSTREAM" else each.target for each in new} - seen
    ends = {one for each in dependencies for one in (each.source, each.target)}
    parents |= parent_jobs(connection, ends) | child_jobs(connection, ends)
    jobs = catalogue.jobs(connection, {query.start_node_id} | ends | {one for pair in parents for one in pair})
    return JobHierarchy(
        relations=JobHierarchyRelations(
            parents=[JobParentRelation(from_=_job(one), to=_job(other)) for one, other in sorted(parents)],
            dependencies=[
                JobDependency(from_=_job(each.source), to=_job(each.target), type=each.type)
                for each in sorted(dependencies)
            ],
        ),
        nodes={"jobs": {str(number): each for number, each in jobs.items()}},
    )


def _dependencies(
    connection: Connection, jobs: Collection[int], window: Window | None, *, is_up: bool
) -> set[_Dependency]:
    of = tables.job_dependency.c
    rows = connection.execute(
        select(of.from_job_id, of.to_job_id, of.type).where(
            among(connection, of.to_job_id if is_up else of.from_job_id, jobs)
        )
    )
    found = {_Dependency(*row) for row in rows}
    if window is not None:
        found |= _inferred(connection, jobs, window, is_up=is_up)
    return found


def _inferred(connection: Connection, jobs: Collection[int], window: Window, *, is_up: bool) -> set[_Dependency]:
    """Return who wrote what these jobs read, or reads what these wrote, under whatever name of the data."""
    near, far = (tables.input_, tables.output) if is_up else (tables.output, tables.input_)
    here = _jobs_and_datasets(connection, near, "job_id", jobs, window)
    names: dict[int, set[int]] = {dataset: {dataset} for _, dataset in here}
    other_names = symlinks(connection, names)
    for each in other_names:
        names.setdefault(each.from_dataset_id, set()).add(each.to_dataset_id)
    every = set(names) | {each.to_dataset_id for each in other_names}
    there: dict[int, set[int]] = {}
    for job, dataset in _jobs_and_datasets(connection, far, "dataset_id", every, window):
        there.setdefault(dataset, set()).add(job)
    pairs = {
        (other, job) if is_up else (job, other)
        for job, dataset in here
        for name in names[dataset]
        for other in there.get(name, ())
    }
    return {_Dependency(source, target, INFERRED) for source, target in pairs if source != target}


def _jobs_and_datasets(
    connection: Connection, side: Table, by: str, ids: Collection[int], window: Window
) -> set[tuple[int, int]]:
    of = side.c
    rows = connection.execute(
        select(of.job_id, of.dataset_id)
        .distinct()
        .where(among(connection, of[by], ids), *window.holds_of(connection, of))
    )
    return {(row.job_id, row.dataset_id) for row in rows}


def _job(number: int) -> JobEntity:
    return JobEntity(id=str(number))
