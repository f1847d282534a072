"""Consumer groups: their members, their lag, and resetting them."""

import time
from contextlib import suppress
from typing import Literal

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import ConsumerGroupDescription, ConsumerGroupListing
from pydantic import BaseModel, Field

from penstock.errors import Conflict, NotFound, Refused
from penstock.kafka import topics
from penstock.kafka.admin import Admin, require_whole
from penstock.kafka.failures import translate
from penstock.kafka.positions import Position, bounds, resolve
from penstock.wording import nearest

TopicAndPartition = tuple[str, int]
_UNSTABLE_PAUSE_S = 0.05


class GroupSummary(BaseModel, frozen=True):
    """One line of the group list."""

    group: str = Field(description="The group's name.")
    state: str = Field(description="stable, empty, dead or rebalancing.")
    type: str = Field(description="classic or consumer: the protocol that its members speak.")


class Member(BaseModel, frozen=True):
    """One consumer in a group."""

    member_id: str = Field(description="Id that the cluster gave it.")
    client_id: str = Field(description="Name that the client gave itself.")
    host: str = Field(description="Where it connects from.")
    partitions: list[str] = Field(description="topic/partition that it owns.")


class PartitionLag(BaseModel, frozen=True):
    """How far a group is behind in one partition."""

    topic: str = Field(description="Topic.")
    partition: int = Field(description="Partition.")
    committed: int | None = Field(description="Next offset that the group will read; none if it never committed.")
    start: int = Field(description="First offset that is still there.")
    end: int = Field(description="Offset that the next record will get.")
    lag: int = Field(description="Records between the group and the end.")
    member: str | None = Field(description="Client that owns the partition now.")


class GroupDetail(BaseModel, frozen=True):
    """A group with its members and its lag."""

    group: str = Field(description="The group's name.")
    state: str = Field(description="stable, empty, dead or rebalancing.")
    coordinator: int = Field(description="Node that looks after the group.")
    members: list[Member] = Field(description="Consumers that are in it now.")
    partitions: list[PartitionLag] = Field(description="Lag per partition.")
    lag: int = Field(description="Lag in all partitions together.")


class ResetStep(BaseModel, frozen=True):
    """What a reset does to one partition."""

    topic: str = Field(description="Topic.")
    partition: int = Field(description="Partition.")
    current: int | None = Field(description="Position now.")
    target: int = Field(description="Position afterwards.")
    effect: Literal["reads again", "skips", "stays"] = Field(description="What that means for the group.")
    records: int = Field(description="How many offsets are read again or skipped.")


def list_groups(admin: Admin) -> list[GroupSummary]:
    """List every group."""
    found = admin.when_ready(lambda: _listed(admin))
    return sorted(
        (
            GroupSummary(
                group=each.group_id,
                state=each.state.name.lower(),
                type=(each.type.name.lower() if each.type else "classic"),
            )
            for each in found
        ),
        key=lambda each: each.group,
    )


def _listed(admin: Admin) -> list[ConsumerGroupListing]:
    doing = "listing groups"
    answer = admin.result(admin.client.list_consumer_groups(request_timeout=admin.timeout_s), doing)
    for error in answer.errors or []:  # one for each node that could not say which groups it has
        raise translate(error, admin.connection, doing)
    return list(answer.valid or [])


def committed(
    admin: Admin, group: str, topic_partitions: list[TopicAndPartition] | None = None
) -> dict[TopicAndPartition, int]:
    """Return the group's committed positions; partitions without one are left out.

    A position that an open transaction moves is waited for, so that a stale one is never returned.
    """
    return admin.when_ready(lambda: _committed(admin, group, topic_partitions))


def _committed(
    admin: Admin, group: str, topic_partitions: list[TopicAndPartition] | None
) -> dict[TopicAndPartition, int]:
    require_whole(group)
    asked = [TopicPartition(*tp) for tp in topic_partitions] if topic_partitions else None
    request = ConsumerGroupTopicPartitions(group, asked) if asked else ConsumerGroupTopicPartitions(group)
    doing = f"reading the positions of group '{group}'"
    deadline = time.monotonic() + admin.timeout_s
    while True:
        futures = admin.client.list_consumer_group_offsets(
            [request], require_stable=True, request_timeout=admin.timeout_s
        )
        (answer,) = admin.results(futures, doing)
        found = answer.topic_partitions or []
        errors = [tp.error for tp in found if tp.error is not None]
        if any(error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT for error in errors):
            raise translate(errors[0], admin.connection, doing)
        if not errors:
            return {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}
        if time.monotonic() > deadline:
            raise translate(errors[0], admin.connection, doing)
        time.sleep(_UNSTABLE_PAUSE_S)


