"""Consumer groups: who reads, how far behind they are, and resetting them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from penstock.console.actions import ActionRoute
from penstock.console.asking import NEEDS, FromConsole, FromKafka, require_typed
from penstock.console.group_history import GroupChange, LagPoint
from penstock.delivery.lag import require_not_a_report
from penstock.errors import BadInput
from penstock.kafka import groups
from penstock.kafka.groups import GroupDetail, GroupSummary, ResetStep
from penstock.kafka.positions import Position
from penstock.operate.belonging import require_no_pipeline

router = APIRouter(prefix="/groups", tags=["groups"], route_class=ActionRoute)
Group = Annotated[str, Path(max_length=249, description="The group's name.")]


class GroupRow(GroupSummary, frozen=True):
    """One line of the group list."""

    lag: int = Field(description="Records between the group and the ends.")


class GroupPage(BaseModel, frozen=True):
    """Some groups."""

    total: int = Field(description="How many match.")
    groups: list[GroupRow] = Field(description="Those on this page, by name.")


class Reset(BaseModel, frozen=True, extra="forbid"):
    """Where to move a group: exactly one of to, by and like."""

    to: str | None = Field(None, description="earliest, latest, an offset, a time (2026-01-31T12:00) or 15m ago.")
    by: int | None = Field(None, description="This many records forward, or back if negative.")
    like: str | None = Field(None, description="To the positions of this other group.")
    topics: list[str] = Field(default_factory=list, description="Topics to move in; all of the group's if left out.")
    partition: int | None = Field(None, ge=0, description="Only this partition.")
    confirm: str | None = Field(None, description="The group's name once more; only planned without it.")


class ResetPlan(BaseModel, frozen=True):
    """What a reset does to each partition."""

    steps: list[ResetStep] = Field(description="The steps.")
    is_done: bool = Field(description="Whether it was done; without a confirmation it is only planned.")


class GroupPast(BaseModel, frozen=True):
    """A group over the last quarter of an hour, from when it was first asked for."""

    points: list[LagPoint] = Field(description="Its lag every few seconds, the oldest first.")
    changes: list[GroupChange] = Field(description="Rebalances as they were seen, the oldest first.")


class GroupDeleted(BaseModel, frozen=True):
    """A group that was, or would be, deleted."""

    group: str = Field(description="The group.")
    partitions: int = Field(description="Partitions that it has positions in.")
    is_done: bool = Field(description="Whether it was done; without a confirmation it is only counted.")


@router.get("", summary="List groups", dependencies=NEEDS["viewer"])
def list_groups(
    kafka: FromKafka,
    search: Annotated[str, Query(max_length=249, description="Part of the name.")] = "",
    page: Annotated[int, Query(ge=0, description="Page, from 0.")] = 0,
    size: Annotated[int, Query(ge=1, le=200, description="Groups on a page.")] = 50,
) -> GroupPage:
    """Return groups with their lag; the lag is computed only for those on the page."""
    admin = kafka.admin()
    fitting = [each for each in groups.list_groups(admin) if search.lower() in each.group.lower()]
    shown = fitting[page * size : (page + 1) * size]
    lags = groups.lags(admin, [each.group for each in shown])
    return GroupPage(total=len(fitting), groups=[GroupRow(**vars(each), lag=lags[each.group]) for each in shown])


@router.get("/{group:path}/history", summary="Recent history of a group", dependencies=NEEDS["viewer"])
def get_history(kafka: FromKafka, group: Group) -> GroupPast:
    """Return lag and rebalances since somebody first asked for this group, of the last quarter of an hour."""
    points, changes = kafka.group_history.of(group)
    return GroupPast(points=points, changes=changes)


@router.get("/{group:path}", summary="One group", dependencies=NEEDS["viewer"])
def get_group(kafka: FromKafka, group: Group) -> GroupDetail:
    """Return members, and positions and lag of each partition."""
    return groups.describe(kafka.admin(), group)


@router.post("/{group:path}/reset", summary="Move a group", dependencies=NEEDS["operator"])
def reset_group(kafka: FromKafka, group: Group, reset: Reset) -> ResetPlan:
    """Plan a reset; with the group's name as confirmation, do it. Kafka moves only groups without members."""
    require_not_a_report(group)
    if [reset.to is not None, reset.by is not None, reset.like is not None].count(True) != 1:
        raise BadInput("give exactly one of to, by and like")
    admin = kafka.admin()
    target = Position.parse(reset.to) if reset.to is not None else None
    partitions = groups.partitions_to_reset(admin, reset.like or group, reset.topics, reset.partition)
    steps = groups.plan_reset(admin, group, partitions, to=target, by=reset.by, like=reset.like)
    if reset.confirm is not None:
        require_typed("group", group, reset.confirm)
        groups.reset(admin, group, steps)
    return ResetPlan(steps=steps, is_done=reset.confirm is not None)


@router.delete("/{group:path}", summary="Delete a group with its positions", dependencies=NEEDS["admin"])
def delete_group(
    console: FromConsole,
    kafka: FromKafka,
    group: Group,
    confirm: Annotated[str | None, Query(description="The group's name once more; only counted without it.")] = None,
) -> GroupDeleted:
    """Count what would be forgotten; with the group's name as confirmation, delete it."""
    if kafka.is_own:
        require_no_pipeline(console.settings.home, group)
    admin = kafka.admin()
    count = len(groups.describe(admin, group).partitions)
    if confirm is not None:
        require_typed("group", group, confirm)
        groups.delete(admin, group)
    return GroupDeleted(group=group, partitions=count, is_done=confirm is not None)
