"""Whether the service is there, and what it does. Both answer everybody: they tell nothing about data.

They take none of the threads that all other requests share, and so answer while those are all at work.
"""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from penstock.lineage.shapes.parameters import Parameters
from penstock.lineage.shapes.tokens import PingResponse

_JSON = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}
"""A route that answers with text says so of its errors, too, unless it is told what they are."""
_REFUSALS: dict[int | str, dict[str, object]] = {
    status.value: {"description": status.phrase, "content": _JSON}
    for status in (HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
}
router = APIRouter(prefix="/monitoring", tags=["Monitoring"], responses=_REFUSALS)


@router.get("/ping", summary="Whether the service is there")
async def ping(_: Annotated[Parameters, Query()]) -> PingResponse:
    """Return ok, without asking the store."""
    return PingResponse()


@router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
async def metrics(request: Request, _: Annotated[Parameters, Query()]) -> str:
    """Return how many requests there were, by route and status, and how long they took."""
    text: str = request.app.state.requests.text()
    return text
