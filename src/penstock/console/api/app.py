"""The application: every route of the REST interface, errors, and what is around them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import APIRouter, FastAPI

from penstock.console.action_log import ActionLog
from penstock.console.actions import Actions
from penstock.console.api import (
    access,
    clusters,
    connectors,
    dead_letters,
    definitions,
    groups,
    kafka_acls,
    kafka_quotas,
    kafka_users,
    lab,
    lineage,
    lineage_details,
    lineage_lists,
    lineage_tokens,
    messages,
    nodes,
    overview,
    pipelines,
    range_replays,
    rebalance,
    schemas,
    sign_in,
    tables,
    topics,
)
from penstock.console.asking import REFUSALS
from penstock.console.errors import answer_errors
from penstock.console.guard import Guard
from penstock.console.service import Console
from penstock.console.sign_in_gate import SignInGate

PREFIX = "/api/v1"
_RESOURCES = (
    sign_in,
    clusters,
    overview,
    topics,
    messages,
    groups,
    pipelines,
    definitions,
    range_replays,
    dead_letters,
    tables,
    lineage,
    lineage_lists,
    lineage_tokens,
    lineage_details,
    schemas,
    connectors,
    rebalance,
    nodes,
    lab,
    access,
    kafka_users,
    kafka_acls,
    kafka_quotas,
)


def make_app(console: Console) -> FastAPI:
    """Return the application without pages. It is described at /api/v1/openapi.json."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        console.own.begin()
        console.open_counts.begin()
        console.audit.begin()
        yield
        for each in (console.own, *console.clusters.values()):
            each.end()
        console.open_counts.end()
        console.audit.end()

    app = FastAPI(
        title="Penstock console",
        version=version("penstock"),
        description="Kafka, pipelines and dead letters. Whatever changes something carries an X-Action-Id.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=running,
    )
    app.state.console = console
    app.state.actions = Actions(ActionLog(console.settings.home / "console" / "actions.db"))
    answer_errors(app)
    v1 = APIRouter(responses=REFUSALS)
    for resource in _RESOURCES:
        v1.include_router(resource.router)
    app.include_router(v1, prefix=PREFIX)  # not in the router: FastAPI then builds every route twice, to see its path
    app.add_middleware(SignInGate, console=console)
    app.add_middleware(Guard, console=console)
    return app
