"""A Kafka topic.

Guarantee: exactly once for readers of committed records. Tasks write records aside; the driver sends a batch and moves
the position in one transaction. A reader of uncommitted records may see records of attempts that were given up.
Records of one source partition keep their order, key, headers and timestamp. A row that the topic would refuse, for its
size, its timestamp or a missing key, is a dead letter of stage `sink`.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
from pydantic import Field

from penstock.config.problem import PipelineView, Problem
from penstock.delivery.lag import group_of
from penstock.delivery.outbox import RECORDS, Outbox, OutboxFile
from penstock.errors import BadInput, PositionLost
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.topic_limits import TopicLimits, limits_of
from penstock.kafka.topic_spec import NO_TOPIC_NAME, TOPIC_NAME
from penstock.record.columns import COORDINATES
from penstock.record.decoded import RecordError, record_error
from penstock.record.formats import HEADER, KAFKA_RECORD
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.target import Target
from penstock.sinks.rows import fitting, plain_rows
from penstock.sinks.sink import RecordLayout, Sink, SinkContext, SinkModel

_RESERVED = (*COORDINATES, "_key", "_headers", "_timestamp_ms")


class Kafka(SinkModel, frozen=True):
    """A topic of the project's Kafka. Exactly once for readers of committed records."""

    target_key = "topic"

    type: Literal["kafka"] = Field("kafka", description="A Kafka topic.")
    topic: str = Field(description="The topic; it must be there.")
    key: str | None = Field(
        None,
        description="Column whose text becomes the key, and so chooses the partition; the record's key if left out.",
    )
    value: str | None = Field(
        None, description="Column whose bytes or text become the value; a JSON object of all columns if left out."
    )
    headers: bool = Field(
        default=True, description="Also send the record's own headers, before those that name where it came from."
    )
    timestamp: Literal["record", "now"] = Field(
        "record",
        description="The record's own timestamp, or that of sending; in real time it is always that of sending.",
    )
    partitioner: Literal["murmur2", "crc32"] = Field(
        "murmur2",
        description="How a key chooses its partition: as in Java's clients, or as librdkafka does by itself. In real"
        " time it is always the first.",
    )

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that records are made with."""
        return _RESERVED

    def target(self) -> Target:
        """Return the topic."""
        return Target("topic", self.topic)

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what Kafka would refuse: a position of what is no topic, a name that no topic has."""
        if not pipeline.reads_kafka and not pipeline.is_stateful:
            text = "of events that are not in Kafka, Kafka cannot keep a position: land them in a table first"
            yield Problem.error(text, "type")
        if TOPIC_NAME.fullmatch(self.topic) is None:
            yield Problem.error(NO_TOPIC_NAME, "topic")

    def open(self, context: SinkContext) -> "KafkaSink":
        """Make the driver's part."""
        return KafkaSink(self, context)

    def realtime(self) -> RecordLayout:
        """Return what of it Spark's own Kafka sink can do."""
        return RecordLayout(self.topic, self.key, self.value, self.headers)


class KafkaSink(Sink):
    """Sends what the tasks staged."""

    positions_expire = True

    def __init__(self, spec: Kafka, context: SinkContext) -> None:
        super().__init__(context.name)
        self._spec = spec
        self._scratch = context.scratch
        group = f"{group_of(context.pipeline)}.{context.name}{context.replay_suffix}"
        self._outbox = Outbox(context.connection, context.name, group, spec.partitioner)
        self._admin = Admin(context.connection)
        self._limits = TopicLimits()

    def reach(self) -> None:
        """See that the topic is there."""
        topics.partition_count(self._admin, self._spec.topic)

    def open(self, schema: pa.Schema) -> None:
        """Check the columns, and learn what the topic takes."""
        for column in (self._spec.key, self._spec.value):
            if column is not None and column not in schema.names:
                raise BadInput(f"sink '{self.name}' names the column '{column}', which there is not")
        self._limits = limits_of(self._admin, self._spec.topic)
        self._outbox.batch_max_bytes = self._limits.max_bytes

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read the positions from the group. Those of a topic that was deleted and recreated are lost, not expired."""
        self._outbox.target_id = self.target_id()
        found = self._outbox.positions(source_partitions)
        is_known = self.known_target_id in ("", self._outbox.target_id)
        self.positions_expire = is_known and not self._outbox.has_other_target
        return found

    def target_id(self) -> str:
        """Return the topic's id, which is another one once it was deleted and recreated."""
        return topics.identify(self._admin, [self._spec.topic])[self._spec.topic][0]

    def take_over(self) -> None:
        """Fence any older driver."""
        self._outbox.take_over()

    def hold(self, positions: Positions) -> None:
        """Let these positions go along with every transaction."""
        self._outbox.hold(positions)

    def refresh(self) -> None:
        """Keep Kafka from forgetting positions and transactional id."""
        self._outbox.refresh()

    def stager(self) -> "KafkaStagerFactory":
        """Return what tasks make records with."""
        return KafkaStagerFactory(self._spec, self._limits, self._scratch / self.name)

    def commit(self) -> None:
        """Send records and positions in one transaction."""
        if self.target_id() != self._outbox.target_id:
            raise PositionLost(
                f"the topic '{self._spec.topic}' of sink '{self.name}' was deleted and recreated",
                safe="Nothing of this batch was written to it",
                fix="Start again, which says how to fill it from the source's start",
            )
        files = [Path(each.detail["file"]) for each in self._staged if each.detail.get("file")]
        self._outbox.send(
            files, self._expected, {each.offset_range.source_partition: each.offset_range.end for each in self._staged}
        )
        for path in files:
            path.unlink()

    def close(self) -> None:
        """Let go of the clients."""
        self._outbox.close()


