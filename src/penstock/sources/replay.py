"""A selection of dead letters, as a source: the records as they were, again through the pipeline.

Guarantee: exactly the selected letters, once. The replay's id takes the place of a topic's id, so every sink keeps a
separate position for it, and a replay that was interrupted continues where it was.
"""

import functools
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from penstock.delivery.dead_envelope import ENVELOPE, envelope
from penstock.delivery.dead_letter import DeadLetter
from penstock.delivery.ledger import Replay
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.record.records import times
from penstock.sources.kafka_reader import KafkaReader
from penstock.sources.source import Source, SourceContext


class ReplaySource(Source):
    """The driver's view of a replay."""

    def __init__(self, replay: Replay, context: SourceContext) -> None:
        self._replay = replay
        self._connection = context.connection

    def _source_id(self, topic: str) -> str:
        return _source_id(self._replay, topic)

    def available(self) -> list[AvailableRange]:
        """Return the offset range of each dead-letter partition in which selected letters lie."""
        return [
            AvailableRange(SourcePartition(topic, self._source_id(topic), partition), min(offsets), max(offsets) + 1)
            for topic, parts in self._replay.letters.items()
            for partition, offsets in parts.items()
        ]

    def topic_ids(self) -> dict[str, str]:
        """Return the replay's id for each topic: it never changes."""
        return {topic: self._source_id(topic) for topic in self._replay.letters}

    def starts(self, available: list[AvailableRange]) -> Positions:
        """Begin with the first selected letter."""
        return {each.source_partition: each.first for each in available}

    def reader(self) -> "ReplayReader":
        """Return the reader, which is sent to tasks."""
        return ReplayReader(KafkaReader(self._connection, self._cluster_id), self._replay.letters)

    @functools.cached_property
    def _cluster_id(self) -> str:
        return cluster_id(Admin(self._connection))


def _source_id(replay: Replay, topic: str) -> str:
    """Name the replay's part in one topic: sinks know a partition by the source's id and its number."""
    return f"replay-{replay.id}-{topic}"


def source_offset_of(letter: DeadLetter, replay: Replay) -> tuple[SourcePartition, int]:
    """Return the source partition and the offset at which a replay reads a letter."""
    source_id = _source_id(replay, letter.dead_topic)
    return SourcePartition(letter.dead_topic, source_id, letter.dead_partition), letter.dead_offset


class ReplayReader:
    """Reads dead letters and turns them back into the records they were."""

    def __init__(self, reader: KafkaReader, letters: dict[str, dict[int, list[int]]]) -> None:
        self._reader = reader
        self._letters = letters

    def chunks(
        self, offset_range: OffsetRange, max_bytes: int | None = None, rejected: Collection[int] = ()
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Return the selected records with their own coordinates, and the attempt raised."""
        chosen = set(self._letters[offset_range.source_partition.topic][offset_range.source_partition.partition])
        for batch, reached in self._reader.chunks(offset_range, max_bytes, rejected):
            selected = (row for row in batch.to_pylist() if row["_at"] in chosen)
            rows = [row if row["_at"] in rejected else _restored(row) for row in selected]
            restored = pa.RecordBatch.from_pylist(rows, schema=batch.schema)
            at = batch.schema.get_field_index("_timestamp")
            yield restored.set_column(at, batch.schema.field(at), times(restored.column("_timestamp_ms"))), reached


def _restored(row: dict[str, Any]) -> dict[str, Any]:
    where = f"{row['_topic']}/{row['_partition']} offset {row['_at']}"
    fields = envelope([(each["name"], each["value"]) for each in row["_headers"]], where)
    return {
        **row,
        "_topic": fields["topic"],
        "_topic_id": fields["topic_id"],
        "_partition": int(fields["partition"]),
        "_offset": int(fields["offset"]),
        "_timestamp_ms": int(fields["timestamp_ms"]),
        "_headers": row["_headers"][: -len(ENVELOPE)],
        "_attempt": int(fields["attempt"]) + 1,
        "_sink": fields["sink"] or None,
    }
