"""Dead letters: failed records, kept byte for byte, with what failed and where.

A dead letter has the key, value, headers and timestamp of the record, and adds headers that begin with `penstock.`. Its
topic does not expire, and takes what any topic takes. Where it does not, because its settings are not ours to make, the
letter is a stub: everything but the record's key, value and headers, with the size and the SHA-256 of the value.

Dead letters are committed before any sink, with a position of their own: what has been judged dead once stays dead,
whatever a second try of the same batch would say.
"""

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Message
from pydantic import BaseModel, Field

from penstock.delivery.outbox import RECORDS, Outbox, OutboxFile
from penstock.delivery.verdicts import Verdict, Verdicts
from penstock.errors import BadInput, FormatNotUnderstood, Refused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.reader import Reader
from penstock.kafka.topic_limits import TopicLimits, limits_of
from penstock.kafka.topic_spec import TopicSpec
from penstock.record.formats import DEAD_LETTER, require_format, version_of
from penstock.record.positions import OffsetRange, Positions, SourcePartition

PREFIX = "penstock."
NOT_READ = "NotRead"
"""The error of a record that cannot even be read: its dead letter is a stub."""
SINK_NAME = "dead"
ENVELOPE = (
    "pipeline",
    "stage",
    "error",
    "message",
    "topic",
    "topic_id",
    "partition",
    "offset",
    "source_id",
    "at",
    "at_partition",
    "attempt",
    "failed_ms",
    "sink",
    "timestamp_ms",
    "stub",
    "value_bytes",
    "value_sha256",
    "format",
)
"""The headers that a dead letter has behind the record's own, in this order; the last is the format version."""
_UNMISTAKABLE = {f"{PREFIX}{name}" for name in ("pipeline", "stage", "error")}
"""Headers by which a dead letter is known that says no version."""
_SPREADING_S = 5.0
_LARGE = {
    "max.message.bytes": "100000000",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
"""Limits of a dead-letter topic: what any topic has taken, it takes too. By default Kafka would refuse some of it."""


class DeadLetter(BaseModel, frozen=True):
    """A failed record, as its topic holds it."""

    dead_topic: str = Field(description="The dead-letter topic.")
    dead_partition: int = Field(description="Partition there.")
    dead_offset: int = Field(description="Offset there.")
    pipeline: str = Field(description="The pipeline that failed on it.")
    stage: str = Field(description="decode, step, handler, sql, expect, where or sink.")
    error: str = Field(description="Class of the error.")
    message: str = Field(description="What the error said.")
    sink: str | None = Field(description="The sink that refused it; none if it failed for all.")
    topic: str = Field(description="The topic it came from.")
    topic_id: str = Field(description="That topic's id.")
    partition: int = Field(description="Partition it came from.")
    offset: int = Field(description="Offset it came from.")
    source_id: str = Field(description="What was being read: the topic's id, or a replay's.")
    at_partition: int = Field(description="Partition of what was being read.")
    at: int = Field(description="Offset there.")
    attempt: int = Field(description="How many times it has failed.")
    failed_ms: int = Field(description="When it failed, in milliseconds since 1970.")
    timestamp_ms: int = Field(description="The record's own timestamp, as Kafka had it.")
    stub: str | None = Field(None, description="Why the record itself is not in the letter; none if it is.")
    value_bytes: int | None = Field(None, description="Size of the value, if that is not in the letter.")
    value_sha256: str | None = Field(None, description="SHA-256 of the value, if that is not in the letter.")


def make_topics(admin: Admin, wanted: Mapping[str, int]) -> dict[str, int]:
    """Make the dead-letter topics that are missing, and see that none expires; give how many partitions each has."""
    found = {}
    for name, partitions in wanted.items():
        kept = TopicSpec(partitions=partitions, cleanup="delete", retention="forever", retention_size="unlimited")
        found[name] = topics.ensure(admin, name, kept, wishes=_LARGE)
        _enlarge(admin, name)
    return found


def _enlarge(admin: Admin, name: str) -> None:
    """Raise the limits that a topic has from the cluster's defaults, and wait until they hold; or leave it at stubs."""
    deadline = time.monotonic() + _SPREADING_S
    with suppress(Refused, BadInput):
        while time.monotonic() < deadline and (changes := _too_small(admin, name)):
            topics.alter_config(admin, name, {**changes})


def _too_small(admin: Admin, name: str) -> dict[str, str]:
    defaults = {key: value for key, (value, is_own) in topics.config(admin, name).items() if not is_own}
    return {key: value for key, value in _LARGE.items() if defaults.get(key, value) != value}


class DeadLetters:
    """The dead letters of one pipeline."""

    positions_expire = True

    def __init__(self, connection: Connection, pipeline: str, template: str, scratch: Path, group: str) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._template = template
        self._scratch = scratch / SINK_NAME
        self._outbox = Outbox(connection, SINK_NAME, group)
        self._partitions: dict[str, int] = {}
        self._limits: dict[str, TopicLimits] = {}
        self._verdicts = Verdicts(connection, self._verdict)

    def open(self, wanted: Mapping[str, int]) -> None:
        """Make the dead-letter topics that are missing, each with so many partitions and no expiry."""
        missing = {name: partitions for name, partitions in wanted.items() if name not in self._partitions}
        if missing:
            admin = Admin(self._connection)
            self._partitions |= make_topics(admin, missing)
            self._limits |= {name: limits_of(admin, name) for name in missing}
            self._outbox.batch_max_bytes = min(limits.max_bytes for limits in self._limits.values())

    def topic_of(self, source: str) -> str:
        """Name the dead-letter topic of a source topic."""
        return dead_topic_of(source, self._template, self._pipeline)

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions:
        """Read how far records have been judged."""
        return self._outbox.positions(source_partitions)

    def take_over(self) -> None:
        """Fence any older driver."""
        self._outbox.take_over()

    def hold(self, positions: Positions) -> None:
        """Let these positions go along with every transaction."""
        self._outbox.hold(positions)

    def refresh(self) -> None:
        """Keep Kafka from forgetting positions and transactional id."""
        self._outbox.refresh()

    def holds_fence(self) -> bool:
        """Return whether this driver is the newest."""
        return self._outbox.holds_fence()

    def stager(self) -> "DeadStagerFactory":
        """Return what tasks stage dead letters with."""
        return DeadStagerFactory(
            self._pipeline, self._template, dict(self._partitions), dict(self._limits), self._scratch
        )

    def commit(self, files: list[Path], expected: Mapping[SourcePartition, int | None], ends: Positions) -> int:
        """Send dead letters and move their positions, in one transaction."""
        sent = self._outbox.send(files, expected, ends)
        for path in files:
            path.unlink()
        return sent

    def recorded(self, offset_ranges: Iterable[OffsetRange]) -> dict[SourcePartition, set[tuple[int, str | None]]]:
        """Find what is a dead letter already among these offsets: by offset and sink."""
        wanted = list(offset_ranges)
        # What a replay reads is itself the topic that its letters come back to.
        topics = {
            name
            for each in wanted
            for name in (each.source_partition.topic, self.topic_of(each.source_partition.topic))
        }
        topics &= self._partitions.keys()
        if not topics:
            self._verdicts.forget()
            return {each.source_partition: set() for each in wanted}
        return self._verdicts.among(wanted, {topic: self._partitions[topic] for topic in sorted(topics)})

    def _verdict(self, message: Message) -> Verdict | None:
        letter = understand(message)
        if letter is None or letter.pipeline != self._pipeline:
            return None
        return letter.source_id, letter.at_partition, letter.at, letter.sink

    def close(self) -> None:
        """Let go of the clients."""
        self._outbox.close()


@dataclass(frozen=True)
class DeadStagerFactory:
    """Opens a file of dead letters per offset range."""

    pipeline: str
    template: str
    partitions: dict[str, int]
    limits: dict[str, TopicLimits]
    folder: Path

    def __call__(self, offset_range: OffsetRange) -> "DeadStager":
        """Open the file at the first dead letter."""
        return DeadStager(self, offset_range)


class DeadStager:
    """Turns failed rows into dead letters, inside of a task."""

    def __init__(self, factory: DeadStagerFactory, offset_range: OffsetRange) -> None:
        self._factory = factory
        self._source_id = offset_range.source_partition.topic_id
        self._partition = offset_range.source_partition.partition
        self._file = OutboxFile(factory.folder / f"{uuid.uuid4().hex}.arrow")

    def write(self, rows: pa.RecordBatch, errors: pa.Array, sink: str | None) -> None:
        """Add one dead letter per row."""
        records = [self._record(row, error, sink) for row, error in zip(_listed(rows), errors.to_pylist(), strict=True)]
        self._file.write(pa.RecordBatch.from_pylist(records, schema=RECORDS))

    def _record(self, row: dict[str, Any], error: dict[str, str], sink: str | None) -> dict[str, Any]:
        source = row["_topic"]
        dead_topic = dead_topic_of(source, self._factory.template, self._factory.pipeline)
        known = self._factory.partitions.get(dead_topic, 1)
        limits = self._factory.limits.get(dead_topic, TopicLimits())
        now_ms = int(time.time() * 1000)
        fields = {
            "pipeline": self._factory.pipeline,
            "stage": error["stage"],
            "error": error["error"],
            "message": error["message"],
            "topic": source,
            "topic_id": row["_topic_id"],
            "partition": row["_partition"],
            "offset": row["_offset"],
            "source_id": self._source_id,
            "at": row["_at"],
            "at_partition": self._partition,
            "attempt": row["_attempt"],
            "failed_ms": now_ms,
            "sink": sink or row["_sink"] or "",
            "timestamp_ms": row["_timestamp_ms"],
            "stub": "",
            "value_bytes": "",
            "value_sha256": "",
            "format": DEAD_LETTER,
        }
        # The envelope comes last: whatever headers the record had, even some of this name, stay as they were.
        headers = [*((each["name"], each["value"]) for each in row["_headers"] or ()), *_enveloped(fields)]
        key, value = row["_key"], row["_value"]
        # The envelope has the timestamp; the letter has it too if its topic takes it, and otherwise that of sending.
        at_ms = row["_timestamp_ms"] if limits.takes_time(row["_timestamp_ms"], now_ms) else 0
        refusal = limits.refusal(key, value, headers, at_ms, now_ms)
        if refusal is not None or error["error"] == NOT_READ:
            digest = {"value_bytes": len(value), "value_sha256": hashlib.sha256(value).hexdigest()} if value else {}
            fields |= {"stub": refusal[1] if refusal is not None else "it cannot be read", **digest}
            # A compacted topic takes no letter without a key, and keeps all that have different ones.
            key, value, headers = (uuid.uuid4().bytes if limits.needs_key else None), None, _enveloped(fields)
        return {
            "topic": dead_topic,
            "partition": row["_partition"] % known,
            "key": key,
            "value": value,
            "headers": [{"name": name, "value": content} for name, content in headers],
            "timestamp_ms": at_ms,
        }

    def finish(self) -> dict[str, Any]:
        """Close the file."""
        return {"file": self._file.finish()}


def _enveloped(fields: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(f"{PREFIX}{name}", str(fields[name]).encode()) for name in ENVELOPE]


def dead_topic_of(source: str, template: str, pipeline: str) -> str:
    """Name the dead-letter topic; a file's path is no part of a topic's name, so the pipeline's stands for it."""
    return template.replace("{topic}", source if "/" not in source else pipeline)


def _listed(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    names = ["_topic", "_topic_id", "_partition", "_offset", "_timestamp_ms", "_key", "_value", "_headers"]
    listed: list[dict[str, Any]] = rows.select([*names, "_at", "_attempt", "_sink"]).to_pylist()
    return listed


def envelope(headers: Sequence[tuple[str, bytes | None]], where: str) -> dict[str, str]:
    """Read what Penstock added behind the record's own headers; raise `ValueError` if that is not there.

    One of another version is `FormatNotUnderstood`: a letter that is passed over would be gone from every count.
    """
    version = version_of(headers)
    names = [name for name, _ in headers]
    if version is not None or ({*names} >= _UNMISTAKABLE and names[-1].startswith(PREFIX)):
        require_format(f"the dead letter at {where}", version, DEAD_LETTER)
    last = headers[-len(ENVELOPE) :]
    if [name for name, _ in last] != [f"{PREFIX}{name}" for name in ENVELOPE]:
        raise ValueError("no dead letter")
    return {name.removeprefix(PREFIX): (value or b"").decode() for name, value in last}


def understand(message: Message) -> DeadLetter | None:
    """Read the envelope; None if this is no dead letter of Penstock. Raise `FormatNotUnderstood` if it is another's."""
    listed: Any = message.headers() or ()
    try:
        fields = envelope(listed, f"{message.topic()}/{message.partition()} offset {message.offset()}")
        return DeadLetter(
            dead_topic=str(message.topic()),
            dead_partition=int(message.partition() or 0),
            dead_offset=int(message.offset() or 0),
            pipeline=fields["pipeline"],
            stage=fields["stage"],
            error=fields["error"],
            message=fields["message"],
            sink=fields["sink"] or None,
            topic=fields["topic"],
            topic_id=fields["topic_id"],
            partition=int(fields["partition"]),
            offset=int(fields["offset"]),
            source_id=fields["source_id"],
            at_partition=int(fields["at_partition"]),
            at=int(fields["at"]),
            attempt=int(fields["attempt"]),
            failed_ms=int(fields["failed_ms"]),
            timestamp_ms=int(fields["timestamp_ms"]),
            stub=fields["stub"] or None,
            value_bytes=int(fields["value_bytes"]) if fields["value_bytes"] else None,
            value_sha256=fields["value_sha256"] or None,
        )
    except (KeyError, ValueError):
        return None


def read(
    connection: Connection,
    *topics: str,
    pipeline: str | None = None,
    wait_for_open_transactions: bool = False,
    on_unknown: Callable[[FormatNotUnderstood], None] | None = None,
) -> Iterator[DeadLetter]:
    """Read the dead letters in one topic or several, of one pipeline or of all.

    Letters behind somebody's open transaction are left out, unless they are waited for. One of another version raises
    `FormatNotUnderstood`, or is handed to `on_unknown`; one that says it is of another pipeline is nobody's business.
    """
    if not topics:
        return
    with Reader(connection, *topics, wait_for_open_transactions=wait_for_open_transactions) as reader:
        for message in reader:
            if pipeline is not None and _pipeline_of(message) not in (None, pipeline):
                continue
            try:
                letter = understand(message)
            except FormatNotUnderstood as error:
                if on_unknown is None:
                    raise
                on_unknown(error)
                continue
            if letter is not None and pipeline in (None, letter.pipeline):
                yield letter


def _pipeline_of(message: Message) -> str | None:
    """Return whose letter this says it is, in whatever version."""
    listed: Any = message.headers() or ()
    said = [value for name, value in listed if name == f"{PREFIX}pipeline"]
    return (said[-1] or b"").decode(errors="replace") if said else None