def commit(admin: Admin, group: str, offsets: dict[TopicAndPartition, int]) -> None:
    """Set positions of a group that has no members; raise `Conflict` if it has."""
    admin.when_ready(lambda: _commit(admin, group, offsets))


def _commit(admin: Admin, group: str, offsets: dict[TopicAndPartition, int]) -> None:
    require_whole(group)
    doing = f"moving group '{group}'"
    topic_partitions = [TopicPartition(*tp, offset) for tp, offset in offsets.items()]
    futures = admin.client.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, topic_partitions)], request_timeout=admin.timeout_s
    )
    (answer,) = admin.results(futures, doing)
    for tp in answer.topic_partitions or []:
        if tp.error is not None:
            if tp.error.name() in {"UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP", "REBALANCE_IN_PROGRESS"}:
                raise _has_members(group)
            raise translate(tp.error, admin.connection, doing)


def describe(admin: Admin, group: str) -> GroupDetail:
    """Return members and lag; raise `NotFound` for a group that has neither members nor positions."""
    found = _described(admin, group)
    positions = committed(admin, group)
    owners = {
        (tp.topic, tp.partition): member.client_id
        for member in found.members or []
        for tp in (member.assignment.topic_partitions if member.assignment else [])
    }
    if not owners and not positions and found.state.name in {"DEAD", "UNKNOWN"}:
        raise unknown(admin, group)
    limits = bounds(admin, sorted({*positions, *owners}))
    lags = [
        PartitionLag(
            topic=tp[0],
            partition=tp[1],
            committed=positions.get(tp),
            start=start,
            end=end,
            lag=max(0, end - max(positions.get(tp, start), start)),
            member=owners.get(tp),
        )
        for tp, (start, end) in limits.items()
    ]
    members = [
        Member(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.host,
            partitions=sorted(f"{p.topic}/{p.partition}" for p in member.assignment.topic_partitions)
            if member.assignment
            else [],
        )
        for member in found.members or []
    ]
    return GroupDetail(
        group=group,
        state=found.state.name.lower(),
        coordinator=found.coordinator.id if found.coordinator else -1,
        members=members,
        partitions=lags,
        lag=sum(each.lag for each in lags),
    )


def lags(admin: Admin, names: list[str]) -> dict[str, int]:
    """Return the lag of each group in all its partitions together; all groups are asked at the same time.

    Positions in topics that are gone do not count.
    """
    asked = [
        admin.client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)], request_timeout=admin.timeout_s)
        for name in names
    ]
    positions = {
        name: list(admin.results(futures, f"reading the positions of group '{name}'")[0].topic_partitions or [])
        for name, futures in zip(names, asked, strict=True)
    }
    there = {
        (name, part)
        for name, topic in admin.metadata("listing topics").topics.items()
        for part, found in topic.partitions.items()
        if found.leader >= 0
    }
    limits = bounds(admin, sorted({(tp.topic, tp.partition) for found in positions.values() for tp in found} & there))
    return {
        name: sum(
            max(0, limits[tp.topic, tp.partition][1] - max(tp.offset, limits[tp.topic, tp.partition][0]))
            for tp in found
            if tp.offset >= 0 and (tp.topic, tp.partition) in limits
        )
        for name, found in positions.items()
    }


def lags_in(admin: Admin, topic: str, names: list[str]) -> dict[str, int]:
    """Return the lag in one topic of each of these groups that has a position there; all are asked at the same time."""
    limits = bounds(admin, [(topic, number) for number in topics.identify(admin, [topic])[topic][1]])
    partitions = [TopicPartition(*tp) for tp in limits]
    asked = {
        name: admin.client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, partitions)], request_timeout=admin.timeout_s
        )
        for name in names
    }
    found = {}
    for name, futures in asked.items():
        (answer,) = admin.results(futures, f"reading the positions of group '{name}'")
        there = [tp for tp in answer.topic_partitions or [] if tp.offset >= 0]
        if there:
            ends = [(limits[tp.topic, tp.partition], tp.offset) for tp in there]
            found[name] = sum(max(0, end - max(offset, start)) for (start, end), offset in ends)
    return found


