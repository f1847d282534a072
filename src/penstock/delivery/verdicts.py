"""Which records are dead letters already: looked up after a crash, and batch by batch while a sink is filled again.

Each dead letter is read once, however many batches ask: the first reads what is there, later ones what has come since.
"""

from collections.abc import Callable, Iterable

from confluent_kafka import Message

from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position, bounds
from penstock.kafka.reader import Reader
from penstock.record.positions import OffsetRange, SourcePartition

Verdict = tuple[str, int, int, str | None]
"""Id of the source, partition and offset of what was being read, and the sink; none if it failed for all."""


class Verdicts:
    """The verdicts in dead-letter topics."""

    def __init__(self, connection: Connection, understand: Callable[[Message], Verdict | None]) -> None:
        self._connection = connection
        self._understand = understand
        self._read_to: dict[tuple[str, int], int] = {}
        self._sinks: dict[tuple[str, int], dict[int, set[str | None]]] = {}

    def among(
        self, offset_ranges: Iterable[OffsetRange], topics: dict[str, int]
    ) -> dict[SourcePartition, set[tuple[int, str | None]]]:
        """Return offsets and sinks of what was judged in these ranges; `topics` gives the number of partitions."""
        self._read_on([(topic, number) for topic, count in topics.items() for number in range(count)])
        found: dict[SourcePartition, set[tuple[int, str | None]]] = {}
        for each in offset_ranges:
            judged = self._sinks.get((each.source_partition.topic_id, each.source_partition.partition), {})
            offsets = range(each.start, each.end)
            there = judged.keys() if len(judged) < len(offsets) else offsets
            found[each.source_partition] = {
                (at, sink) for at in there if at in judged and at in offsets for sink in judged[at]
            }
        return found

    def forget(self) -> None:
        """Drop everything: nobody will ask again."""
        self._read_to.clear()
        self._sinks.clear()

    def _read_on(self, partitions: list[tuple[str, int]]) -> None:
        """Read new letters, to the very end: some may be behind a transaction of another pipeline."""
        limits = bounds(Admin(self._connection), partitions)
        new = sorted({topic for topic, number in partitions if (topic, number) not in self._read_to})
        if new:
            self._read(Reader(self._connection, *new, wait_for_open_transactions=True))
        for topic, number in partitions:
            first, end = limits[topic, number]
            start = max(first, self._read_to.get((topic, number), end))
            if start < end:
                self._read(
                    Reader(
                        self._connection,
                        topic,
                        partition=number,
                        start=Position("offset", start),
                        end=Position("offset", end),
                        wait_for_open_transactions=True,
                    )
                )
            self._read_to[topic, number] = end

    def _read(self, reader: Reader) -> None:
        with reader:
            for message in reader:
                self._note(self._understand(message))

    def _note(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            source_id, partition, at, sink = verdict
            self._sinks.setdefault((source_id, partition), {}).setdefault(at, set()).add(sink)
