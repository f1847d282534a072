"""Pipelines that have run here or that the project file names: state, record, logs, gaps; start, stop and check."""

from pathlib import Path as FilePath
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from penstock.clock import clock
from penstock.console.actions import ActionRoute
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.service import Console
from penstock.delivery import gaps
from penstock.delivery.gaps import Gap
from penstock.driver.log_files import last_lines
from penstock.driver.paths import SPARK_CONSOLE, PipelinePaths
from penstock.errors import BadInput, Mistakes, NotFound
from penstock.operate import history, supervisor
from penstock.operate import status as states
from penstock.operate.driver import MASTER
from penstock.operate.history import BatchRecord, Run
from penstock.operate.known_pipelines import file_of_name, known_paths, paths_of
from penstock.operate.status import Status
from penstock.pipeline.load import load_with_warnings
from penstock.pipeline.spec import NAME

router = APIRouter(prefix="/pipelines", tags=["pipelines"], route_class=ActionRoute)
Name = Annotated[str, Path(pattern=rf"^{NAME.pattern}$", description="The pipeline's name.")]
_LOGS = {"driver": "driver.log", "spark": "spark.log", "steps": SPARK_CONSOLE}
_FINISH_S = 60.0
_OF_LATE_S = 20.0


class PipelineRow(Status):
    """The state of one pipeline, and how much it lands."""

    landed_per_s: float = Field(0.0, description="Events that it has landed a second recently; 0 unless it runs.")


class Log(BaseModel, frozen=True):
    """The end of a log."""

    lines: list[str] = Field(description="Its last lines.")


class Check(BaseModel, frozen=True):
    """What was found in a pipeline file, without starting Spark."""

    pipeline: str = Field(description="The pipeline.")
    file: str = Field(description="Its file.")
    mistakes: list[str] = Field(description="What keeps it from running, each with its line and remedy.")
    warnings: list[str] = Field(description="What looks like a mistake.")


class Stopped(BaseModel, frozen=True):
    """A pipeline that was stopped."""

    pipeline: str = Field(description="The pipeline.")
    forced: bool = Field(description="Whether its batch was cut off; nothing is lost or doubled by that.")


def file_of(console: Console, name: str) -> FilePath:
    """Return the file that a pipeline ran with last, or that the project file names; raise `NotFound` otherwise."""
    named = console.file_pipelines.files().get(name)
    if named is not None and states.load(paths_of(console.settings, name).folder) is None:
        return named
    known_paths(console.settings, name)
    return file_of_name(console.settings, name)


def _paths(console: Console, name: str) -> PipelinePaths:
    """Return its folders; those of a pipeline that only the project file names need not be there yet."""
    named = console.file_pipelines.files()
    return paths_of(console.settings, name) if name in named else known_paths(console.settings, name)


def states_of_all(console: Console) -> list[Status]:
    """Return the state of every pipeline that has run here or that the project file names, by name."""
    found = {each.pipeline: each for each in states.load_all(console.settings.home)}
    new = {name: _new(name, file) for name, file in console.file_pipelines.files().items() if name not in found}
    return [each for _, each in sorted({**found, **new}.items())]


def _new(name: str, file: FilePath) -> Status:
    return Status(pipeline=name, state="stopped", pid=0, file=str(file))


def _state(console: Console, name: str) -> Status:
    found = states.load(_paths(console, name).folder)
    if found is not None:
        return found
    named = console.file_pipelines.files().get(name)
    if named is None:
        raise NotFound(f"no driver of pipeline '{name}' has run here")
    return _new(name, named)


def with_rates(console: Console, found: list[Status]) -> list[PipelineRow]:
    """Add what each pipeline has landed of late: the speed of a single batch says little where few events come."""
    landed: dict[str, int] = {}
    if any(each.state == "running" for each in found):
        landed = history.events_since(console.settings.home, clock().now().timestamp() - _OF_LATE_S)
    return [
        PipelineRow(
            **dict(each), landed_per_s=landed.get(each.pipeline, 0) / _OF_LATE_S if each.state == "running" else 0.0
        )
        for each in found
    ]


