"""Kafka topics, read by librdkafka inside of Spark's tasks.

Guarantee: every committed record of an offset range, once, in the order of its partition; records of aborted
transactions never. New partitions, and new topics that match a pattern, are read from their start. The login is
read by each task where it runs, so no plan, no UI and no event log of Spark ever holds it.
"""

import re
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, Self

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from pydantic import Field, field_validator, model_validator

from penstock.config.problem import PipelineView, Problem
from penstock.errors import BadInput, BrokerUnavailable, NotFound, Refused, RetentionPassed
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.failures import Causes, logger, opening, translate
from penstock.kafka.headers import read_headers
from penstock.kafka.positions import Position, committed_bounds, resolve
from penstock.kafka.reader import reading
from penstock.kafka.topic_limits import NO_TIMESTAMP
from penstock.kafka.topic_spec import NO_TOPIC_NAME, TOPIC_NAME
from penstock.record.available_range import AvailableRange
from penstock.record.columns import ERROR
from penstock.record.decoded import record_error
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.records import records
from penstock.record.target import Target
from penstock.sources.source import Skipped, Source, SourceContext, SourceModel

_CHUNK_EVENTS = 10_000
_PATIENCE_S = 0.1
_SILENCE_S = 60.0
_CUT_OFF = re.compile(r"broker end offset is (-?\d+)")


