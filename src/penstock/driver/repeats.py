"""What a crash in real time repeats: records beyond the position that the sink holds already.

Anybody may write to the sink's topic. A record counts if its headers name one that the source has; others are ignored.
"""

from collections import defaultdict
from typing import Any

from penstock.delivery.dead_envelope import PREFIX
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position
from penstock.kafka.reader import Reader
from penstock.record.available_range import AvailableRange
from penstock.record.formats import KAFKA_RECORD, version_of
from penstock.record.positions import SourcePartition

Offsets = dict[str, dict[str, int]]
"""Per topic and partition, as Spark writes them."""

_BITS = 4096


def count_sent(
    connection: Connection, sink_topic: str, available: list[AvailableRange], position: Offsets, since_ms: int
) -> int:
    """Count the source records from the position on that are in the sink, each once, however often it was sent."""
    known = {(each.source_partition.topic_id, each.source_partition.partition): each for each in available}
    # A bit for each offset, in whatever order they are read, and never more memory than the records that are read take.
    sent: defaultdict[tuple[SourcePartition, int], int] = defaultdict(int)
    with Reader(connection, sink_topic, start=Position("timestamp", since_ms)) as reader:
        for message in reader:
            headers: Any = message.headers() or []
            topic_id, partition, offset = _source_of(headers)
            available_range = known.get((topic_id, partition))
            if available_range is None:
                continue
            if version_of(list(headers)) != KAFKA_RECORD:
                continue  # a count that only informs: anybody may write to the topic, and must not stop the pipeline
            source_partition = available_range.source_partition
            if position.get(source_partition.topic, {}).get(str(partition), 0) <= offset < available_range.end:
                sent[source_partition, offset // _BITS] |= 1 << offset % _BITS
    return sum(map(int.bit_count, sent.values()))


def _source_of(headers: Any) -> tuple[str, int, int]:
    """Read a record's source from its headers; if they make no sense, return one that no source has."""
    found: dict[str, bytes | None] = dict(headers)
    topic_id, partition, offset = (found.get(f"{PREFIX}{name}") or b"" for name in ("topic_id", "partition", "offset"))
    try:
        return topic_id.decode(), int(partition), int(offset)
    except ValueError:
        return "", -1, -1
