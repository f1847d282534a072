"""One dataset, job, run or operation of the lineage: its own facts, its relatives, what it read and wrote."""

import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from penstock.console.api.lineage_lists import BEFORE, RunRow, job_names
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.lineage_store import questions
from penstock.errors import NotFound
from penstock.lineage.keys import written
from penstock.lineage.shapes.catalogue import DatasetDetailed, Job
from penstock.lineage.shapes.lineage import JobHierarchy, Lineage
from penstock.lineage.shapes.parameters import (
    DatasetsQuery,
    HierarchyQuery,
    JobsQuery,
    Number,
    OperationLineageQuery,
    OperationsQuery,
    RunLineageQuery,
    RunsQuery,
)
from penstock.lineage.shapes.runs import JobDetailed, OperationDetailed

router = APIRouter(prefix="/lineage", tags=["lineage"])


class Moved(BaseModel, frozen=True):
    """What was read of a dataset, or written to it."""

    key: str = Field(description="What to ask for to have the graph around the dataset.")
    name: str = Field(description="The dataset.")
    where: str = Field(description="Where it is.")
    rows: int | None = Field(description="How many rows; none if nobody has said it.")
    bytes: int | None = Field(description="How many bytes.")
    files: int | None = Field(description="How many files.")
    how: list[str] = Field(description="What writes did, such as APPEND.")
    last_at: datetime.datetime = Field(description="When last.")


class WholeJob(BaseModel, frozen=True):
    """A job and its relatives."""

    job: JobDetailed = Field(description="The job with its last run.")
    parents: list[Job] = Field(description="The job that starts it, the one that starts that, and so on.")
    children: list[Job] = Field(description="The jobs that it starts itself.")
    waits_for: list[Job] = Field(description="Jobs that come before it.")
    is_waited_for_by: list[Job] = Field(description="Jobs that come after it.")


class WholeRun(BaseModel, frozen=True):
    """A run, and what it read and wrote."""

    run: RunRow = Field(description="The run with its job.")
    inputs: list[Moved] = Field(description="What it read itself.")
    outputs: list[Moved] = Field(description="What it wrote itself.")


class WholeOperation(BaseModel, frozen=True):
    """An operation, and what it read and wrote."""

    operation: OperationDetailed = Field(description="The operation with its SQL.")
    run: RunRow | None = Field(description="Its run.")
    inputs: list[Moved] = Field(description="What it read.")
    outputs: list[Moved] = Field(description="What it wrote.")


@router.get("/datasets/{number}", summary="One dataset", dependencies=NEEDS["viewer"])
def get_dataset(
    console: FromConsole, number: Annotated[Number, Path(description="Number of the dataset.")]
) -> DatasetDetailed:
    """Return a dataset with the columns that it was last seen with."""
    with questions(console) as asked:
        found: DatasetDetailed = _only(asked.datasets(DatasetsQuery(dataset_id=[number])).items, "dataset", number)
    return found


@router.get("/jobs/{number}", summary="One job", dependencies=NEEDS["viewer"])
def get_job(console: FromConsole, number: Annotated[Number, Path(description="Number of the job.")]) -> WholeJob:
    """Return a job with its last run, what it belongs to, starts, waits for and is waited for."""
    with questions(console) as asked:
        job = _only(asked.jobs(JobsQuery(job_id=[number])).items, "job", number)
        family = asked.hierarchy(HierarchyQuery(start_node_id=number))
    jobs, relations = family.nodes["jobs"], family.relations
    return WholeJob(
        job=job,
        parents=_parents(family, job.id),
        children=[jobs[each.to.id] for each in relations.parents if each.from_.id == job.id],
        waits_for=[jobs[each.from_.id] for each in relations.dependencies if each.to.id == job.id],
        is_waited_for_by=[jobs[each.to.id] for each in relations.dependencies if each.from_.id == job.id],
    )


@router.get("/runs/{run_id}", summary="One run", dependencies=NEEDS["viewer"])
def get_run(console: FromConsole, run_id: Annotated[UUID, Path(description="Id of the run.")]) -> WholeRun:
    """Return a run with its job, and with every dataset that it read or wrote."""
    with questions(console) as asked:
        run = _run(asked, run_id)
        lineage = asked.lineage(RunLineageQuery(start_node_id=run_id, since=run.data.created_at - BEFORE))
    return WholeRun(run=run, inputs=_read(lineage, run_id), outputs=_written(lineage, run_id))


@router.get("/operations/{operation_id}", summary="One operation", dependencies=NEEDS["viewer"])
def get_operation(
    console: FromConsole, operation_id: Annotated[UUID, Path(description="Id of the operation.")]
) -> WholeOperation:
    """Return an operation with its SQL and its run, and with every dataset that it read or wrote."""
    with questions(console) as asked:
        listed = asked.operations(OperationsQuery(operation_id=[operation_id])).items
        operation = _only(listed, "operation", operation_id)
        since = operation.data.created_at - BEFORE
        lineage = asked.lineage(OperationLineageQuery(start_node_id=operation_id, since=since))
        runs = asked.runs(RunsQuery(run_id=[operation.data.run_id])).items
        run = _run(asked, operation.data.run_id) if runs else None
    return WholeOperation(
        operation=operation, run=run, inputs=_read(lineage, operation_id), outputs=_written(lineage, operation_id)
    )


def _only(items: list[Any], what: str, number: object) -> Any:
    if not items:
        raise NotFound(f"there is no {what} {number} in the lineage store")
    return items[0]


def _run(asked: Any, run_id: UUID) -> RunRow:
    found = _only(asked.runs(RunsQuery(run_id=[run_id])).items, "run", run_id)
    parent = found.data.parent_run_id
    return RunRow(**dict(found), parent=job_names(asked, {parent}).get(parent) if parent else None)


def _parents(family: JobHierarchy, job: str) -> list[Job]:
    """Return what starts a job, the nearest first; producers may report that two start each other."""
    starts = {each.to.id: each.from_.id for each in family.relations.parents}
    found: list[Job] = []
    seen = {job}
    while (job := starts.get(job, "")) and job not in seen:
        seen.add(job)
        found.append(family.nodes["jobs"][job])
    return found


def _read(lineage: Lineage, who: UUID) -> list[Moved]:
    return [_moved(lineage, each.from_.id, each) for each in lineage.relations.inputs if each.to.id == str(who)]


def _written(lineage: Lineage, who: UUID) -> list[Moved]:
    return [
        _moved(lineage, each.to.id, each, list(each.types))
        for each in lineage.relations.outputs
        if each.from_.id == str(who)
    ]


def _moved(lineage: Lineage, number: str, each: Any, how: list[str] | None = None) -> Moved:
    dataset = lineage.nodes.datasets[number]
    return Moved(
        key=f"dataset:{number}",
        name=dataset.name,
        where=written(dataset.location.type, dataset.location.name),
        rows=each.num_rows,
        bytes=each.num_bytes,
        files=each.num_files,
        how=how or [],
        last_at=each.last_interaction_at,
    )
