"""Topics: looking, making, changing, emptying, deleting."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from penstock.console.actions import ActionRoute
from penstock.console.asking import NEEDS, FromConsole, FromKafka, Viewer, require_typed
from penstock.console.kafka_side import KafkaSide
from penstock.console.rates import Point
from penstock.console.service import Console
from penstock.errors import BadInput, Refused
from penstock.kafka import groups, topics
from penstock.kafka.retention import Retention, retention_of
from penstock.kafka.topic_spec import NO_TOPIC_NAME, TOPIC_NAME, TopicSpec, is_own
from penstock.kafka.topics import PartitionDetail, TopicSummary
from penstock.operate.known_specs import known_specs
from penstock.record.target import Target

router = APIRouter(prefix="/topics", tags=["topics"], route_class=ActionRoute)
_MOST_GROUPS = 500
_MOST_WATCHED = 10
Topic = Annotated[str, Path(max_length=249, description="The topic's name.")]


class TopicRow(TopicSummary, frozen=True):
    """One line of the topic list."""

    records: int | None = Field(description="Offsets between the first and the end; none before the first look.")
    records_per_s: float | None = Field(description="Written a second recently; none before the second look.")
    bytes: int | None = Field(description="What its replicas take on disk; none if they are on other machines.")
    is_favourite: bool = Field(description="Whether it is a favourite of whoever asks.")


class Favourite(BaseModel, frozen=True):
    """Whether a topic is a favourite."""

    topic: str = Field(description="Topic.")
    is_favourite: bool = Field(description="Whether it is a favourite of whoever asks.")


class Setting(BaseModel, frozen=True):
    """One setting of a topic."""

    name: str = Field(description="Kafka's name.")
    value: str = Field(description="Value.")
    is_own: bool = Field(description="Whether it is the topic's own, and not the cluster's default.")


class TopicPage(BaseModel, frozen=True):
    """Everything about a topic."""

    topic: str = Field(description="The topic's name.")
    topic_id: str = Field(description="Changes when a topic is deleted and recreated under the same name.")
    internal: bool = Field(description="Whether Kafka keeps it for itself.")
    partitions: list[PartitionDetail] = Field(description="Its partitions.")
    settings: list[Setting] = Field(description="All of its settings, by name.")


class GroupLag(BaseModel, frozen=True):
    """A group that reads a topic."""

    group: str = Field(description="The group.")
    lag: int = Field(description="Records between it and the ends of this topic.")


class TopicLag(BaseModel, frozen=True):
    """How far groups were behind at a moment."""

    at: float = Field(description="When, in seconds since 1970.")
    lag: int = Field(description="Records between the groups and the ends, of all groups together.")


class TopicUse(BaseModel, frozen=True):
    """Who reads and writes a topic."""

    groups: list[GroupLag] = Field(description="Groups that have a position in it, by name.")
    groups_left_out: int = Field(description="Groups that were not asked, for there are too many.")
    read_by: list[str] = Field(description="Pipelines of this project that read it.")
    written_by: list[str] = Field(description="Pipelines of this project that write to it.")
    bytes: int | None = Field(description="What its replicas take on disk; none if they are on other machines.")


class NewTopic(TopicSpec, frozen=True, extra="forbid"):
    """A topic to create. Whatever is left out gets the cluster's default."""

    topic: str = Field(pattern=rf"^{TOPIC_NAME.pattern}$", description=f"Its name: {NO_TOPIC_NAME}.")


class TopicChange(BaseModel, frozen=True, extra="forbid"):
    """Settings to change; those that are left out stay."""

    cleanup: Literal["delete", "compact", "both"] | None = Field(None, description="delete, compact or both.")
    retention: str | None = Field(None, description="How long records are kept, such as 7d or forever.")
    retention_size: str | None = Field(None, description="Bytes that each partition keeps, such as 1GB or unlimited.")
    config: dict[str, str] = Field(default_factory=dict, description="Further settings, by Kafka's names.")
    unset: list[str] = Field(default_factory=list, description="Settings to give back to the cluster's default.")
    confirm: str = Field(description="The topic's name once more: a shorter retention deletes records.")


class Growth(BaseModel, frozen=True, extra="forbid"):
    """Partitions to add."""

    total: int = Field(ge=1, le=10_000, description="How many the topic should have.")


