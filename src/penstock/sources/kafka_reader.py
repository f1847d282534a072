"""Reads offset ranges of topics inside of tasks, with librdkafka, in chunks of Arrow columns."""

import time
from collections.abc import Collection, Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from penstock.errors import BrokerUnavailable, ClusterReplaced, RetentionPassed
from penstock.kafka.connection import Connection
from penstock.kafka.failures import Causes, logger, opening, translate
from penstock.kafka.headers import read_headers
from penstock.kafka.reader import reading
from penstock.kafka.topic_limits import NO_TIMESTAMP
from penstock.record.columns import ERROR
from penstock.record.decoded import record_error
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.records import records
from penstock.sources.source import Skipped

_CHUNK_EVENTS = 10_000
PATIENCE_S = 0.1
SILENCE_S = 60.0
_WAIT_MS = 50


class KafkaReader:
    """Reads offset ranges inside a task. It is sent to the task as it is: it holds no client and no secret."""

    def __init__(self, connection: Connection, cluster_id: str, skipped: Skipped | None = None) -> None:
        self._connection = connection
        self._cluster_id = cluster_id
        self._skipped = skipped or {}

    def chunks(
        self, offset_range: OffsetRange, max_bytes: int | None = None, rejected: Collection[int] = ()
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Return records as columns, each chunk with the offset it reaches.

        Only the offset of a record at a rejected offset is read. A record that was given up is not even fetched. Ends
        at the offset range's end, or earlier once `max_bytes` are read.
        """
        source_partition, reached, left = offset_range.source_partition, offset_range.start, max_bytes
        for part in offset_range.less(self._skipped.get((source_partition.topic_id, source_partition.partition), [])):
            for batch, reached in self._chunks(part, left, rejected):
                yield batch, reached
                left = None if max_bytes is None else max(1, (left or 0) - batch.nbytes)
            if reached < part.end:
                return
        if reached < offset_range.end:
            yield _columns([], source_partition, rejected), offset_range.end

    def _chunks(
        self, offset_range: OffsetRange, max_bytes: int | None, rejected: Collection[int]
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        client, causes = _client(self._connection)
        source_partition = offset_range.source_partition
        client.assign([TopicPartition(source_partition.topic, source_partition.partition, offset_range.start)])
        try:
            reached, read_bytes, heard_at = offset_range.start, 0, time.monotonic()
            while reached < offset_range.end and (max_bytes is None or read_bytes < max_bytes):
                # Asked for more than there is, the client waits for the rest until its time is over.
                heard = client.consume(min(_CHUNK_EVENTS, offset_range.end - reached), PATIENCE_S)
                messages, reached_now = _sort(heard, offset_range, self._connection)
                if reached_now > reached:
                    reached, heard_at = reached_now, time.monotonic()
                elif time.monotonic() - heard_at > SILENCE_S:
                    raise causes.timeout(f"reading {source_partition}")
                elif not heard and (refusal := causes.refusal()):
                    raise refusal
                if messages:
                    self._require_same_cluster(client)
                    kept, read_bytes = _within(messages, read_bytes, max_bytes)
                    if len(kept) < len(messages):
                        yield _columns(kept, source_partition, rejected), int(kept[-1].offset() or 0) + 1
                        return
                    yield _columns(messages, source_partition, rejected), reached
                elif reached >= offset_range.end:
                    yield _columns([], source_partition, rejected), reached
        finally:
            client.unassign()

    def _require_same_cluster(self, client: Consumer) -> None:
        """Raise if another cluster has answered: it may have the port of a node that the driver did not connect to.

        The driver asks for the topics' ids before it commits, by a client of its own. This client remembers the cluster
        id from looking up the leaders, so no request is made here.
        """
        found = client.cluster_id(PATIENCE_S)
        if found and self._cluster_id and found != self._cluster_id:
            raise ClusterReplaced(
                f"another Kafka cluster has answered a task (its id is {found}) than the driver ({self._cluster_id})",
                safe="Nothing of this batch was written",
                fix=f"See who listens at {self._connection.bootstrap_servers}, and at the other nodes' addresses",
            )


def _within(messages: list[Message], read_bytes: int, max_bytes: int | None) -> tuple[list[Message], int]:
    """Cut a chunk behind the message that fills the batch; at least one is kept, so that reading makes progress."""
    all_bytes = read_bytes + sum(map(len, messages))
    if max_bytes is None or all_bytes < max_bytes:
        return messages, all_bytes
    for number, message in enumerate(messages, 1):
        read_bytes += len(message)
        if read_bytes >= max_bytes:
            return messages[:number], read_bytes
    return messages, read_bytes


_clients: dict[str, tuple[Consumer, Causes]] = {}


def _client(connection: Connection) -> tuple[Consumer, Causes]:
    """Open a client once per worker process: connecting costs more than a small batch."""
    name = repr(connection)
    if name not in _clients:
        _clients[name] = open_client(connection)
    return _clients[name]


def open_client(connection: Connection) -> tuple[Consumer, Causes]:
    """Return a consumer that joins no group, and the `Causes` that collects why its connections fail."""
    causes = Causes(connection)
    with opening(connection):
        return Consumer(reading(connection, causes, wait_ms=_WAIT_MS), logger=logger), causes


def _sort(heard: list[Message], offset_range: OffsetRange, connection: Connection) -> tuple[list[Message], int]:
    """Select the offset range's records, and return how far they reach. Markers and compaction leave holes."""
    if _are_records(heard, offset_range):
        return heard, int(heard[-1].offset() or 0) + 1
    messages: list[Message] = []
    reached = offset_range.start
    for message in heard:
        error = message.error()
        if (message.topic(), message.partition()) != (
            offset_range.source_partition.topic,
            offset_range.source_partition.partition,
        ):
            if error is not None and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise translate(error, connection, f"reading {offset_range.source_partition}")
            continue
        offset = int(message.offset() or 0)
        if error is None and offset_range.start <= offset < offset_range.end:
            messages.append(message)
            reached = offset + 1
        elif error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            reached = max(reached, min(offset, offset_range.end))
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise RetentionPassed(
                f"{offset_range.source_partition} no longer holds offset {offset_range.start}",
                safe="Nothing of this batch was written",
            )
        elif error.retriable() or error.code() in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}:  # noqa: SLF001
            raise BrokerUnavailable(f"reading {offset_range.source_partition}: {error.str()}")
        else:
            raise translate(error, connection, f"reading {offset_range.source_partition}")
    return messages, reached


