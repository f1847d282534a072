"""Topics: creating, describing, changing, emptying, deleting."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicDescription,
)
from pydantic import BaseModel, Field

from penstock.errors import BadInput, Conflict, LeaderNotAvailable, NotFound, Refused
from penstock.kafka.admin import Admin, require_whole
from penstock.kafka.failures import who
from penstock.kafka.positions import bounds
from penstock.kafka.security import Plaintext
from penstock.kafka.topic_spec import TopicSpec
from penstock.wording import nearest, plural

_DESCRIBING = "describing"
_NAME_LENGTH = 249
_NAME = re.compile(rf"(?!\.{{1,2}}$)[a-zA-Z0-9._-]{{1,{_NAME_LENGTH}}}")
"""Names that Kafka accepts for a topic."""
_SPREADING_S = 1.0
_LOOK_EVERY_S = 0.05
NO_IDS = frozenset({"", "None", "AAAAAAAAAAAAAAAAAAAAAA"})
"""Stands for the id of a topic where the broker does not support ids."""
Found = TypeVar("Found")


class TopicSummary(BaseModel, frozen=True):
    """One line of the topic list."""

    topic: str = Field(description="The topic's name.")
    partitions: int = Field(description="How many partitions it has.")
    replication: int = Field(description="Copies of each partition.")
    under_replicated: int = Field(description="Partitions that lack a replica right now.")


class PartitionDetail(BaseModel, frozen=True):
    """One partition: where it lives and what it holds."""

    partition: int = Field(description="Number.")
    leader: int | None = Field(description="Node that serves it; none while it is offline.")
    replicas: list[int] = Field(description="Nodes that should have a replica.")
    isr: list[int] = Field(description="Nodes whose replica is up to date.")
    start: int | None = Field(description="First offset that is still there.")
    end: int | None = Field(description="Offset that the next record will get.")


class TopicDetail(BaseModel, frozen=True):
    """Everything about a topic."""

    topic: str = Field(description="The topic's name.")
    topic_id: str = Field(description="Changes when a topic is deleted and recreated under the same name.")
    internal: bool = Field(description="Whether Kafka keeps it for itself.")
    partitions: list[PartitionDetail] = Field(description="Its partitions.")
    config: dict[str, str] = Field(description="Settings that differ from the cluster's defaults.")


def list_topics(admin: Admin, *, internal: bool = False) -> list[TopicSummary]:
    """List topics; those whose names begin with two underscores only if asked for."""
    found = admin.metadata("listing topics").topics
    return [
        TopicSummary(
            topic=name,
            partitions=len(topic.partitions),
            replication=max((len(part.replicas) for part in topic.partitions.values()), default=0),
            under_replicated=sum(len(part.isrs) < len(part.replicas) for part in topic.partitions.values()),
        )
        for name, topic in sorted(found.items())
        if internal or not name.startswith("__")
    ]


def describe(admin: Admin, name: str) -> TopicDetail:
    """Return a topic's id, partitions, offsets and settings."""
    (found,) = _looked_up(admin, [name], _DESCRIBING).values()
    led = [(name, part.id) for part in found.partitions if part.leader is not None]
    limits = bounds(admin, led)
    partitions = [
        PartitionDetail(
            partition=part.id,
            leader=part.leader.id if part.leader is not None else None,
            replicas=[node.id for node in part.replicas],
            isr=[node.id for node in part.isr],
            start=limits.get((name, part.id), (None, None))[0],
            end=limits.get((name, part.id), (None, None))[1],
        )
        for part in found.partitions
    ]
    return TopicDetail(
        topic=name,
        topic_id=_readable(found.topic_id),
        internal=bool(found.is_internal),
        partitions=partitions,
        config={key: entry for key, (entry, own) in config(admin, name).items() if own},
    )


def _readable(topic_id: object) -> str:
    """Write a topic id as Kafka's own tools do, with letters that file names can have."""
    return str(topic_id).replace("+", "-").replace("/", "_")