@router.get("", summary="List pipelines", dependencies=NEEDS["viewer"])
def list_pipelines(console: FromConsole) -> list[PipelineRow]:
    """Return the state of every pipeline that has run here or that the project file names, by name."""
    return with_rates(console, states_of_all(console))


@router.get("/{name}", summary="One pipeline", dependencies=NEEDS["viewer"])
def get_pipeline(console: FromConsole, name: Name) -> PipelineRow:
    """Return a pipeline's state, lag, speed, and the account of each sink."""
    return with_rates(console, [_state(console, name)])[0]


@router.get("/{name}/runs", summary="Runs of a pipeline", dependencies=NEEDS["viewer"])
def get_runs(
    console: FromConsole, name: Name, count: Annotated[int, Query(ge=1, le=1_000, description="How many.")] = 20
) -> list[Run]:
    """Return runs of the last 30 days, the newest first."""
    _paths(console, name)
    return history.runs(console.settings.home, name, count)


@router.get("/{name}/batches", summary="Batches of a pipeline", dependencies=NEEDS["viewer"])
def get_batches(
    console: FromConsole, name: Name, count: Annotated[int, Query(ge=1, le=1_000, description="How many.")] = 100
) -> list[BatchRecord]:
    """Return batches of the last 30 days, the newest first."""
    _paths(console, name)
    return history.batches(console.settings.home, name, count)


@router.get("/{name}/log", summary="The end of a pipeline's log", dependencies=NEEDS["viewer"])
def get_log(
    console: FromConsole,
    name: Name,
    of: Annotated[Literal["driver", "spark", "steps"], Query(description="Whose: driver, spark or steps.")] = "driver",
    lines: Annotated[int, Query(ge=1, le=1_000, description="How many.")] = 100,
) -> Log:
    """Return the last lines; none if there is no such log yet."""
    path = _paths(console, name).logs / _LOGS[of]
    return Log(lines=last_lines(path, lines) if path.exists() else [])


@router.get("/{name}/gaps", summary="What a pipeline went past unread", dependencies=NEEDS["viewer"])
def get_gaps(console: FromConsole, name: Name) -> list[Gap]:
    """Return what a command gave up, and the rest of deleted topics."""
    return gaps.read(_paths(console, name).folder)


@router.post("/{name}/check", summary="Check a pipeline's file", dependencies=NEEDS["operator"])
def check_pipeline(console: FromConsole, name: Name) -> Check:
    """Look for mistakes in the file that ran last, without starting Spark; a Python file is run for it."""
    file = file_of(console, name)
    try:
        _, warnings = load_with_warnings(file)
    except Mistakes as error:
        return Check(pipeline=name, file=str(file), mistakes=str(error).splitlines(), warnings=[])
    return Check(pipeline=name, file=str(file), mistakes=[], warnings=warnings)


@router.post("/{name}/start", summary="Start a pipeline", dependencies=NEEDS["operator"])
def start_pipeline(console: FromConsole, name: Name) -> Status:
    """Run it in the background with the file that it ran with last; answers as soon as its supervisor is there.

    With `speed: stream` in the project file it goes on when it has caught up, as `penstock up` has it.
    """
    file = file_of(console, name)
    stream = console.file_pipelines.streams(name, file)
    found, _ = load_with_warnings(file, stream=stream)
    if found.name != name:
        raise BadInput(f"{file} is the file of pipeline '{found.name}', not of '{name}'", safe="Nothing was started")
    supervisor.start(name, console.settings, file, console.root, MASTER, stream=stream)
    return _state(console, name)


@router.post("/{name}/stop", summary="Stop a pipeline", dependencies=NEEDS["operator"])
def stop_pipeline(console: FromConsole, name: Name) -> Stopped:
    """Stop it after its current batch, or after a minute by force."""
    return Stopped(pipeline=name, forced=supervisor.stop(name, console.settings, _FINISH_S))
