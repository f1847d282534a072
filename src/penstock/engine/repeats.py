"""What a crash in real time repeats: records that the sink holds already, from behind the position."""

from typing import Any

from penstock.delivery.dead_letters import PREFIX
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position
from penstock.kafka.reader import Reader

Offsets = dict[str, dict[str, int]]
"""Per topic and partition, as Spark writes them."""


def count_sent(
    connection: Connection, sink_topic: str, topics_by_id: dict[str, str], position: Offsets, since_ms: int
) -> int:
    """Count the source records from the position on that are in the sink, each once, however often it was sent."""
    sent: dict[tuple[str, int], bytearray] = {}
    with Reader(connection, sink_topic, start=Position("timestamp", since_ms)) as reader:
        for message in reader:
            told: dict[str, Any] = dict(message.headers() or [])
            topic = topics_by_id.get((told.get(f"{PREFIX}topic_id") or b"").decode())
            if topic is None:
                continue
            partition, offset = (int(told[f"{PREFIX}{name}"]) for name in ("partition", "offset"))
            ahead = offset - position.get(topic, {}).get(str(partition), 0)
            if ahead >= 0:
                # A byte for each offset: as many as came since the last commit, in whatever order they are read.
                marks = sent.setdefault((topic, partition), bytearray())
                marks.extend(bytes(max(0, ahead + 1 - len(marks))))
                marks[ahead] = 1
    return sum(map(sum, sent.values()))
