"""A search over everything, facets as they came, batches with offsets, and how far the store has been filled."""

from typing import Annotated

from fastapi import APIRouter, Query

from penstock.lineage.api.asking import NEEDS_READER
from penstock.lineage.api.service import Reading
from penstock.lineage.query import search
from penstock.lineage.shapes.catalogue import Facet
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import BatchesQuery, FacetsQuery, Parameters, SearchParameters
from penstock.lineage.shapes.search import Batch, SearchResult, WriterPosition

router = APIRouter(tags=["Search"], dependencies=NEEDS_READER)


@router.get("/search", summary="Search everything")
def search_everything(connection: Reading, query: Annotated[SearchParameters, Query()]) -> Page[SearchResult]:
    """Return a page of whatever has all the words in its name, the shortest first."""
    return search.search(connection, query)


@router.get("/facets", summary="Facets as they came")
def facets(connection: Reading, query: Annotated[FacetsQuery, Query()]) -> Page[Facet]:
    """Return a page of facets that have no place of their own."""
    return search.facets(connection, query)


@router.get("/batches", summary="Batches of Penstock's pipelines")
def batches(connection: Reading, query: Annotated[BatchesQuery, Query()]) -> Page[Batch]:
    """Return a page of the batches that wrote a dataset, the latest first, with the offsets that they read."""
    return search.batches(connection, query)


@router.get("/positions", summary="How far the store is filled")
def positions(connection: Reading, _: Annotated[Parameters, Query()]) -> list[WriterPosition]:
    """Return the next offset that the store needs of each partition of the topics that fill it."""
    return search.positions(connection)
