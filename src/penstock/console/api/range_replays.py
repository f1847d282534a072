"""Replaying a range of a pipeline's past in place: planned first, then run in the background exactly as planned."""

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import BaseModel, Field

from penstock.console.actions import ActionRoute
from penstock.console.api.pipelines import Name, file_of
from penstock.console.api.replay_state import ReplayId, ReplayState, state_of
from penstock.console.asking import NEEDS, FromConsole, require_typed
from penstock.errors import NotFound
from penstock.operate import range_replay
from penstock.sources.range import Part

router = APIRouter(prefix="/pipelines", tags=["pipelines"], route_class=ActionRoute)
_MOST_PLANS = 50


class Wanted(BaseModel, frozen=True, extra="forbid"):
    """Records to send through a pipeline again."""

    since: str = Field(max_length=100, description="First record: a time, 2h ago, or an offset.")
    until: str = Field("latest", max_length=100, description="Where to stop, exclusive: a time, 1h ago, or an offset.")


class Confirmed(BaseModel, frozen=True, extra="forbid"):
    """The confirmation of a plan."""

    confirm: str = Field(max_length=249, description="The pipeline's name once more.")


class Planned(BaseModel, frozen=True):
    """A replay that can be run."""

    replay: str = Field(description="Its id.")
    pipeline: str = Field(description="The pipeline.")
    offsets: int = Field(description="How many offsets it reads; rows of them are replaced where they are.")
    parts: list[Part] = Field(description="Which, of each partition. What has not landed yet is not among them.")


@router.post("/{name}/replays", summary="Plan a replay in place", dependencies=NEEDS["operator"])
def plan_replay(console: FromConsole, name: Name, wanted: Wanted) -> Planned:
    """Work out which records a replay would read. Nothing is changed, and the plan is kept until the console ends."""
    file = file_of(console, name)
    planned = range_replay.plan(console.settings, file, wanted.since, wanted.until, {}, replace=True)
    plans = console.planned_replays
    plans[planned.range.id] = planned
    for old in list(plans)[:-_MOST_PLANS]:
        plans.pop(old, None)
    parts = planned.range.parts
    return Planned(replay=planned.range.id, pipeline=name, offsets=planned.range.count, parts=parts)


@router.post(
    "/{name}/replays/{replay_id}",
    summary="Run a planned replay",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=NEEDS["operator"],
)
def start_replay(console: FromConsole, name: Name, replay_id: ReplayId, confirmed: Confirmed) -> ReplayState:
    """Run exactly what was planned, in the background; the live pipeline is not touched."""
    require_typed("pipeline", name, confirmed.confirm)
    planned = console.planned_replays.pop(replay_id, None)  # whoever takes it runs it
    if planned is None or planned.pipeline != name:
        raise NotFound(f"there is no plan '{replay_id}' for pipeline '{name}'", fix="Plan the replay once more")
    range_replay.keep(console.settings, planned)
    console.commands.start(replay_id, ["pipeline", "replay", planned.file, "--resume", replay_id])
    return get_replay(console, name, replay_id)


@router.get("/{name}/replays/{replay_id}", summary="State of a replay", dependencies=NEEDS["viewer"])
def get_replay(console: FromConsole, name: Name, replay_id: ReplayId) -> ReplayState:
    """Return whether a replay is running, done, or waiting to be resumed."""
    found = range_replay.find(console.settings, name, replay_id)
    return state_of(console, replay_id, is_done=found.is_done, is_given_up=bool(found.given_up))