def partitions_to_reset(
    admin: Admin, group: str, topics_named: list[str], partition: int | None = None
) -> list[TopicAndPartition]:
    """Return the partitions of these topics, or of all that a group has positions in; only the one that is meant."""
    chosen = topics_named or sorted({topic for topic, _ in committed(admin, group)})
    if not chosen:
        if not is_known(admin, group):
            raise unknown(admin, group)
        raise NotFound(f"group '{group}' has no positions", fix="Name the topic with --topic")
    found = [(topic, number) for topic in chosen for number in range(topics.partition_count(admin, topic))]
    found = [each for each in found if partition in (None, each[1])]
    if not found:
        there = max(topics.partition_count(admin, topic) for topic in chosen)
        raise NotFound(f"there is no partition {partition} in {', '.join(chosen)}; there are 0 to {there - 1}")
    return found


def plan_reset(
    admin: Admin,
    group: str,
    topic_partitions: list[TopicAndPartition],
    *,
    to: Position | None = None,
    by: int | None = None,
    like: str | None = None,
) -> list[ResetStep]:
    """Work out a reset without doing it: to a position, by a number of records, or to another group's positions."""
    current = committed(admin, group, topic_partitions)
    limits = bounds(admin, topic_partitions)
    if to is not None:
        targets = resolve(admin, to, topic_partitions)
    elif by is not None:
        targets = {
            tp: min(
                max(current.get(tp, limits[tp][0]) + by, limits[tp][0]),
                limits[tp][1],
            )
            for tp in topic_partitions
        }
    else:
        targets = committed(admin, like or "", topic_partitions)
        if not targets:
            raise NotFound(f"group '{like}' has no positions in these topics")
    return [_step(tp, current.get(tp), target) for tp, target in targets.items()]


def _step(tp: TopicAndPartition, current: int | None, target: int) -> ResetStep:
    moved = target - current if current is not None else 0
    effect: Literal["reads again", "skips", "stays"] = "skips" if moved > 0 else "reads again" if moved < 0 else "stays"
    return ResetStep(
        topic=tp[0],
        partition=tp[1],
        current=current,
        target=target,
        effect=effect,
        records=abs(moved),
    )


def reset(admin: Admin, group: str, steps: list[ResetStep]) -> None:
    """Carry out a planned reset. Kafka refuses it while the group has members."""
    require_no_members(admin, group)
    commit(admin, group, {(step.topic, step.partition): step.target for step in steps})


def require_no_members(admin: Admin, group: str) -> None:
    """Raise `Conflict` for a group that has members."""
    if member_count(admin, group):
        raise _has_members(group)


def is_known(admin: Admin, group: str) -> bool:
    """Return whether a group has members or positions."""
    return bool(committed(admin, group)) or member_count(admin, group) > 0


def unknown(admin: Admin, group: str) -> NotFound:
    """Return the error for a group that does not exist, with the one that was probably meant."""
    close = None
    with suppress(Refused):  # whoever may not list groups is told no names
        close = nearest(group, (each.group for each in list_groups(admin)))
    meant = f"Did you mean '{close}'? " if close else ""
    return NotFound(f"there is no group '{group}'", fix=f"{meant}List them with: penstock group list")


def member_count(admin: Admin, group: str) -> int:
    """Count the members of a group."""
    return len(_described(admin, group).members or [])


def _described(admin: Admin, group: str) -> ConsumerGroupDescription:
    require_whole(group)

    def ask() -> ConsumerGroupDescription:
        futures = admin.client.describe_consumer_groups([group], request_timeout=admin.timeout_s)
        found: ConsumerGroupDescription = admin.result(futures[group], f"describing group '{group}'")
        return found

    return admin.when_ready(ask)


def delete(admin: Admin, group: str) -> None:
    """Delete a group and its positions."""
    require_whole(group)

    def ask() -> None:
        futures = admin.client.delete_consumer_groups([group], request_timeout=admin.timeout_s)
        admin.results(futures, f"deleting group '{group}'")

    admin.when_ready(ask)


def _has_members(group: str) -> Conflict:
    return Conflict(
        f"group '{group}' has members, and Kafka moves only groups without",
        safe="Nothing was changed",
        fix=f"Stop its consumers first; see them with: penstock group describe {group}",
    )