@dataclass(frozen=True)
class KafkaStagerFactory:
    """Opens a file of records per offset range."""

    spec: Kafka
    limits: TopicLimits
    folder: Path

    def __call__(self, _offset_range: OffsetRange) -> "KafkaStager":
        """Open the file at the first row."""
        return KafkaStager(self.spec, self.limits, self.folder / f"{uuid.uuid4().hex}.arrow")


_Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
"""Key, value, headers, timestamp in milliseconds."""


class KafkaStager:
    """Turns rows into records."""

    def __init__(self, spec: Kafka, limits: TopicLimits, path: Path) -> None:
        self._spec = spec
        self._limits = limits
        self._file = OutboxFile(path)

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Encode rows; refuse what cannot be encoded, and what the topic would refuse."""
        made, indexes, refused = fitting(rows, self._records)
        now_ms = int(time.time() * 1000)
        taken = []
        for index, record in zip(indexes, made, strict=True):
            refusal = self._limits.refusal(*record, now_ms)
            if refusal is None:
                taken.append(record)
            else:
                refused.append((index, record_error(*refusal, stage="sink")))
        self._file.write(self._staged(taken))
        return refused

    def _records(self, rows: pa.RecordBatch) -> list[_Record]:
        spec = self._spec
        keys = rows.column("_key").to_pylist() if spec.key is None else map(_encoded, rows.column(spec.key).to_pylist())
        if spec.value is None:
            values: Iterable[bytes | None] = map(orjson.dumps, plain_rows(rows.drop_columns(list(_RESERVED))))
        else:
            values = map(_encoded, rows.column(spec.value).to_pylist())
        theirs = rows.column("_headers").to_pylist() if spec.headers else [None] * rows.num_rows
        coordinates = zip(*(rows.column(name).to_pylist() for name in COORDINATES), strict=True)
        headers = (
            [
                *((each["name"], each["value"]) for each in listed or ()),
                *(
                    (f"penstock.{name.strip('_')}", str(part).encode())
                    for name, part in zip(COORDINATES, parts, strict=True)
                ),
                (HEADER, str(KAFKA_RECORD).encode()),
            ]
            for listed, parts in zip(theirs, coordinates, strict=True)
        )
        times_ms = rows.column("_timestamp_ms").to_pylist() if spec.timestamp == "record" else [0] * rows.num_rows
        return list(zip(keys, values, headers, times_ms, strict=True))

    def _staged(self, made: list[_Record]) -> pa.RecordBatch:
        headers = [[{"name": name, "value": value} for name, value in listed] for _, _, listed, _ in made]
        columns = [
            pa.repeat(self._spec.topic, len(made)),
            pa.repeat(pa.scalar(-1, pa.int32()), len(made)),
            pa.array([key for key, _, _, _ in made], pa.binary()),
            pa.array([value for _, value, _, _ in made], pa.binary()),
            pa.array(headers, RECORDS.field("headers").type),
            pa.array([at_ms for _, _, _, at_ms in made], pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=RECORDS)

    def finish(self) -> dict[str, Any]:
        """Close the file."""
        return {"file": self._file.finish()}


def _encoded(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()
