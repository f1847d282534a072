"""The application: routes, errors and what is around them."""

from importlib.metadata import version

from fastapi import APIRouter, FastAPI

from penstock.lineage.api import monitoring
from penstock.lineage.api.asking import REFUSALS
from penstock.lineage.api.errors import answer_errors
from penstock.lineage.api.middleware import Guard
from penstock.lineage.api.requests import Requests
from penstock.lineage.api.routes import (
    auth,
    datasets,
    jobs,
    locations,
    operations,
    personal_tokens,
    runs,
    search,
    tags,
    users,
)
from penstock.lineage.api.service import Service


def make_app(service: Service) -> FastAPI:
    """Return the application for a store. Its description is at /openapi.json; pages that draw it are no part of it."""
    app = FastAPI(
        title="Penstock lineage",
        version=version("penstock"),
        description="Where data come from, and what is made from them.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.requests = Requests()
    answer_errors(app)
    v1 = APIRouter(responses=REFUSALS)
    for resource in (
        auth,
        datasets,
        jobs,
        locations,
        operations,
        personal_tokens,
        runs,
        search,
        tags,
        users,
    ):
        v1.include_router(resource.router)
    app.include_router(v1, prefix="/v1")  # not in the router: FastAPI then builds every route twice, to see its path
    app.include_router(monitoring.router)
    app.add_middleware(Guard, requests=app.state.requests, only_loopback=service.sign_in is None)
    return app
