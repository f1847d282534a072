"""Lineage as lists, a page at a time: locations, datasets, jobs, runs, and the operations of a run."""

import datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from penstock.console.asking import NEEDS, FromConsole
from penstock.console.lineage_store import moment, questions
from penstock.lineage.shapes.catalogue import DatasetDetailed, LocationDetailed
from penstock.lineage.shapes.parameters import (
    DatasetsQuery,
    JobsQuery,
    LocationsQuery,
    Number,
    OperationsQuery,
    Paging,
    RunsQuery,
    SearchQuery,
)
from penstock.lineage.shapes.runs import JobDetailed, OperationDetailed, RunDetailed, Status
from penstock.lineage.shapes.shape import Shape

router = APIRouter(prefix="/lineage", tags=["lineage"])
Item = TypeVar("Item")
Data = TypeVar("Data", bound=Shape)
MOST_LISTED = 50
_LONGEST = 1_000
"""Characters of a text in a list: what an event says may be as long as the event, and fifty of those are on a page."""
BEFORE = datetime.timedelta(hours=1)
"""What a run did is on record under the hour in which that began, and clocks of producers differ."""
Search = Annotated[SearchQuery | None, Query(description="Words that it has; each of them. Three letters at least.")]
Location = Annotated[Number | None, Query(description="Only in this location.")]
Since = Annotated[str, Query(max_length=64, description="Made since: 30d, or a time.")]


def _part(
    page: Annotated[int, Query(ge=0, lt=1_000_000, description="Page, from 0.")] = 0,
    size: Annotated[int, Query(ge=1, le=MOST_LISTED, description="How many a page has.")] = MOST_LISTED,
) -> Paging:
    return Paging(page=page + 1, page_size=size)


Part = Annotated[Paging, Depends(_part)]
"""The page that is asked for, as the store counts pages."""


class Listed(BaseModel, Generic[Item], frozen=True):
    """Some of a list."""

    total: int = Field(description="How many match.")
    items: list[Item] = Field(description="Those on this page.")

    @classmethod
    def of(cls, found: Any, items: list[Item]) -> "Listed[Item]":
        """Return the page of what the store has found, with items as they are shown."""
        return cls(total=found.meta.total_count, items=items)


class JobRow(JobDetailed):
    """A job with its last run and what starts it."""

    parent: str | None = Field(description="Name of the job that starts it.")


class RunRow(RunDetailed):
    """A run with its job, what it read and wrote, and what started it."""

    parent: str | None = Field(description="Name of the job whose run started it.")


@router.get("/locations", summary="List locations", dependencies=NEEDS["viewer"])
def list_locations(console: FromConsole, part: Part, search: Search = None) -> Listed[LocationDetailed]:
    """Return locations by type and name, with their addresses and how much is there."""
    with questions(console) as asked:
        found = asked.locations(LocationsQuery(search_query=search, **dict(part)))
    return Listed.of(found, found.items)


@router.get("/datasets", summary="List datasets", dependencies=NEEDS["viewer"])
def list_datasets(
    console: FromConsole, part: Part, search: Search = None, location: Location = None
) -> Listed[DatasetDetailed]:
    """Return datasets by name, with the schema that each was last seen with."""
    query = DatasetsQuery(search_query=search, location_id=_one(location), **dict(part))
    with questions(console) as asked:
        found = asked.datasets(query)
    return Listed.of(found, found.items)


@router.get("/jobs", summary="List jobs", dependencies=NEEDS["viewer"])
def list_jobs(
    console: FromConsole,
    part: Part,
    search: Search = None,
    location: Location = None,
    parent: Annotated[Number | None, Query(description="Only those that this job starts.")] = None,
) -> Listed[JobRow]:
    """Return jobs by name, each with its last run and what starts it."""
    query = JobsQuery(
        search_query=search,
        location_id=_one(location),
        parent_job_id=_one(parent),
        **dict(part),
    )
    with questions(console) as asked:
        found = asked.jobs(query)
        wanted = sorted({int(each.data.parent_job_id) for each in found.items if each.data.parent_job_id})
        parents = asked.jobs(JobsQuery(job_id=wanted, page_size=MOST_LISTED)).items if wanted else []
    names = {each.id: each.data.name for each in parents}
    items = [
        JobRow(
            **{**dict(each), "last_run": each.last_run and _cut(each.last_run)},
            parent=names.get(each.data.parent_job_id or ""),
        )
        for each in found.items
    ]
    return Listed.of(found, items)


@router.get("/runs", summary="List runs", dependencies=NEEDS["viewer"])
def list_runs(
    console: FromConsole,
    part: Part,
    search: Search = None,
    job: Annotated[Number | None, Query(description="Only those of this job.")] = None,
    parent: Annotated[UUID | None, Query(description="Only those that this run started.")] = None,
    state: Annotated[Status | None, Query(description="Only those that are in this state.")] = None,
    since: Since = "30d",
) -> Listed[RunRow]:
    """Return runs, the latest first, with what each read and wrote in sum and what started it."""
    query = RunsQuery(
        since=moment(since),
        search_query=search,
        job_id=_one(job),
        parent_run_id=_one(parent),
        status=_one(state),
        **dict(part),
    )
    with questions(console) as asked:
        found = asked.runs(query)
        names = job_names(asked, {each.data.parent_run_id for each in found.items if each.data.parent_run_id})
    items = [
        RunRow(**{**dict(each), "data": _cut(each.data)}, parent=names.get(each.data.parent_run_id))
        for each in found.items
    ]
    return Listed.of(found, items)


@router.get("/operations", summary="Operations of a run", dependencies=NEEDS["viewer"])
def list_operations(
    console: FromConsole,
    part: Part,
    run: Annotated[UUID, Query(description="The run.")],
) -> Listed[OperationDetailed]:
    """Return the operations of a run, the latest first, with the begin of their SQL and what each read and wrote."""
    with questions(console) as asked:
        known = asked.runs(RunsQuery(run_id=[run])).items
        if not known:
            return Listed(total=0, items=[])
        since = known[0].data.created_at - BEFORE
        found = asked.operations(OperationsQuery(run_id=[run], since=since, **dict(part)))
    items = [each.model_copy(update={"data": _cut(each.data)}) for each in found.items]
    return Listed.of(found, items)


def job_names(asked: Any, run_ids: set[UUID]) -> dict[UUID | None, str]:
    """Return the names of the jobs of runs; of a run that only a child has named there is none."""
    if not run_ids:
        return {}
    found = asked.runs(RunsQuery(run_id=sorted(run_ids), page_size=MOST_LISTED))
    return {each.id: each.job.name for each in found.items if each.job is not None}


def _one(value: Any) -> list[Any]:
    return [] if value is None else [value]


def _cut(data: Data) -> Data:
    long = {name: f"{text[:_LONGEST]}…" for name, text in data if isinstance(text, str) and len(text) > _LONGEST}
    return data.model_copy(update=long) if long else data
