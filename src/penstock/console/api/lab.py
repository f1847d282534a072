"""The lab: scenarios and drills started and watched, games in the background, the podium beside the truth."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from penstock.console import podium
from penstock.console.actions import ActionRoute
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.lab_catalog import Offer
from penstock.console.lab_cluster import RunCluster
from penstock.console.lab_runs import Run, RunRequest, RunScale
from penstock.console.lab_verdict import Verdict
from penstock.console.podium import Podium
from penstock.console.simulator import Scale, Simulation

router = APIRouter(prefix="/lab", tags=["lab"], route_class=ActionRoute)
RunId = Annotated[str, Path(pattern=r"^[0-9a-f-]{1,40}$", description="The run's id.")]


class RunDetail(BaseModel, frozen=True):
    """A run, what it says and how it ended."""

    run: Run = Field(description="The run.")
    output: list[str] = Field(description="The last lines of its output.")
    verdict: Verdict | None = Field(description="How it ended; none if it came to no verdict, or not yet.")


@router.get("/catalog", summary="Scenarios and drills", dependencies=NEEDS["viewer"])
def get_catalog(console: FromConsole) -> list[Offer]:
    """Return what can be started, and what can be chosen for it."""
    return console.lab_catalog.offers()


@router.get("/runs", summary="List runs", dependencies=NEEDS["viewer"])
def list_runs(console: FromConsole) -> list[Run]:
    """Return the newest twenty that were started here, the newest first."""
    return console.lab_runs.newest()


@router.post("/runs", summary="Start one", status_code=HTTPStatus.CREATED, dependencies=NEEDS["operator"])
def start_run(console: FromConsole, request: RunRequest) -> Run:
    """Start a scenario or drill in a process of its own, on a throwaway cluster; one runs at a time."""
    return console.lab_runs.start(request)


@router.get("/runs/{run_id}", summary="One run", dependencies=NEEDS["viewer"])
def get_run(
    console: FromConsole,
    run_id: RunId,
    lines: Annotated[int, Query(ge=1, le=2_000, description="How many lines of its output.")] = 200,
) -> RunDetail:
    """Return its state, what it said last, and its verdict."""
    runs = console.lab_runs
    return RunDetail(run=runs.get(run_id), output=runs.said(run_id, lines), verdict=runs.verdict(run_id))


@router.get("/runs/{run_id}/cluster", summary="The cluster of a run", dependencies=NEEDS["viewer"])
def get_cluster(console: FromConsole, run_id: RunId) -> RunCluster:
    """Return nodes, topics and groups of its throwaway cluster, as long as that is there."""
    return console.lab_clusters.look(console.lab_runs.place(run_id))


@router.post("/runs/{run_id}/stop", summary="Stop a run", dependencies=NEEDS["operator"])
def stop_run(console: FromConsole, run_id: RunId) -> Run:
    """End it and its servers, after a minute by force; one that has ended stays as it is."""
    return console.lab_runs.stop(run_id)


@router.post("/runs/{run_id}/scale", summary="Scale a run", dependencies=NEEDS["operator"])
def scale_run(console: FromConsole, run_id: RunId, wanted: RunScale) -> Run:
    """Change the number of players or workers in a scenario that can be scaled."""
    return console.lab_runs.scale(run_id, wanted)


@router.get("/simulator", summary="Games in the background", dependencies=NEEDS["viewer"])
def get_simulator(console: FromConsole) -> Simulation:
    """Return whether games are played into the project's Kafka, and by how many."""
    return console.games.look()


@router.post("/simulator", summary="Start or scale the games", dependencies=NEEDS["operator"])
def start_simulator(console: FromConsole, scale: Scale) -> Simulation:
    """Play games into the project's Kafka, or go on with another number of players."""
    return console.games.start(scale)


@router.post("/simulator/stop", summary="Stop the games", dependencies=NEEDS["operator"])
def stop_simulator(console: FromConsole) -> Simulation:
    """End the games in the background; their events stay."""
    return console.games.stop()


@router.get("/podium", summary="The podium beside the truth", dependencies=NEEDS["viewer"])
def get_podium(
    console: FromConsole, games: Annotated[int, Query(ge=1, le=50, description="How many games.")] = 5
) -> Podium:
    """Compare the newest games of the background with what the pipeline `game-podium` has landed of them."""
    return podium.compare(console.settings, games)
