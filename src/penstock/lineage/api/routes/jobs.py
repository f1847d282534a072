"""Jobs, their lineage and their hierarchy."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from penstock.lineage.api.asking import NEEDS_READER
from penstock.lineage.api.lineage_answer import lineage_answer
from penstock.lineage.api.service import Reading
from penstock.lineage.query import lists
from penstock.lineage.query.hierarchy import hierarchy
from penstock.lineage.query.walk import Start
from penstock.lineage.shapes.catalogue import JobTypes
from penstock.lineage.shapes.lineage import JobHierarchy, Lineage
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import HierarchyQuery, JobLineageQuery, JobsQuery, Parameters
from penstock.lineage.shapes.runs import JobDetailed
from penstock.lineage.store import tables

router = APIRouter(prefix="/jobs", tags=["Jobs"], dependencies=NEEDS_READER)


@router.get("", summary="List jobs")
def list_jobs(connection: Reading, query: Annotated[JobsQuery, Query()]) -> Page[JobDetailed]:
    """Return a page of jobs, by name, each with its last run."""
    return lists.jobs(connection, query)


@router.get("/lineage", summary="Lineage of a job", response_model=Lineage)
def job_lineage(connection: Reading, query: Annotated[JobLineageQuery, Query()]) -> Response:
    """Return what a job and all that it starts read and wrote, and so on."""
    return lineage_answer(connection, Start("JOB", query.start_node_id), query.granularity, query)


@router.get("/types", summary="Types of jobs")
def job_types(connection: Reading, _: Annotated[Parameters, Query()]) -> JobTypes:
    """Return which types of jobs there are."""
    return JobTypes(job_types=lists.distinct(connection, tables.job.c.type))


@router.get("/hierarchy", summary="Hierarchy of a job")
def job_hierarchy(connection: Reading, query: Annotated[HierarchyQuery, Query()]) -> JobHierarchy:
    """Return which jobs a job belongs to, starts, waits for and is waited for."""
    return hierarchy(connection, query)
