"""Kafka topics, read by librdkafka inside Spark's tasks.

Guarantee: every committed record of an offset range, once, in the order of its partition; records of aborted
transactions never. New partitions, and new topics that match a pattern, are read from their start. The login is
read by each task where it runs, so it is never in Spark's plans, UI or event logs.
"""

import functools
import re
import time
from collections.abc import Iterator, Mapping
from typing import Literal, Self

from confluent_kafka import KafkaError, Message, TopicPartition
from pydantic import Field, field_validator, model_validator

from penstock.config.problem import PipelineView, Problem
from penstock.errors import BadInput, NotFound, Refused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.kafka.connection import Connection
from penstock.kafka.failures import translate
from penstock.kafka.positions import Position, bounds, committed_bounds, moves_on, resolve
from penstock.kafka.topic_spec import NO_TOPIC_NAME, TOPIC_NAME
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.target import Target
from penstock.sources.kafka_reader import PATIENCE_S, SILENCE_S, KafkaReader, open_client
from penstock.sources.source import Skipped, Source, SourceContext, SourceModel

_CUT_OFF = re.compile(r"broker end offset is (-?\d+)")


class Kafka(SourceModel, frozen=True):
    """Topics of the project's Kafka."""

    type: Literal["kafka"] = Field("kafka", description="Kafka topics.")
    topics: list[str] = Field(default_factory=list, description="Names of topics.", examples=[["orders"]])
    pattern: str | None = Field(None, description="Instead of names: a regular expression that whole names match.")
    start: str = Field(
        "earliest",
        description="Where a new pipeline begins: earliest, latest, a time (`2026-01-31T12:00`), `15m` ago,"
        " or an offset for all partitions. Afterwards positions decide.",
    )
    offsets: dict[str, dict[int, int]] = Field(
        default_factory=dict, description="Instead of `start`: `{topic: {partition: offset}}`; others from earliest."
    )

    @field_validator("start")
    @classmethod
    def _start_is_understood(cls, value: str) -> str:
        try:
            Position.parse(value)
        except BadInput as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("pattern")
    @classmethod
    def _pattern_is_understood(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"'{value}' is not a regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _topics_or_pattern(self) -> Self:
        if bool(self.topics) == bool(self.pattern):
            raise ValueError("name either topics or a pattern")
        if len(set(self.topics)) < len(self.topics):
            raise ValueError("a topic is listed twice")
        return self

    @property
    def in_kafka(self) -> bool:
        """Its partitions are Kafka's."""
        return True

    @property
    def named_topics(self) -> list[str]:
        """The topics, unless a pattern chooses them."""
        return self.topics

    def targets(self) -> list[Target]:
        """Return the topics that it names; only the cluster knows which ones a pattern matches."""
        return [Target("topic", topic) for topic in self.topics]

    def reads(self, target: Target) -> bool:
        """Return whether this is one of its topics."""
        return target.kind == "topic" and self._reads_topic(target.name)

    def _reads_topic(self, topic: str) -> bool:
        """Return whether it reads a topic. A pattern leaves out dead letters."""
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None and not topic.endswith(".dead")

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:  # noqa: ARG002 - the same in every pipeline
        """Find impossible topics and offsets."""
        for number, topic in enumerate(self.topics):
            if TOPIC_NAME.fullmatch(topic) is None:
                yield Problem.error(NO_TOPIC_NAME, "topics", number)
        if self.offsets and self.start != "earliest":
            yield Problem.error("`offsets` and `start` contradict each other: leave one out", "offsets")
        for topic, offsets in self.offsets.items():
            if not self._reads_topic(topic):
                yield Problem.error("the source does not read this topic", "offsets", topic)
            if min([0, *offsets.keys(), *offsets.values()]) < 0:
                yield Problem.error("partitions and offsets begin at 0", "offsets", topic)

    def open(self, context: SourceContext) -> "KafkaSource":
        """Return the driver's view."""
        return KafkaSource(self, context.connection, context.skipped)


class KafkaSource(Source):
    """The driver's view of the source."""

    def __init__(self, spec: Kafka, connection: Connection, skipped: Skipped | None = None) -> None:
        self.spec = spec
        self.connection = connection
        self._skipped = skipped or {}
        self._admin = Admin(connection)

    @property
    def drops_deleted_topics(self) -> bool:
        """A pattern's topics come and go."""
        return self.spec.pattern is not None

    def available(self) -> list[AvailableRange]:
        """Look up topic ids, partitions, and what can be read now without waiting for an open transaction."""
        known = self._identified()
        source_partitions = [
            SourcePartition(name, topic_id, number) for name, (topic_id, numbers) in known.items() for number in numbers
        ]
        limits = committed_bounds(
            self._admin,
            [(source_partition.topic, source_partition.partition) for source_partition in source_partitions],
        )
        return [
            AvailableRange(source_partition, *limits[source_partition.topic, source_partition.partition])
            for source_partition in source_partitions
        ]

    def topic_ids(self) -> dict[str, str]:
        """Look up only the topics' ids; called again before every commit."""
        return {name: topic_id for name, (topic_id, _) in self._identified().items()}

    def _identified(self) -> dict[str, tuple[str, list[int]]]:
        names = self.spec.topics or self._matching()
        known = topics.identify(self._admin, names) if names else {}
        for name, (topic_id, _) in known.items():
            if topic_id in topics.NO_IDS:
                raise Refused(
                    f"Kafka at {self.connection.bootstrap_servers} gives topic '{name}' no id, without which a topic"
                    " that is deleted and recreated cannot be told from the old one",
                    safe="Nothing was read",
                    fix="Pipelines need Kafka 2.8 or newer",
                )
        return known

    def has(self, topic: str) -> bool:
        """Return whether there is a topic of this name, even if the pattern does not match."""
        try:
            topics.identify(self._admin, [topic])
        except NotFound:
            return False
        return True

    def _matching(self) -> list[str]:
        wanted = re.compile(self.spec.pattern or "")
        found = [each.topic for each in topics.list_topics(self._admin)]
        return [name for name in found if wanted.fullmatch(name) and not name.endswith(".dead")]

    def require_some(self, available: list[AvailableRange]) -> None:
        """Raise if no topic matches the pattern; a pipeline that has begun can wait for one."""
        if not available:
            raise NotFound(f"no topic matches '{self.spec.pattern}'", fix="List them with: penstock topic list")

    def start_moves_on(self) -> bool:
        """Return whether `start` depends on the time."""
        return moves_on(self.spec.start)

    def starts(self, available: list[AvailableRange]) -> Positions:
        """Return where a new pipeline begins; raise if nothing matches its pattern."""
        self.require_some(available)
        if self.spec.offsets:
            return {each.source_partition: self._given(each) for each in available}
        position = Position.parse(self.spec.start)
        if position.kind == "earliest":
            return {each.source_partition: each.first for each in available}
        if position.kind == "latest":
            return {each.source_partition: each.end for each in available}
        found = resolve(
            self._admin,
            position,
            [(each.source_partition.topic, each.source_partition.partition) for each in available],
        )
        return {
            each.source_partition: found[each.source_partition.topic, each.source_partition.partition]
            for each in available
        }

    def _given(self, available_range: AvailableRange) -> int:
        source_partition = available_range.source_partition
        offset = self.spec.offsets.get(source_partition.topic, {}).get(
            source_partition.partition, available_range.first
        )
        if not available_range.first <= offset <= available_range.end:
            raise BadInput(
                f"offset {offset} is not in {source_partition}, which holds {available_range.first} to"
                f" {available_range.end}"
            )
        return offset

    def log_end(self, source_partition: SourcePartition) -> int:
        """Return where a partition ends, with records of open transactions."""
        partition = source_partition.topic, source_partition.partition
        return bounds(self._admin, [partition])[partition][1]

    def replaced(self, read: Mapping[SourcePartition, tuple[int, int]]) -> list[OffsetRange]:
        """Return what was read and is no longer in the log, although the log is as long: it has other records there.

        `read` has, for each partition, how far it was read, and the leader's epoch then. The present leader is asked
        where that epoch ended in its own log: if before what was read, the log was cut off there.
        """
        client, causes = open_client(self.connection)
        try:
            client.assign(
                [
                    TopicPartition(source_partition.topic, source_partition.partition, offset, leader_epoch=epoch)
                    for source_partition, (offset, epoch) in read.items()
                ]
            )
            waiting, found = (
                {(source_partition.topic, source_partition.partition): source_partition for source_partition in read},
                [],
            )
            deadline = time.monotonic() + SILENCE_S
            while waiting:
                for message in client.consume(len(waiting), PATIENCE_S):
                    # A record or the end: the client has asked for the epoch before it fetches.
                    source_partition = waiting.pop((str(message.topic()), int(message.partition() or 0)), None)
                    if source_partition is None:
                        continue
                    client.pause([TopicPartition(source_partition.topic, source_partition.partition)])
                    start = _cut_off_at(message, source_partition, self.connection)
                    if start is not None:
                        end = read[source_partition][0]
                        found.append(OffsetRange(source_partition, start if 0 <= start < end else end, end))
                if waiting and time.monotonic() > deadline:
                    raise causes.timeout(f"comparing the epochs of {next(iter(waiting.values()))}")
        finally:
            client.close()
        return found

    def reader(self) -> KafkaReader:
        """Return the reader, which is sent to tasks."""
        return KafkaReader(self.connection, self._cluster_id, self._skipped)

    @functools.cached_property
    def _cluster_id(self) -> str:
        return cluster_id(self._admin)


def _cut_off_at(message: Message, source_partition: SourcePartition, connection: Connection) -> int | None:
    """Return where the log was cut off, -1 if that is not known; None if it was not."""
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
        return None
    if error.code() != KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
        raise translate(error, connection, f"comparing the epochs of {source_partition}")
    # Retention may have passed meanwhile, which is noticed elsewhere. The rest is in the text alone.
    found = _CUT_OFF.search(error.str())
    return int(found[1]) if found else None
