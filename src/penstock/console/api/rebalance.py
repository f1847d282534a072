"""Spreading partitions evenly over the nodes of a local cluster: the plan first, then the command in the background."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from penstock.broker import rebalance
from penstock.broker.rebalance import Move
from penstock.console.actions import ActionRoute
from penstock.console.asking import NEEDS, FromConsole, FromKafka
from penstock.errors import Conflict

router = APIRouter(prefix="/nodes/rebalance", tags=["nodes"], route_class=ActionRoute)
_NAME = "rebalance"


class RebalanceRequest(BaseModel, frozen=True, extra="forbid"):
    """A rebalance that is asked for."""

    moves: int | None = Field(None, ge=1, description="How many partitions the plan moves; only planned without it.")


class RebalancePlan(BaseModel, frozen=True):
    """Which partitions move where."""

    moves: list[Move] = Field(description="Each partition that moves; none if every node is evenly used.")
    is_started: bool = Field(description="Whether it was started; without a count it is only planned.")


class RebalanceState(BaseModel, frozen=True):
    """How the last rebalance that this console started stands."""

    state: Literal["none", "running", "done", "failed"] = Field(description="none: this console has started none.")
    said: list[str] = Field(description="Its last lines.")


@router.post("", summary="Move partitions to where they belong", dependencies=NEEDS["admin"])
def start_rebalance(console: FromConsole, kafka: FromKafka, request: RebalanceRequest) -> RebalancePlan:
    """Plan; with the number of moves, begin. No record is lost: a replica goes once the new one is in sync."""
    kafka.require_own()
    if console.commands.is_running(_NAME):
        raise Conflict("partitions are being moved already", safe="Nothing was changed")
    moves = rebalance.plan(kafka.admin(), console.cluster().classpath())
    if request.moves is None:
        return RebalancePlan(moves=moves, is_started=False)
    if request.moves != len(moves):
        raise Conflict(
            f"by now {len(moves)} partitions would move, and not {request.moves}",
            safe="Nothing was changed",
            fix="Look at the plan again",
        )
    console.commands.start(_NAME, ["topic", "rebalance", "--yes"])
    return RebalancePlan(moves=moves, is_started=True)


@router.get("", summary="State of a rebalance", dependencies=NEEDS["viewer"])
def get_rebalance(console: FromConsole, kafka: FromKafka) -> RebalanceState:
    """Return the state of the last rebalance that this console started, and what it said."""
    kafka.require_own()
    ended = console.commands.exit_code(_NAME)
    said = console.commands.said(_NAME)
    if console.commands.is_running(_NAME):
        return RebalanceState(state="running", said=said)
    if ended is None:
        return RebalanceState(state="none", said=[])
    return RebalanceState(state="done" if ended == 0 else "failed", said=said)
