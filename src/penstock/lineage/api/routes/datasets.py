"""Datasets and their lineage."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from penstock.lineage.api.asking import NEEDS_READER
from penstock.lineage.api.lineage_answer import lineage_answer
from penstock.lineage.api.service import Reading
from penstock.lineage.query import lists
from penstock.lineage.query.walk import Start
from penstock.lineage.shapes.catalogue import DatasetDetailed
from penstock.lineage.shapes.lineage import Lineage
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import DatasetLineageQuery, DatasetsQuery

router = APIRouter(prefix="/datasets", tags=["Datasets"], dependencies=NEEDS_READER)


@router.get("", summary="List datasets")
def list_datasets(connection: Reading, query: Annotated[DatasetsQuery, Query()]) -> Page[DatasetDetailed]:
    """Return a page of datasets, by name, each with the schema that it was last seen with."""
    return lists.datasets(connection, query)


@router.get("/lineage", summary="Lineage of a dataset", response_model=Lineage)
def dataset_lineage(connection: Reading, query: Annotated[DatasetLineageQuery, Query()]) -> Response:
    """Return where a dataset comes from, and what is made from it."""
    return lineage_answer(connection, Start("DATASET", query.start_node_id), query.granularity, query)
