"""Staging dead letters in tasks: a file for each offset range, which the driver sends and commits."""

import hashlib
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from penstock.delivery.dead_envelope import NOT_READ, dead_topic_of, enveloped
from penstock.delivery.outbox import RECORDS, OutboxFile
from penstock.kafka.topic_limits import TopicLimits
from penstock.record.formats import DEAD_LETTER
from penstock.record.positions import OffsetRange


@dataclass(frozen=True)
class DeadStagerFactory:
    """Opens a file of dead letters per offset range."""

    pipeline: str
    sinks: list[str]
    template: str
    partitions: dict[str, int]
    limits: dict[str, TopicLimits]
    folder: Path

    def __call__(self, offset_range: OffsetRange) -> "DeadStager":
        """Open the file at the first dead letter."""
        return DeadStager(self, offset_range)


class DeadStager:
    """Turns failed rows into dead letters, inside a task."""

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
            "line": error["line"] or "",
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
            "sinks": orjson.dumps(self._factory.sinks).decode(),
            "timestamp_ms": row["_timestamp_ms"],
            "stub": "",
            "value_bytes": "",
            "value_sha256": "",
            "format": DEAD_LETTER,
        }
        # The envelope comes last: whatever headers the record had, even some of this name, stay as they were.
        headers = [*((each["name"], each["value"]) for each in row["_headers"] or ()), *enveloped(fields)]
        key, value = row["_key"], row["_value"]
        # The envelope has the timestamp; the letter has it too if its topic takes it, and otherwise that of sending.
        at_ms = row["_timestamp_ms"] if limits.takes_time(row["_timestamp_ms"], now_ms) else 0
        refusal = limits.refusal(key, value, headers, at_ms, now_ms)
        if refusal is not None or error["error"] == NOT_READ:
            digest = {"value_bytes": len(value), "value_sha256": hashlib.sha256(value).hexdigest()} if value else {}
            fields |= {"stub": refusal[1] if refusal is not None else "it cannot be read", **digest}
            # A compacted topic takes no letter without a key, and keeps all that have different ones.
            key, value, headers = (uuid.uuid4().bytes if limits.needs_key else None), None, enveloped(fields)
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


def _listed(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    names = ["_topic", "_topic_id", "_partition", "_offset", "_timestamp_ms", "_key", "_value", "_headers"]
    listed: list[dict[str, Any]] = rows.select([*names, "_at", "_attempt", "_sink"]).to_pylist()
    return listed
