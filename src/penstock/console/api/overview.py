"""The overview: what needs attention first, then the cluster and the pipelines at a glance."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from penstock.config import local_services
from penstock.config.service_names import SERVICE_NAMES
from penstock.connect import restarts
from penstock.console.api.pipelines import PipelineRow, states_of_all, with_rates
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.rates import Point
from penstock.console.service import Console
from penstock.errors import PenstockError
from penstock.kafka import cluster
from penstock.kafka.cluster import ClusterDetail
from penstock.operate.status import Status
from penstock.services import status
from penstock.wording import plural

router = APIRouter(tags=["overview"])
_MOST_NAMED = 5
_MOST_PIPELINES = 20


class Concern(BaseModel, frozen=True):
    """A problem that needs attention."""

    level: Literal["error", "warning"] = Field(description="error: something does not work; warning: it may not soon.")
    what: str = Field(description="What is the matter.")
    fix: str = Field("", description="What to do about it.")
    about: str = Field("", description="What it is about, such as pipeline:orders or topic:orders.")


class ServiceRow(BaseModel, frozen=True):
    """A service of the project."""

    service: str = Field(description="Its name.")
    state: str = Field(description="starting, running, restarting, stopped, unsupervised or crashed.")
    address: str = Field(description="Where it answers.")
    restarts: int = Field(description="How often one of its programs died and was started again.")
    reason: str = Field(description="How the last one that died ended.")


class Overview(BaseModel, frozen=True):
    """The whole system at a glance."""

    concerns: list[Concern] = Field(description="What needs attention, the worst first.")
    cluster: ClusterDetail | None = Field(description="The cluster; none while it does not answer.")
    records_per_s: float | None = Field(description="Records written a second recently; none before the second look.")
    rate: list[Point] = Field(description="The same over the last quarter of an hour.")
    landed_per_s: float = Field(description="Events that running pipelines have landed a second, of late.")
    services: list[ServiceRow] = Field(description="Services that were started here.")
    pipelines: list[PipelineRow] = Field(description="Pipelines that have run here or that the project file names.")


@router.get("/overview", summary="The whole system at a glance", dependencies=NEEDS["viewer"])
def overview(console: FromConsole) -> Overview:
    """Return what needs attention. A cluster that does not answer is a concern, and no error."""
    concerns: list[Concern] = []
    found: ClusterDetail | None = None
    try:
        found = cluster.describe(console.admin())
        concerns += _of_cluster(found)
    except PenstockError as error:
        concerns.append(Concern(level="error", what=error.what, fix=error.fix, about="cluster"))
    pipelines = with_rates(console, states_of_all(console))
    concerns += [each for pipeline in pipelines for each in _of_pipeline(pipeline)]
    concerns += _of_letters(console.open_counts.of_pipelines())
    services = _services(console)
    concerns += [each for service in services for each in _of_service(service)]
    concerns += _of_connectors(console, services)
    points = [Point(at=at, records_per_s=rate) for at, rate in console.own.rates.history()]
    return Overview(
        concerns=sorted(concerns, key=lambda each: each.level),
        cluster=found,
        records_per_s=console.own.rates.per_s(),
        rate=points,
        landed_per_s=sum(each.landed_per_s for each in pipelines),
        services=services,
        pipelines=pipelines,
    )


def _of_cluster(found: ClusterDetail) -> list[Concern]:
    concerns = []
    if found.offline:
        what = f"{plural(len(found.offline), 'partition')} without a leader: {_named(found.offline)}"
        concerns.append(Concern(level="error", what=what, fix="Start the nodes that are down", about="cluster"))
    lacking = [each for each in found.under_replicated if each not in found.offline]
    if lacking:
        what = f"{plural(len(lacking), 'partition')} with a replica missing: {_named(lacking)}"
        concerns.append(Concern(level="warning", what=what, fix="See which node is down", about="cluster"))
    return concerns


def _of_pipeline(found: Status) -> list[Concern]:
    about, name = f"pipeline:{found.pipeline}", found.pipeline
    if found.state in {"failed", "crashed"}:
        why = f": {found.reason}" if found.reason else ""
        return [Concern(level="error", what=f"pipeline '{name}' {found.state}{why}", about=about)]
    if found.state == "waiting":
        return [Concern(level="warning", what=f"pipeline '{name}' is waiting: {found.reason}", about=about)]
    return []


def _of_letters(counts: dict[str, int]) -> list[Concern]:
    """Name what is open: a letter that was replayed or discarded needs nobody any more, one of an earlier run does.

    Whose letter it is, is the word of whoever wrote it: the pipelines with the most are named, and others are counted.
    """
    known = sorted((name for name in counts if name), key=lambda name: (-counts[name], name))[:_MOST_PIPELINES]
    others = sum(counts.values()) - sum(counts[name] for name in known)
    told = [(f"{plural(counts[name], 'dead letter')} of pipeline '{name}'", name) for name in sorted(known)]
    told += [(f"{plural(others, 'dead letter')} of further pipelines", "")] if others else []
    return [Concern(level="warning", what=what, about=f"dead-letters:{name}") for what, name in told]


def _services(console: Console) -> list[ServiceRow]:
    home, found = console.settings.home, []
    for name in SERVICE_NAMES:
        known = local_services.load(home, name)
        if known is not None:
            state = status.load(local_services.folder_of(home, name))
            found.append(
                ServiceRow(
                    service=name,
                    state=state.state,
                    address=f"{known.host}:{known.port}",
                    restarts=state.restarts,
                    reason=state.reason,
                )
            )
    return found


def _of_service(service: ServiceRow) -> list[Concern]:
    if service.state in {"running", "stopped", "starting"}:
        return []
    level: Literal["error", "warning"] = "error" if service.state == "crashed" else "warning"
    what = f"service '{service.service}' is {service.state}: {service.reason}"
    return [Concern(level=level, what=what, fix="Start it with: penstock up", about=f"service:{service.service}")]


def _of_connectors(console: Console, services: list[ServiceRow]) -> list[Concern]:
    """Name connectors that have failed and wait to be started again, as far as there is a worker for them."""
    if ("connect", "running") not in {(each.service, each.state) for each in services}:
        return []
    known = restarts.load(local_services.folder_of(console.settings.home, "connect"))
    return [
        Concern(level="error", what=f"connector '{name}' has failed: {each.reason}", about=f"connector:{name}")
        for name, each in known.items()
        if each.again_at is not None
    ]


def _named(partitions: list[str]) -> str:
    rest = len(partitions) - _MOST_NAMED
    return ", ".join(partitions[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
