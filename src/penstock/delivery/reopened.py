"""Dead letters that are open again for only some of their sinks: new letters, each of one sink."""

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.delivery.dead_envelope import ENVELOPE, PREFIX
from penstock.delivery.dead_letter import DeadLetter
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position
from penstock.kafka.reader import Reader


def for_single_sinks(connection: Connection, letters: Iterable[tuple[DeadLetter, str]]) -> Iterator[dict[str, Any]]:
    """Return letters as they are to be sent once more, each for one of its sinks alone; all else stays as it was."""
    wanted: dict[tuple[str, int], dict[int, list[str]]] = {}
    for letter, sink in letters:
        offsets = wanted.setdefault((letter.dead_topic, letter.dead_partition), {})
        offsets.setdefault(letter.dead_offset, []).append(sink)
    for (topic, partition), sinks in wanted.items():
        start, end = Position("offset", min(sinks)), Position("offset", max(sinks) + 1)
        with Reader(
            connection, topic, partition=partition, start=start, end=end, wait_for_open_transactions=True
        ) as reader:
            for message in reader:
                listed: Any = message.headers() or ()
                for sink in sinks.get(int(message.offset() or 0), ()):
                    headers = list(listed)
                    headers[ENVELOPE.index("sink") - len(ENVELOPE)] = (f"{PREFIX}sink", sink.encode())
                    yield {
                        "topic": topic,
                        "partition": partition,
                        "key": message.key(),
                        "value": message.value(),
                        "headers": headers,
                        "timestamp_ms": message.timestamp()[1],
                    }
