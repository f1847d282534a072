"""Operations and their lineage."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from penstock.lineage.api.asking import NEEDS_READER
from penstock.lineage.api.lineage_answer import lineage_answer
from penstock.lineage.api.service import Reading
from penstock.lineage.query import lists
from penstock.lineage.query.walk import Start
from penstock.lineage.shapes.lineage import Lineage
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import OperationLineageQuery, OperationsQuery
from penstock.lineage.shapes.runs import OperationDetailed

router = APIRouter(prefix="/operations", tags=["Operations"], dependencies=NEEDS_READER)


@router.get("", summary="List operations")
def list_operations(connection: Reading, query: Annotated[OperationsQuery, Query()]) -> Page[OperationDetailed]:
    """Return a page of operations, the latest first. `operation_id`, or `run_id` with `since`, is needed."""
    return lists.operations(connection, query)


@router.get("/lineage", summary="Lineage of an operation", response_model=Lineage)
def operation_lineage(connection: Reading, query: Annotated[OperationLineageQuery, Query()]) -> Response:
    """Return what an operation read and wrote, and so on."""
    return lineage_answer(connection, Start("OPERATION", query.start_node_id), "OPERATION", query)