class Purge(BaseModel, frozen=True, extra="forbid"):
    """Records to delete."""

    partition: int | None = Field(None, ge=0, description="Only this partition.")
    before: int | None = Field(None, ge=0, description="Only records before this offset; needs a partition.")
    confirm: str | None = Field(None, description="The topic's name once more; only counted without it.")


class Deleted(BaseModel, frozen=True):
    """What was, or would be, deleted."""

    topic: str = Field(description="Topic.")
    records: int = Field(description="Records, at most: compaction and transactions leave holes.")
    is_done: bool = Field(description="Whether it was done; without a confirmation it is only counted.")


@router.get("", summary="List topics", dependencies=NEEDS["viewer"])
def list_topics(
    console: FromConsole,
    kafka: FromKafka,
    asker: Viewer,
    *,
    internal: Annotated[bool, Query(description="Kafka's own, too.")] = False,
) -> list[TopicRow]:
    """Return every topic with what it holds and how fast it grows, by name."""
    favourites = console.favourites.of(asker.name, kafka.name)
    sizes = _sizes(console, kafka)
    return [
        TopicRow(
            **vars(each),
            records=kafka.rates.records(each.topic),
            records_per_s=kafka.rates.per_s(each.topic),
            bytes=None if sizes is None else sizes.get(each.topic, 0),
            is_favourite=each.topic in favourites,
        )
        for each in topics.list_topics(kafka.admin(), internal=internal)
    ]


@router.put("/{topic}/favourite", summary="Make a topic a favourite", dependencies=NEEDS["viewer"])
def put_favourite(console: FromConsole, kafka: FromKafka, asker: Viewer, topic: Topic) -> Favourite:
    """Keep a topic among one's own favourites; nobody else sees it."""
    topics.partition_count(kafka.admin(), topic)
    console.favourites.put(asker.name, topic, kafka.name)
    return Favourite(topic=topic, is_favourite=True)


@router.delete("/{topic}/favourite", summary="Remove a topic from the favourites", dependencies=NEEDS["viewer"])
def remove_favourite(console: FromConsole, kafka: FromKafka, asker: Viewer, topic: Topic) -> Favourite:
    """Remove a topic from one's own favourites."""
    console.favourites.remove(asker.name, topic, kafka.name)
    return Favourite(topic=topic, is_favourite=False)


@router.get("/{topic}/rate", summary="How fast a topic grows", dependencies=NEEDS["viewer"])
def get_rate(kafka: FromKafka, topic: Topic) -> list[Point]:
    """Return the records written a second over the last quarter of an hour; nothing before the second look."""
    return [Point(at=at, records_per_s=rate) for at, rate in kafka.rates.history(topic)]


@router.get("/{topic}/lag", summary="How far groups were behind in a topic", dependencies=NEEDS["viewer"])
def get_lag(kafka: FromKafka, topic: Topic) -> list[TopicLag]:
    """Return the lag here of the groups that somebody looks at, over the last quarter of an hour."""
    return [TopicLag(at=at, lag=lag) for at, lag in kafka.group_history.lags_in(topic)]


@router.get("/{topic}/retention", summary="What retention deletes next", dependencies=NEEDS["viewer"])
def get_retention(kafka: FromKafka, topic: Topic) -> Retention:
    """Return how long records are kept, and how many go now and within a day."""
    return retention_of(kafka.admin(), topic)


@router.get("/{topic}/use", summary="Who reads and writes a topic", dependencies=NEEDS["viewer"])
def get_use(console: FromConsole, kafka: FromKafka, topic: Topic) -> TopicUse:
    """Return groups with their lag, pipelines of this project, and what the topic takes on disk."""
    admin, target = kafka.admin(), Target("topic", topic)
    names = [each.group for each in groups.list_groups(admin)]
    lags = groups.lags_in(admin, topic, names[:_MOST_GROUPS])
    for name in list(lags)[:_MOST_WATCHED]:
        kafka.group_history.of(name)  # from now on they are looked at, for the lag over time
    specs = list(known_specs(console.settings)) if kafka.is_own else []
    sizes = _sizes(console, kafka)
    return TopicUse(
        groups=[GroupLag(group=name, lag=lag) for name, lag in lags.items()],
        groups_left_out=max(0, len(names) - _MOST_GROUPS),
        read_by=[each.name for each in specs if each.source.reads(target)],
        written_by=[each.name for each in specs if any(sink.target() == target for sink in each.sinks)],
        bytes=None if sizes is None else sizes.get(topic, 0),
    )


