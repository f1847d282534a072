"""A range of a topic's past, as a source: the records between two times or offsets, once more.

Guarantee: exactly the records of the range, once, less those that were given up by `pipeline skip`. The replay's id
takes the place of a topic's id, so every sink keeps a position of its own for it, and the live pipeline's positions are
not touched. Rows carry their own coordinates.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.delivery.ledger import range_source_id
from penstock.errors import BadInput
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position, resolve
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sources.kafka import Kafka
from penstock.sources.kafka_reader import KafkaReader
from penstock.sources.source import Skipped, Source, SourceContext, SourceModel


class Part(BaseModel, frozen=True):
    """The part of one partition."""

    topic: str = Field(description="The topic.")
    topic_id: str = Field(description="Its id.")
    partition: int = Field(description="The partition.")
    start: int = Field(description="First offset.")
    end: int = Field(description="Offset after the last one.")


class Range(BaseModel, frozen=True):
    """An immutable selection of records, under an id of its own."""

    id: str = Field(description="Its id.")
    parts: list[Part] = Field(description="What it holds.")
    replaces: bool = Field(description="Whether the new rows replace the rows of these records.")

    @property
    def count(self) -> int:
        """How many offsets it spans."""
        return sum(part.end - part.start for part in self.parts)

    def source_id(self, topic_id: str) -> str:
        """Return what stands for a topic's id."""
        return range_source_id(self.id, topic_id)

    def replaced(self, skipped: Skipped) -> dict[SourcePartition, list[OffsetRange]]:
        """Return for each of its source partitions which records are read again; those that were given up are not."""
        return {
            source_partition: offset_range.less(
                skipped.get((offset_range.source_partition.topic_id, offset_range.source_partition.partition), [])
            )
            for source_partition, offset_range in self.real.items()
        }

    @property
    def real(self) -> dict[SourcePartition, OffsetRange]:
        """Return for each of its source partitions where the records lie."""
        return {
            SourcePartition(part.topic, self.source_id(part.topic_id), part.partition): OffsetRange(
                SourcePartition(part.topic, part.topic_id, part.partition), part.start, part.end
            )
            for part in self.parts
        }


def choose(source: SourceModel, connection: Connection, since: str, until: str) -> list[Part]:
    """Turn times or offsets into offsets of every partition, once and for all."""
    available = source.open(SourceContext(connection)).available()
    source_partitions = [(each.source_partition.topic, each.source_partition.partition) for each in available]
    admin = Admin(connection)
    starts, ends = (resolve(admin, Position.parse(text), source_partitions) for text in (since, until))
    parts = []
    for each in available:
        source_partition = each.source_partition
        start, end = (
            starts[source_partition.topic, source_partition.partition],
            min(each.end, ends[source_partition.topic, source_partition.partition]),
        )
        if start < end:
            part = Part(
                topic=source_partition.topic,
                topic_id=source_partition.topic_id,
                partition=source_partition.partition,
                start=start,
                end=end,
            )
            parts.append(part)
    if not parts:
        raise BadInput(f"there is no record from {since} to {until}")
    return parts


class RangeSource(Source):
    """The driver's view of a range."""

    def __init__(self, chosen: Range, context: SourceContext) -> None:
        self._range = chosen
        self._live = Kafka(topics=sorted({part.topic for part in chosen.parts})).open(context)
        # One that is gone when the replay is opened does not keep it from being ended; one that goes later is missed.
        there = [topic for topic in self._live.spec.topics if topic not in self.gone()]
        self._there = Kafka(topics=there).open(context) if there else None

    def gone(self) -> list[str]:
        """Name its topics that no longer exist."""
        return [topic for topic in self._live.spec.topics if not self._live.has(topic)]

    def available(self) -> list[AvailableRange]:
        """Return the range, less what the topic has lost in the meantime: that is then a gap."""
        firsts = {
            (each.source_partition.topic, each.source_partition.partition): each.first
            for each in (self._there.available() if self._there is not None else ())
        }
        return [
            AvailableRange(
                SourcePartition(part.topic, self._range.source_id(part.topic_id), part.partition),
                max(part.start, firsts.get((part.topic, part.partition), part.end)),
                part.end,
            )
            for part in self._range.parts
        ]

    def topic_ids(self) -> dict[str, str]:
        """Return the range's id for each topic that was not recreated since it was chosen."""
        chosen = {part.topic: part.topic_id for part in self._range.parts}
        live = self._there.topic_ids() if self._there is not None else {}
        return {
            topic: self._range.source_id(topic_id) if topic_id == chosen[topic] else topic_id
            for topic, topic_id in live.items()
        }

    def starts(self, _available: list[AvailableRange]) -> Positions:
        """Begin with the first record of the range."""
        return {source_partition: offset_range.start for source_partition, offset_range in self._range.real.items()}

    def reader(self) -> "RangeReader":
        """Return the reader, which is sent to tasks."""
        topic_ids = {part.topic: part.topic_id for part in self._range.parts}
        return RangeReader(self._live.reader(), topic_ids)


class RangeReader:
    """Reads a range; its records say where they really are."""

    def __init__(self, reader: KafkaReader, topic_ids: dict[str, str]) -> None:
        self._reader = reader
        self._topic_ids = topic_ids

    def chunks(
        self, offset_range: OffsetRange, max_bytes: int | None = None, rejected: Collection[int] = ()
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Return the records with their own coordinates."""
        source_partition = offset_range.source_partition
        real = SourcePartition(
            source_partition.topic, self._topic_ids[source_partition.topic], source_partition.partition
        )
        return self._reader.chunks(OffsetRange(real, offset_range.start, offset_range.end), max_bytes, rejected)