def identify(admin: Admin, names: list[str], doing: str = "looking up") -> dict[str, tuple[str, list[int]]]:
    """Return each topic's id and partition numbers."""
    found = _looked_up(admin, names, doing)
    return {
        name: (_readable(topic.topic_id), sorted(part.id for part in topic.partitions)) for name, topic in found.items()
    }


def config(admin: Admin, name: str) -> dict[str, tuple[str, bool]]:
    """Return every setting of a topic, and whether it is the topic's own rather than a default."""
    require_whole(name)
    resource = ConfigResource(ResourceType.TOPIC, name)

    def look() -> list[Any]:
        futures = admin.client.describe_configs([resource], request_timeout=admin.timeout_s)
        return admin.results(futures, f"reading the settings of topic '{name}'")

    (found,) = _patiently(admin, look)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {key: (str(entry.value), entry.source == own) for key, entry in sorted(found.items())}


def create(admin: Admin, name: str, spec: TopicSpec) -> None:
    """Make a topic; raise `Conflict` if it is there already, whatever its settings."""
    wanted = NewTopic(
        name,
        num_partitions=spec.partitions or 1,
        replication_factor=spec.replication or -1,
        config=spec.kafka_config(),
    )
    futures = admin.client.create_topics([wanted], request_timeout=admin.timeout_s, operation_timeout=admin.timeout_s)
    try:
        admin.results(futures, f"creating topic '{name}'")
    except BadInput as error:
        safe = f"topic '{name}' was not created"
        raise _unusable(admin, name, spec) or _unknown_setting(admin, spec.kafka_config(), safe) or error from None
    except Conflict:
        raise Conflict(
            f"there is a topic '{name}' already",
            safe="It was not changed",
            fix=f"See: penstock topic describe {name}",
        ) from None
    admin.settle(lambda: bool(_led_partitions(admin, name)), f"creating topic '{name}'")


def _unusable(admin: Admin, name: str, spec: TopicSpec) -> BadInput | None:
    """Return what Kafka refuses about a new topic, and the remedy; None if it is neither name nor replicas."""
    if _NAME.fullmatch(name) is None:
        plain = re.sub("[^a-zA-Z0-9._-]+", "-", name).strip("-.")[:_NAME_LENGTH]
        return BadInput(
            f"no topic can be called '{name}': a name has letters, digits, dots, underscores and dashes, at most"
            f" {_NAME_LENGTH}",
            safe="Nothing was created",
            fix=f"Write it as: penstock topic create {plain}" if plain else "",
        )
    nodes = len(admin.metadata("counting nodes").brokers)
    if spec.replication is not None and spec.replication > nodes:
        return BadInput(
            f"topic '{name}' cannot have {spec.replication} replicas: the cluster has {plural(nodes, 'node')}",
            safe="It was not created",
            fix=f"Leave the replicas out, or ask for {nodes} at most",
        )
    return None


def ensure(admin: Admin, name: str, spec: TopicSpec, *, preferred: Mapping[str, str | int | bool] | None = None) -> int:
    """Make a topic that Penstock keeps its own records in, unless it is there; return how many partitions it has.

    A topic that is there must have the settings of `spec`. Settings that come from the cluster's defaults are
    corrected, as in a topic that Kafka created automatically; one that was set on this very topic is refused. A client
    that may not read settings trusts whoever created the topic. A topic that is made here also gets the `preferred`
    settings, by Kafka's names, unless a policy of the cluster forbids one or the broker does not know it.
    """
    try:
        count = partition_count(admin, name)
    except NotFound:
        with suppress(Conflict):  # another may make it in between
            try:
                create(admin, name, spec.model_copy(update={"config": {**spec.config, **(preferred or {})}}))
            except BadInput:
                create(admin, name, spec)
        count = partition_count(admin, name)
    with suppress(Refused):
        _put_right(admin, name, spec.kafka_config(), config(admin, name))
    return count


