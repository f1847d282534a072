"""Reading without a group: any part of a topic, as often as you like, leaving no trace.

Guarantee: every committed record between the two ends, once, in order per partition. For a reader, nothing behind the
start of an open transaction is committed yet, whoever opened it: a bounded read ends there, unless it was asked to
wait. Browsing and checking use this, so that they never move anybody's position.
"""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.errors import NotFound
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import FETCHING, Connection
from penstock.kafka.failures import Causes, logger, opening, translate
from penstock.kafka.headers import settle_headers
from penstock.kafka.positions import EARLIEST, LATEST, Position, resolve, stable_ends

TopicAndPartition = tuple[str, int]

_BATCH = 10_000
_COMMIT_HEARD_S = 2.0
_LOOK_EVERY_S = 0.05
_WAIT_MS = 10


def reading(
    connection: Connection, causes: Causes, *, committed_only: bool = True, wait_ms: int | None = None
) -> dict[str, Any]:
    """Return the settings of a client that reads assigned partitions and joins no group.

    `wait_ms` is how long the broker may wait for records before it says that there are none. A bounded read needs that
    to be short: behind a transaction's marker, which is no record, it asks for more than there is.
    """
    return {
        **FETCHING,
        **({} if wait_ms is None else {"fetch.wait.max.ms": wait_ms}),
        "queued.max.messages.kbytes": 64 * 1024,
        # A broker may give one record above every other limit; a client that refuses it could never go on.
        "receive.message.max.bytes": 2**31 - 1,
        **connection.librdkafka(),
        "error_cb": causes,
        # Required by librdkafka; nothing is ever joined or committed under this name.
        "group.id": "penstock.reader",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # Records deleted while we read are an error, not a jump.
        "auto.offset.reset": "error",
        "isolation.level": "read_committed" if committed_only else "read_uncommitted",
    }


def _within_the_stable(admin: Admin, ends: dict[TopicAndPartition, int]) -> dict[TopicAndPartition, int]:
    """Cut ends to the last stable offset.

    Kafka acknowledges a commit a moment before the partitions have heard of it: what looks open is given that moment,
    so that whoever has committed reads it.
    """
    deadline = time.monotonic() + _COMMIT_HEARD_S
    while True:
        stable = stable_ends(admin, list(ends))
        if all(stable[tp] >= end for tp, end in ends.items()) or time.monotonic() > deadline:
            return {tp: min(end, stable[tp]) for tp, end in ends.items()}
        time.sleep(_LOOK_EVERY_S)


class Reader:
    """Reads a topic, or several as one, from `start` to `end`; with `end=None` it goes on as records arrive."""

    def __init__(
        self,
        connection: Connection,
        *names: str,
        start: Position = EARLIEST,
        end: Position | None = LATEST,
        partition: int | None = None,
        committed_only: bool = True,
        wait_for_open_transactions: bool = False,
    ) -> None:
        self._connection = connection
        self._causes = Causes(connection)
        self._doing = f"reading topic '{names[0]}'" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        admin = Admin(connection)
        topic_partitions = [tp for name in names for tp in self._partitions(admin, name, partition)]
        starts = resolve(admin, start, topic_partitions)
        ends = resolve(admin, end, topic_partitions) if end is not None else None
        if ends and committed_only and not wait_for_open_transactions:
            ends = _within_the_stable(admin, ends)
        self._open = {tp: ends[tp] if ends else None for tp in topic_partitions}
        for tp in [tp for tp in topic_partitions if ends and starts[tp] >= ends[tp]]:
            del self._open[tp]
        settings = reading(connection, self._causes, committed_only=committed_only, wait_ms=_WAIT_MS if ends else None)
        with opening(connection):
            self._client = Consumer(settings, logger=logger)
        self._client.assign([TopicPartition(*tp, starts[tp]) for tp in self._open])

    def _partitions(self, admin: Admin, topic: str, partition: int | None) -> list[tuple[str, int]]:
        numbers = topics.identify(admin, [topic], "reading")[topic][1]
        if partition is not None and partition not in numbers:
            raise NotFound(f"topic '{topic}' has no partition {partition}; it has 0 to {len(numbers) - 1}")
        return [(topic, number) for number in numbers if partition in (None, number)]

    def batches(self, *, max_events: int = _BATCH, max_wait_s: float = 0.1) -> Iterator[list[Message]]:
        """Yield records as they come; an empty list means that `max_wait_s` passed without any."""
        while self._open:
            found = self._poll(max_events, max_wait_s)
            if not found:
                self._raise_if_hopeless()
            batch = [message for message in found if self._belongs(message)]
            settle_headers(batch)
            if batch or not found:
                yield batch

    def _poll(self, max_events: int, max_wait_s: float) -> list[Message]:
        """Take what is there, or the first record that comes: `consume` by itself waits for the full number."""
        first = self._client.poll(max_wait_s)
        return [first, *self._client.consume(max_events - 1, 0)] if first is not None else []

    def __iter__(self) -> Iterator[Message]:
        for batch in self.batches():
            yield from batch

    def _raise_if_hopeless(self) -> None:
        """Raise a refused login, and an outage during a bounded read; an unbounded read waits until it is over."""
        if refusal := self._causes.refusal():
            raise refusal
        if None in self._open.values() or (cause := self._causes.decisive()) is None:
            return
        try:
            self._client.list_topics(next(iter(self._open))[0], timeout=2.0)
        except KafkaException:
            raise cause from None
        self._causes.forget_outage()

    def _belongs(self, message: Message) -> bool:
        tp = (str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return False  # librdkafka asks for the coordinator of any group id; a reader needs none
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise translate(error, self._connection, self._doing)
        if tp not in self._open:
            return False
        end = self._open[tp]
        offset = int(message.offset() or 0)
        # At the end of a partition the "offset" is the next one; markers and compaction leave holes before it.
        reached = offset if error is not None else offset + 1
        if end is not None and reached >= end:
            del self._open[tp]
            if self._open:
                self._client.pause([TopicPartition(*tp)])
        return error is None and (end is None or offset < end)

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.close()


def read_all(connection: Connection, topic: str, *, wait_for_open_transactions: bool = False) -> list[Message]:
    """Read everything committed that is in the topic now."""
    with Reader(connection, topic, wait_for_open_transactions=wait_for_open_transactions) as reader:
        return list(reader)


def read_one(connection: Connection, topic: str, partition: int, offset: int) -> Message | None:
    """Read the committed record at an offset; None, without reading further, if there is a hole."""
    with Reader(connection, topic, partition=partition, start=Position("offset", offset)) as reader:
        first = next(iter(reader), None)
    return first if first is not None and first.offset() == offset else None
