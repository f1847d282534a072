"""Tags."""

from typing import Annotated

from fastapi import APIRouter, Query

from penstock.lineage.api.asking import NEEDS_READER
from penstock.lineage.api.service import Reading
from penstock.lineage.query import lists
from penstock.lineage.shapes.catalogue import TagDetailed
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import TagsQuery

router = APIRouter(prefix="/tags", tags=["Tags"], dependencies=NEEDS_READER)


@router.get("", summary="List tags")
def list_tags(connection: Reading, query: Annotated[TagsQuery, Query()]) -> Page[TagDetailed]:
    """Return a page of tags, by name, each with all values that it has anywhere."""
    return lists.tags(connection, query)