class Kafka(SourceModel, frozen=True):
    """Topics of the project's Kafka."""

    type: Literal["kafka"] = Field("kafka", description="Kafka topics.")
    topics: list[str] = Field(default_factory=list, description="Names of topics.")
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
            raise ValueError(f"'{value}' is no regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _topics_or_pattern(self) -> Self:
        if bool(self.topics) == bool(self.pattern):
            raise ValueError("name either topics or a pattern")
        if len(set(self.topics)) < len(self.topics):
            raise ValueError("a topic stands twice")
        return self

    @property
    def in_kafka(self) -> bool:
        """Its partitions are Kafka's."""
        return True

    @property
    def named_topics(self) -> list[str]:
        """The topics, unless a pattern chooses them."""
        return self.topics

    def reads(self, target: Target) -> bool:
        """Return whether this is one of its topics."""
        return target.kind == "topic" and self._reads_topic(target.name)

    def _reads_topic(self, topic: str) -> bool:
        """Return whether it reads a topic. A pattern leaves out dead letters."""
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None and not topic.endswith(".dead")

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:  # noqa: ARG002 - the same in every pipeline
        """Find topics and offsets that cannot be."""
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
        """Ask for the topics' ids alone; asked again before every commit."""
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
        """Return whether there is a topic of this name at all, whatever the pattern says."""
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
        """Raise if no topic matches the pattern; a pipeline that has begun can wait for one, as after a deletion."""
        if not available:
            raise NotFound(f"no topic matches '{self.spec.pattern}'", fix="List them with: penstock topic list")

    def starts(self, available: list[AvailableRange]) -> Positions:
        """Settle where a new pipeline begins; with a pattern that nothing matches it cannot."""
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

    def replaced(self, read: Mapping[SourcePartition, tuple[int, int]]) -> list[OffsetRange]:
        """Return what was read and is not in the log any more, though it reaches as far: other records are there.

        `read` has, for each partition, how far it was read, and the leader's epoch then. The present leader is asked
        where that epoch ended in its own log: if before what was read, the log was cut off there.
        """
        client, causes = _open(self.connection)
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
            deadline = time.monotonic() + _SILENCE_S
            while waiting:
                for message in client.consume(len(waiting), _PATIENCE_S):
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

    def reader(self) -> "KafkaReader":
        """Return what tasks read with."""
        return KafkaReader(self.connection, self._skipped)


def _cut_off_at(message: Message, source_partition: SourcePartition, connection: Connection) -> int | None:
    """Return where the log was cut off, -1 if nobody knows; None if it was not."""
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
        return None
    if error.code() != KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
        raise translate(error, connection, f"comparing the epochs of {source_partition}")
    # Retention may have passed meanwhile, which is noticed elsewhere. The rest is in the text alone.
    found = _CUT_OFF.search(error.str())
    return int(found[1]) if found else None


class KafkaReader:
    """Reads offset ranges inside of a task. Travels to the task as it is: it holds no client and no secret."""

    def __init__(self, connection: Connection, skipped: Skipped | None = None) -> None:
        self._connection = connection
        self._skipped = skipped or {}

    def chunks(
        self, offset_range: OffsetRange, max_bytes: int | None = None, rejected: Collection[int] = ()
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Return records as columns, each chunk with the offset it reaches.

        Of a record at a rejected offset nothing but the offset is looked at. One that somebody has given up is not even
        asked for. Ends at the offset range's end, or earlier once `max_bytes` are read.
        """
        source_partition, reached, left = offset_range.source_partition, offset_range.start, max_bytes
        for part in offset_range.less(self._skipped.get((source_partition.topic_id, source_partition.partition), [])):
            for batch, reached in self._chunks(part, left, rejected):
                yield batch, reached
                left = None if max_bytes is None else max(1, (left or 0) - batch.nbytes)
            if reached < part.end:
                return
        if reached < offset_range.end:
            yield _columns([], source_partition, rejected), offset_range.end

    def _chunks(
        self, offset_range: OffsetRange, max_bytes: int | None, rejected: Collection[int]
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        client, causes = _client(self._connection)
        source_partition = offset_range.source_partition
        client.assign([TopicPartition(source_partition.topic, source_partition.partition, offset_range.start)])
        try:
            reached, read_bytes, heard_at = offset_range.start, 0, time.monotonic()
            while reached < offset_range.end and (max_bytes is None or read_bytes < max_bytes):
                # Asked for more than there is, the client waits for the rest until its time is over.
                heard = client.consume(min(_CHUNK_EVENTS, offset_range.end - reached), _PATIENCE_S)
                messages, reached_now = _sort(heard, offset_range, self._connection)
                if reached_now > reached:
                    reached, heard_at = reached_now, time.monotonic()
                elif time.monotonic() - heard_at > _SILENCE_S:
                    raise causes.timeout(f"reading {source_partition}")
                elif not heard and (refusal := causes.refusal()):
                    raise refusal
                if messages:
                    kept, read_bytes = _within(messages, read_bytes, max_bytes)
                    if len(kept) < len(messages):
                        yield _columns(kept, source_partition, rejected), int(kept[-1].offset() or 0) + 1
                        return
                    yield _columns(messages, source_partition, rejected), reached
                elif reached >= offset_range.end:
                    yield _columns([], source_partition, rejected), reached
        finally:
            client.unassign()


def _within(messages: list[Message], read_bytes: int, max_bytes: int | None) -> tuple[list[Message], int]:
    """Cut a chunk behind the message that fills the batch; at least one is kept, so that it gets on."""
    all_bytes = read_bytes + sum(map(len, messages))
    if max_bytes is None or all_bytes < max_bytes:
        return messages, all_bytes
    for number, message in enumerate(messages, 1):
        read_bytes += len(message)
        if read_bytes >= max_bytes:
            return messages[:number], read_bytes
    return messages, read_bytes


_clients: dict[str, tuple[Consumer, Causes]] = {}


def _client(connection: Connection) -> tuple[Consumer, Causes]:
    """Open a client once per worker process: connecting costs more than a small batch."""
    name = repr(connection)
    if name not in _clients:
        _clients[name] = _open(connection)
    return _clients[name]


def _open(connection: Connection) -> tuple[Consumer, Causes]:
    causes = Causes(connection)
    # A short wait at the broker: a batch is bounded, and its end must not wait for more.
    settings = {"fetch.wait.max.ms": 50, **reading(connection, causes)}
    with opening(connection):
        return Consumer(settings, logger=logger), causes


def _sort(heard: list[Message], offset_range: OffsetRange, connection: Connection) -> tuple[list[Message], int]:
    """Pick the offset range's own records, and say how far they reach. Markers and compaction leave holes."""
    if _are_records(heard, offset_range):
        return heard, int(heard[-1].offset() or 0) + 1
    messages: list[Message] = []
    reached = offset_range.start
    for message in heard:
        error = message.error()
        if (message.topic(), message.partition()) != (
            offset_range.source_partition.topic,
            offset_range.source_partition.partition,
        ):
            if error is not None and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise translate(error, connection, f"reading {offset_range.source_partition}")
            continue
        offset = int(message.offset() or 0)
        if error is None and offset_range.start <= offset < offset_range.end:
            messages.append(message)
            reached = offset + 1
        elif error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            reached = max(reached, min(offset, offset_range.end))
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise RetentionPassed(
                f"{offset_range.source_partition} no longer holds offset {offset_range.start}",
                safe="Nothing of this batch was written",
            )
        elif error.retriable() or error.code() in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}:  # noqa: SLF001
            raise BrokerUnavailable(f"reading {offset_range.source_partition}: {error.str()}")
        else:
            raise translate(error, connection, f"reading {offset_range.source_partition}")
    return messages, reached


def _are_records(heard: list[Message], offset_range: OffsetRange) -> bool:
    """Return whether there is nothing to sort out, as it nearly always is."""
    return (
        bool(heard)
        and not any(map(Message.error, heard))
        and {offset_range.source_partition.topic} == set(map(Message.topic, heard))
        and {offset_range.source_partition.partition} == set(map(Message.partition, heard))
        and offset_range.start <= (heard[0].offset() or 0)
        and (heard[-1].offset() or 0) < offset_range.end
    )


def _columns(messages: list[Message], source_partition: SourcePartition, rejected: Collection[int]) -> pa.RecordBatch:
    """Turn messages into columns, whatever is in them; `_error` says of which not everything could be read."""
    offsets = [int(message.offset() or 0) for message in messages]
    bare = {number for number, offset in enumerate(offsets) if offset in rejected} if rejected else set()
    read = [message for number, message in enumerate(messages) if number not in bare] if bare else messages
    headers, unreadable = read_headers(read)
    record_errors: list[Any] = [None] * len(read)
    for number in unreadable:
        record_errors[number] = record_error("HeadersUnreadable", "the name of a header is no UTF-8: no header is kept")
    columns: list[list[Any]] = [
        [at_ms for _, at_ms in map(Message.timestamp, read)],
        list(map(Message.key, read)),
        list(map(Message.value, read)),
        headers,
        record_errors,
    ]
    for number in sorted(bare):
        for column, nothing in zip(columns, (NO_TIMESTAMP, None, None, None, None), strict=True):
            column.insert(number, nothing)
    times_ms, keys, values, headers, record_errors = columns
    batch = records(
        source_partition,
        offsets=pa.array(offsets, pa.int64()),
        timestamps_ms=pa.array(times_ms, pa.int64()),
        keys=pa.array(keys, pa.binary()),
        values=pa.array(values, pa.binary()),
        headers=headers,
    )
    return batch.append_column("_error", pa.array(record_errors, ERROR)) if any(record_errors) else batch