@router.get("/{topic}", summary="One topic", dependencies=NEEDS["viewer"])
def get_topic(kafka: FromKafka, topic: Topic) -> TopicPage:
    """Return partitions with leaders, replicas in sync and offsets, and every setting."""
    admin = kafka.admin()
    detail = topics.describe(admin, topic)
    settings = [
        Setting(name=name, value=value, is_own=is_own) for name, (value, is_own) in topics.config(admin, topic).items()
    ]
    return TopicPage(**detail.model_dump(exclude={"config"}), settings=settings)


@router.post("", summary="Make a topic", status_code=HTTPStatus.CREATED, dependencies=NEEDS["operator"])
def create_topic(console: FromConsole, kafka: FromKafka, wanted: NewTopic) -> TopicPage:
    """Make a topic; 409 if it is there already, whatever its settings."""
    require_not_own(console, wanted.topic)
    spec = TopicSpec.model_validate(wanted.model_dump(exclude={"topic"}, exclude_unset=True))
    topics.create(kafka.admin(), wanted.topic, spec)
    return get_topic(kafka, wanted.topic)


@router.patch("/{topic}", summary="Change a topic's settings", dependencies=NEEDS["admin"])
def alter_topic(kafka: FromKafka, topic: Topic, change: TopicChange) -> TopicPage:
    """Change settings. A shorter retention deletes records, so the name is typed once more."""
    require_typed("topic", topic, change.confirm)
    spec = TopicSpec.model_validate(change.model_dump(exclude={"unset", "confirm"}, exclude_none=True))
    changes: dict[str, str | None] = {**spec.kafka_config(), **dict.fromkeys(change.unset)}
    if not changes:
        raise BadInput("there is nothing to change", safe="Nothing was changed")
    topics.alter_config(kafka.admin(), topic, changes)
    return get_topic(kafka, topic)


@router.post("/{topic}/partitions", summary="Add partitions", dependencies=NEEDS["admin"])
def add_partitions(kafka: FromKafka, topic: Topic, growth: Growth) -> TopicPage:
    """Grow a topic. Keys map to other partitions from then on, and no partition can be taken away again."""
    topics.add_partitions(kafka.admin(), topic, growth.total)
    return get_topic(kafka, topic)


@router.post("/{topic}/purge", summary="Delete records, keep the topic", dependencies=NEEDS["admin"])
def purge_topic(kafka: FromKafka, topic: Topic, purge: Purge) -> Deleted:
    """Count what would be deleted; with the topic's name as confirmation, delete it."""
    admin = kafka.admin()
    targets, records = topics.plan_purge(admin, topic, purge.partition, purge.before)
    if purge.confirm is not None:
        require_typed("topic", topic, purge.confirm)
        topics.purge(admin, topic, targets)
    return Deleted(topic=topic, records=records, is_done=purge.confirm is not None)


@router.delete("/{topic}", summary="Delete a topic with its records", dependencies=NEEDS["admin"])
def delete_topic(
    kafka: FromKafka,
    topic: Topic,
    confirm: Annotated[str | None, Query(description="The topic's name once more; only counted without it.")] = None,
) -> Deleted:
    """Count what would be deleted; with the topic's name as confirmation, delete it."""
    admin = kafka.admin()
    _, records = topics.plan_purge(admin, topic)
    if confirm is not None:
        require_typed("topic", topic, confirm)
        topics.delete(admin, topic)
    return Deleted(topic=topic, records=records, is_done=confirm is not None)


def _sizes(console: Console, kafka: KafkaSide) -> dict[str, int] | None:
    """Return the bytes of each topic; None for a cluster whose disks are elsewhere."""
    return console.sizes.of_all() if kafka.is_own and console.settings.external is None else None


def require_not_own(console: Console, topic: str) -> None:
    """Raise for topics that only Kafka, Connect and Penstock write to, such as the audit and dead letters."""
    if is_own(topic, console.settings.connect_group):
        raise Refused(f"topic '{topic}' is Kafka's or Penstock's own", safe="Nothing was changed")