def _put_right(admin: Admin, name: str, wanted: dict[str, str], found: dict[str, tuple[str, bool]]) -> None:
    wrong = {key: found[key] for key, value in wanted.items() if key in found and found[key][0] != value}
    if not wrong:
        return
    differences = ", ".join(f"{key} {value} instead of {wanted[key]}" for key, (value, _) in wrong.items())
    chosen = [key for key, (_, is_own) in wrong.items() if is_own]
    safe = "Nothing was written; records that Penstock needs could be deleted there"
    if chosen:
        unset = " ".join(f"--unset {key}" for key in chosen)
        raise Conflict(
            f"topic '{name}' has {differences}",
            safe=safe,
            fix=f"Let Penstock set it: penstock topic alter {name} {unset}",
        )
    try:
        alter_config(admin, name, {key: wanted[key] for key in wrong})
    except Refused:
        raise Conflict(
            f"topic '{name}' has {differences}, and {who(admin.connection)} may not change that",
            safe=safe,
            fix="Give it the right alter_configs on the topic, or change it as an administrator",
        ) from None


def alter_config(admin: Admin, name: str, changes: dict[str, str | None]) -> None:
    """Change settings by Kafka's names; None gives a setting back to the cluster's default."""
    require_whole(*changes)
    partition_count(admin, name)
    unset = [key for key, value in changes.items() if value is None]
    if unset and (unknown := _unknown_setting(admin, unset, "Nothing was changed", name)):
        raise unknown  # Kafka takes a name that it does not know from a topic without a word
    entries = [
        ConfigEntry(
            key,
            value if value is not None else "",
            incremental_operation=AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE,
        )
        for key, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    futures = admin.client.incremental_alter_configs([resource], request_timeout=admin.timeout_s)
    try:
        admin.results(futures, f"changing the settings of topic '{name}'")
    except BadInput as error:
        raise _unknown_setting(admin, changes, "Nothing was changed", name) or error from None


def _unknown_setting(admin: Admin, names: Iterable[str], safe: str, topic: str | None = None) -> BadInput | None:
    """Return which setting Kafka does not know, and which one may be meant; None if it knows them all.

    The settings are the same for all topics: for one that does not exist yet, another one shows them.
    """
    known: Iterable[str] = names
    with suppress(Refused):  # whoever may not look at settings is told what Kafka says
        if there := topic or next(iter(admin.metadata("listing topics").topics), None):
            known = config(admin, there)
    wrong = next((name for name in names if name not in known), None)
    if wrong is None:
        return None
    close = nearest(wrong, known)
    fix = f"Did you mean '{close}'?" if close else "Kafka's names are in its documentation, under topic configs"
    return BadInput(f"Kafka knows no topic setting '{wrong}'", safe=safe, fix=fix)


def add_partitions(admin: Admin, name: str, total: int) -> None:
    """Grow a topic to `total` partitions. Keys then map to other partitions: order per key holds only from here on."""
    have = partition_count(admin, name)
    if total < have:
        raise BadInput(f"topic '{name}' has {have} partitions, and Kafka cannot take partitions away")
    if total == have:
        raise Conflict(f"topic '{name}' has {have} partitions already")
    futures = admin.client.create_partitions([NewPartitions(name, total)], request_timeout=admin.timeout_s)
    admin.results(futures, f"adding partitions to topic '{name}'")
    admin.settle(lambda: _led_partitions(admin, name) == total, f"adding partitions to topic '{name}'")


def delete(admin: Admin, name: str) -> None:
    """Delete a topic and every record in it."""
    require_whole(name)
    futures = admin.client.delete_topics([name], request_timeout=admin.timeout_s, operation_timeout=admin.timeout_s)
    admin.results(futures, f"deleting topic '{name}'")
    admin.settle(lambda: _led_partitions(admin, name) is None, f"deleting topic '{name}'")


def plan_purge(
    admin: Admin, name: str, partition: int | None = None, before: int | None = None
) -> tuple[dict[int, int], int]:
    """Return up to which offset a purge would delete each partition, and how many records that is at most."""
    if before is not None and partition is None:
        raise BadInput("an offset to purge before needs its partition: offsets count within one")
    parts = {part.partition: part for part in describe(admin, name).partitions}
    if partition is not None and partition not in parts:
        raise NotFound(f"topic '{name}' has no partition {partition}")
    chosen = [partition] if partition is not None else sorted(parts)
    targets = {number: before if before is not None else parts[number].end or 0 for number in chosen}
    return targets, sum(max(0, target - (parts[number].start or 0)) for number, target in targets.items())


def purge(admin: Admin, name: str, before: dict[int, int] | None = None) -> dict[int, int]:
    """Delete records before an offset per partition, or all that are there now; return the new first offsets."""
    policy = config(admin, name).get("cleanup.policy", ("", False))[0]
    if "delete" not in policy:
        raise Conflict(
            f"topic '{name}' is compacted only, and Kafka purges just topics that may delete",
            safe="Nothing was deleted",
            fix=f"Allow it first: penstock topic alter {name} --cleanup both",
        )
    parts = range(partition_count(admin, name))
    targets = before or {
        partition[1]: end for partition, (_, end) in bounds(admin, [(name, number) for number in parts]).items()
    }
    partitions = [TopicPartition(name, number, offset) for number, offset in targets.items()]
    futures = admin.client.delete_records(
        partitions, request_timeout=admin.timeout_s, operation_timeout=admin.timeout_s
    )
    return {
        each.partition: admin.result(future, f"purging topic '{name}'").low_watermark
        for each, future in futures.items()
    }


def _led_partitions(admin: Admin, name: str) -> int | None:
    """Count partitions; zero while one of them has no leader, None while there is no such topic."""
    try:
        (found,) = _look_up(admin, [name], "looking up").values()
    except NotFound:
        return None
    except LeaderNotAvailable:
        return 0
    return len(found.partitions) if all(part.leader is not None for part in found.partitions) else 0


def _look_up(admin: Admin, names: list[str], doing: str) -> dict[str, TopicDescription]:
    """Describe topics. Nothing else looks one up by name: a plain request for its metadata may make it."""
    require_whole(*names)
    futures = admin.client.describe_topics(TopicCollection(names), request_timeout=admin.timeout_s)
    return {name: admin.result(future, f"{doing} topic '{name}'") for name, future in futures.items()}


def _looked_up(admin: Admin, names: list[str], doing: str) -> dict[str, TopicDescription]:
    try:
        return _patiently(admin, lambda: _look_up(admin, names, doing))
    except NotFound as error:
        raise _missing(admin, names, error, doing) from None


def _missing(admin: Admin, names: list[str], error: NotFound, doing: str) -> NotFound:
    """Return which topic is not there, which one may be meant, and how to find or make it."""
    known = sorted(admin.metadata("listing topics").topics)
    name = next((name for name in names if name not in known), None)
    if name is None:
        return error
    close = nearest(name, known)
    meant = f"Did you mean '{close}'? " if close else ""
    hidden = "" if isinstance(admin.connection.security, Plaintext) else f", or {who(admin.connection)} may not see it"
    if name.endswith(".dead"):
        fix = "It is made with the first dead letter; list those that there are with: penstock dead list"
    elif doing == _DESCRIBING:  # whoever wants to look at a topic, or to delete it, wants none made
        fix = "List topics with: penstock topic list"
    else:
        fix = f"List topics with: penstock topic list; make this one with: penstock topic create {name}"
    return NotFound(f"there is no topic '{name}'{hidden}", fix=meant + fix)


def _patiently(admin: Admin, look: Callable[[], Found]) -> Found:
    """Retry for a moment before believing that a topic does not exist: a node may not know of a new one yet."""
    deadline = time.monotonic() + _SPREADING_S
    while True:
        try:
            return look()
        except NotFound:
            if time.monotonic() > deadline or len(admin.metadata("looking for other nodes").brokers) == 1:
                raise
            time.sleep(_LOOK_EVERY_S)


def partition_count(admin: Admin, name: str) -> int:
    """Return the number of partitions; raise `NotFound` for a topic that is not there."""
    (found,) = _looked_up(admin, [name], "looking up").values()
    return len(found.partitions)
