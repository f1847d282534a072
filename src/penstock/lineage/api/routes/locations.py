"""Locations."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy import update

from penstock.lineage.api.asking import NEEDS_READER, Writer
from penstock.lineage.api.errors import ErrorAnswer, not_found
from penstock.lineage.api.service import Reading, Writing
from penstock.lineage.query import lists
from penstock.lineage.shapes.catalogue import LocationDetailed, LocationTypes, UpdateLocationRequest
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import LocationsQuery, Number, Parameters
from penstock.lineage.store import tables

router = APIRouter(prefix="/locations", tags=["Locations"], dependencies=NEEDS_READER)


@router.get("", summary="List locations")
def list_locations(connection: Reading, query: Annotated[LocationsQuery, Query()]) -> Page[LocationDetailed]:
    """Return a page of locations, by type and name."""
    return lists.locations(connection, query)


@router.get("/types", summary="Types of locations")
def location_types(connection: Reading, _: Annotated[Parameters, Query()]) -> LocationTypes:
    """Return which types of locations there are."""
    return LocationTypes(location_types=lists.distinct(connection, tables.location.c.type))


@router.patch(
    "/{location_id}",
    summary="Change a location",
    responses={HTTPStatus.NOT_FOUND.value: {"model": ErrorAnswer, "description": "Not Found"}},
)
def update_location(
    connection: Writing,
    _asker: Writer,
    location_id: Annotated[Number, Path(description="Number of the location.")],
    wanted: UpdateLocationRequest,
    _: Annotated[Parameters, Query()],
) -> LocationDetailed:
    """Set the id that a location has in another catalogue."""
    changed = connection.execute(
        update(tables.location).where(tables.location.c.id == location_id).values(external_id=wanted.external_id)
    )
    if not changed.rowcount:
        raise not_found("Location", "id", location_id)
    return lists.locations_with_counts(connection, [location_id])[location_id]
