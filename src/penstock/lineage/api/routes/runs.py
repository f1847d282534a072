"""Runs and their lineage."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from penstock.lineage.api.asking import NEEDS_READER
from penstock.lineage.api.lineage_answer import lineage_answer
from penstock.lineage.api.service import Reading
from penstock.lineage.query import lists
from penstock.lineage.query.walk import Start
from penstock.lineage.shapes.lineage import Lineage
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import RunLineageQuery, RunsQuery
from penstock.lineage.shapes.runs import RunDetailed

router = APIRouter(prefix="/runs", tags=["Runs"], dependencies=NEEDS_READER)


@router.get("", summary="List runs")
def list_runs(connection: Reading, query: Annotated[RunsQuery, Query()]) -> Page[RunDetailed]:
    """Return a page of runs, the latest first. `since` or `run_id` is needed."""
    return lists.runs(connection, query)


@router.get("/lineage", summary="Lineage of a run", response_model=Lineage)
def run_lineage(connection: Reading, query: Annotated[RunLineageQuery, Query()]) -> Response:
    """Return what a run and all that it started read and wrote, and so on."""
    return lineage_answer(connection, Start("RUN", query.start_node_id), query.granularity, query)