def _are_records(heard: list[Message], offset_range: OffsetRange) -> bool:
    """Return whether there is nothing to sort out, which is nearly always so."""
    return (
        bool(heard)
        and not any(map(Message.error, heard))
        and {offset_range.source_partition.topic} == set(map(Message.topic, heard))
        and {offset_range.source_partition.partition} == set(map(Message.partition, heard))
        and offset_range.start <= (heard[0].offset() or 0)
        and (heard[-1].offset() or 0) < offset_range.end
    )


def _offsets(messages: list[Message]) -> Any:
    """Return the offsets, which come in order: where none is left out, two of them tell all."""
    first, last = (int(each.offset() or 0) for each in (messages[0], messages[-1])) if messages else (0, -1)
    if last - first + 1 == len(messages):
        return np.arange(first, last + 1, dtype=np.int64)
    return np.array([int(message.offset() or 0) for message in messages], np.int64)


def _columns(messages: list[Message], source_partition: SourcePartition, rejected: Collection[int]) -> pa.RecordBatch:
    """Turn messages into columns, whatever is in them; `_error` says of which not everything could be read."""
    offsets = _offsets(messages)
    bare = {number for number, offset in enumerate(offsets.tolist()) if offset in rejected} if rejected else set()
    read = [message for number, message in enumerate(messages) if number not in bare] if bare else messages
    headers, unreadable = read_headers(read)
    record_errors: list[Any] = [None] * len(read)
    for number in unreadable:
        record_errors[number] = record_error(
            "HeadersUnreadable", "the name of a header is not UTF-8: no header is kept"
        )
    columns: list[list[Any]] = [
        list(map(itemgetter(1), map(Message.timestamp, read))),
        list(map(Message.key, read)),
        list(map(Message.value, read)),
        headers,
        record_errors,
    ]
    for number in sorted(bare):
        for column, nothing in zip(columns, (NO_TIMESTAMP, None, None, None, None), strict=True):
            column.insert(number, nothing)
    times_ms, keys, values, headers, record_errors = columns
    batch = records(
        source_partition,
        offsets=pa.array(offsets),
        timestamps_ms=pa.array(times_ms, pa.int64()),
        keys=pa.array(keys, pa.binary()),
        values=pa.array(values, pa.binary()),
        headers=headers,
    )
    return batch.append_column("_error", pa.array(record_errors, ERROR)) if any(record_errors) else batch
