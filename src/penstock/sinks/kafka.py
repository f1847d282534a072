"""A Kafka topic.

Guarantee: exactly once for readers of committed records. Tasks stage records; the driver sends a batch and moves
the position in one transaction. A reader of uncommitted records may see records of attempts that were given up.
Records of one source partition keep their order, key, headers and timestamp. A row that the topic would refuse, for its
size, its timestamp or a missing key, or that does not fit the schema of `encode`, is a dead letter of stage `sink`.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
from pydantic import Field

from penstock.config.problem import PipelineView, Problem
from penstock.delivery.lag import group_of
from penstock.delivery.outbox import RECORDS, Outbox, OutboxFile
from penstock.errors import BadInput, Conflict, PositionLost, Refused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.topic_limits import TopicLimits, limits_of
from penstock.kafka.topic_spec import NO_TOPIC_NAME, TOPIC_NAME
from penstock.record.columns import COORDINATES, user_columns
from penstock.record.decoded import RecordError, record_error
from penstock.record.formats import HEADER, KAFKA_RECORD
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.target import Target
from penstock.sinks.kafka_encoding import Encode, Encoding, encoding
from penstock.sinks.kafka_positions import POSITION, find_beyond, find_positions, keeps_all, position_prefix
from penstock.sinks.rows import fitting, plain_rows
from penstock.sinks.sink import NOTHING_KNOWN, RecordLayout, Recovery, Sink, SinkContext, SinkModel

_RESERVED = (*COORDINATES, "_key", "_headers", "_timestamp_ms")
_AT = "_at"
_MS_PER_HOUR = 3_600_000


class Kafka(SinkModel, frozen=True):
    """A topic of the project's Kafka. Exactly once for readers of committed records."""

    target_key = "topic"

    type: Literal["kafka"] = Field("kafka", description="A Kafka topic.")
    topic: str = Field(description="The topic; it must be there.")
    key: str | None = Field(
        None,
        description="Column whose text becomes the key, and so chooses the partition; the record's key if left out."
        " With `encode.keys` the key is the column's value by a schema.",
    )
    value: str | None = Field(
        None, description="Column whose bytes or text become the value; a JSON object of all columns if left out."
    )
    encode: Encode | None = Field(
        None, description="Values by a schema of a registry, instead of plain JSON; all columns are in it."
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
        if self.encode is not None and self.value is not None:
            yield Problem.error("`encode` writes all columns: leave out `value`", "value")
        if self.encode is not None and self.encode.keys and self.key is None:
            yield Problem.error("keys by a schema are those of a column: name it", "key")
        if self.encode is not None and pipeline.speed == "realtime":
            yield Problem.error("in real time values are JSON or one column: leave out `encode`", "encode")
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
        self._connection = context.connection
        self._pipeline = context.pipeline
        group = f"{group_of(context.pipeline)}.{context.name}{context.replay_suffix}"
        self._outbox = Outbox(context.connection, context.name, group, spec.partitioner)
        self._admin = Admin(context.connection)
        self._limits = TopicLimits()
        self._encoding: Encoding | None = None

    def reach(self) -> None:
        """See that the topic is there."""
        topics.partition_count(self._admin, self._spec.topic)

    def caution(self) -> str | None:
        """Return how old a record may be before the topic's retention deletes its row again."""
        kept_ms = limits_of(self._admin, self._spec.topic).kept_ms
        if self._spec.timestamp == "now" or kept_ms is None:
            return None
        return (
            f"rows of records older than {kept_ms / _MS_PER_HOUR:g} h are deleted again within minutes: `retention.ms`"
            " counts from the timestamp, and a row has that of its record, unless `timestamp: now`"
        )

    def open(self, schema: pa.Schema) -> None:
        """Check the columns, and learn what the topic takes."""
        for column in (self._spec.key, self._spec.value):
            if column is not None and column not in schema.names:
                raise BadInput(f"sink '{self.name}' names the column '{column}', which does not exist")
        if self._spec.encode is not None:
            columns = pa.schema([schema.field(name) for name in user_columns(schema.names)])
            self._encoding = encoding(self._spec.encode, self._spec.topic, columns, self._spec.key)
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

    def recover(self, source_partitions: Iterable[SourcePartition], recovery: Recovery = NOTHING_KNOWN) -> bool:
        """Find positions that Kafka has forgotten from the rows in the topic, and hold them for `refresh` to put back.

        Behind the last row nothing was written: what lies there was left out or is a dead letter, and is read again. Of
        a topic that has lost rows, for all that is known, this is refused: they would be sent a second time.
        """
        wanted = [each for each in source_partitions if each.in_kafka]
        kept = self.positions(wanted) or {}
        lost = [each for each in wanted if each not in kept]
        if not lost:
            return False
        try:
            found, others = find_positions(
                self._connection, self._spec.topic, self._outbox.group, lost, recovery.on_read
            )
            # Only now: retention does not wait until the topic is read.
            is_certain = keeps_all(self._admin, self._spec.topic)
        except Refused:  # this client may write to it, and not read it
            found, others, is_certain = {}, {}, False
        # A group that has positions of this topic has those of every partition that was written from.
        has_forgotten = not kept and self.positions_expire
        # Rows from behind what the checkpoint says show that it is old: of no partition does it know the end.
        is_old = any(at > recovery.committed.get(each, 0) for each, at in found.items())
        for each in lost:
            is_known = is_certain or (each in recovery.settled and self.positions_expire and not is_old)
            if not is_known and not recovery.may_repeat and (has_forgotten or each in found):
                raise self._unknown(each, found.get(each))
            if each in others and each not in found and each not in recovery.settled and not recovery.may_repeat:
                raise self._renamed(each, others[each])
            known = [found, recovery.committed] if self.positions_expire else [found]
            if self.positions_expire and not (is_certain and each in found):
                known.append(recovery.reported)
            if furthest := [positions[each] for positions in known if each in positions]:
                found[each] = max(furthest)
        self.hold({**kept, **found} if found else {})
        return False

    def _unknown(self, source_partition: SourcePartition, at: int | None) -> Conflict:
        left = "has no row of it" if at is None else f"has rows of it up to offset {at - 1}"
        return Conflict(
            f"Kafka has forgotten the positions of sink '{self.name}', and its topic '{self._spec.topic}' does not keep"
            f" everything, or this user may not read it: how far it got at {source_partition} is not known; the topic"
            f" {left}",
            safe="Nothing was changed",
            fix="Give the sink another topic, which is filled from the source's start; or, if rows that were sent"
            f" before may come again, run: penstock pipeline rebuild {self._pipeline} --may-repeat",
        )

    def _renamed(self, source_partition: SourcePartition, group: str) -> Conflict:
        return Conflict(
            f"how far sink '{self.name}' got at {source_partition} is not known, and its topic '{self._spec.topic}' has"
            f" rows of it that the pipeline has written under another name, with the group {group}",
            safe="Nothing was changed",
            fix="If the sink had that name before, give it that name again; if rows that were sent before may come"
            f" again, run: penstock pipeline rebuild {self._pipeline} --may-repeat",
        )

    def take_over(self) -> None:
        """Fence older drivers."""
        self._outbox.take_over()

    def hold(self, positions: Positions) -> None:
        """Commit these positions with every transaction from now on."""
        self._outbox.hold(positions)

    def refresh(self) -> None:
        """Keep Kafka from forgetting positions and transactional id."""
        self._outbox.refresh()

    def beyond(self, positions: Positions) -> Positions:
        """Look for rows from behind these positions; a topic that this client may not read has none."""
        with suppress(Refused):
            return find_beyond(self._connection, self._spec.topic, self._outbox.group, positions)
        return {}

    def stager(self) -> "KafkaStagerFactory":
        """Return the stager of records, which is sent to tasks."""
        folder = self._scratch / self.name
        return KafkaStagerFactory(self._spec, self._limits, folder, self._outbox.group, self._encoding)

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
        """Close the clients."""
        self._outbox.close()


@dataclass(frozen=True)
class KafkaStagerFactory:
    """Opens a file of records per offset range."""

    spec: Kafka
    limits: TopicLimits
    folder: Path
    group: str
    encoding: Encoding | None = None

    def __call__(self, offset_range: OffsetRange) -> "KafkaStager":
        """Open the file at the first row."""
        prefix = position_prefix(self.group, offset_range.source_partition)
        path = self.folder / f"{uuid.uuid4().hex}.arrow"
        return KafkaStager(self.spec, self.limits, path, prefix, self.encoding)


_Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
"""Key, value, headers, timestamp in milliseconds."""


class KafkaStager:
    """Turns rows into records."""

    def __init__(
        self, spec: Kafka, limits: TopicLimits, path: Path, prefix: str, encoding: Encoding | None = None
    ) -> None:
        self._spec = spec
        self._encoding = encoding
        self._limits = limits
        self._prefix = prefix
        self._file = OutboxFile(path)

    def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> list[tuple[int, RecordError]]:
        """Encode rows; refuse what cannot be encoded, and what the topic would refuse."""
        made, indexes, refused = fitting(rows.append_column(_AT, offsets), self._records)
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
        keys: Iterable[bytes | None]
        if spec.key is None:
            keys = rows.column("_key").to_pylist()
        elif self._encoding is not None and self._encoding.key is not None:
            keys = self._encoding.key.encoded(rows.select([spec.key]), spec.key)
        else:
            keys = map(_encoded, rows.column(spec.key).to_pylist())
        values: Iterable[bytes | None]
        if self._encoding is not None:
            values = self._encoding.values(rows.drop_columns([*_RESERVED, _AT]))
        elif spec.value is None:
            values = map(orjson.dumps, plain_rows(rows.drop_columns([*_RESERVED, _AT])))
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
                (POSITION, f"{self._prefix}{at + 1}".encode()),
                (HEADER, str(KAFKA_RECORD).encode()),
            ]
            for listed, parts, at in zip(theirs, coordinates, rows.column(_AT).to_pylist(), strict=True)
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
