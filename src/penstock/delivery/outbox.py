"""Records that are sent to Kafka together with the position that they were made from.

Guarantee: exactly once for readers of committed records. One transaction holds a batch's records and the offsets of the
group that is the position; it either happens whole or not at all. The transactional id is the pipeline's and the
sink's, so that taking over aborts an older driver's open transaction, and fences that driver permanently. Reading
positions does not take over: a driver that may not run does not disturb one that does. Kafka forgets offsets and
transactional ids that are not used; so every transaction commits all positions, and so does one now and then when there
is nothing to send.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.delivery.crash_points import crash_point
from penstock.errors import BrokerUnavailable, Conflict, PenstockError, PositionsMoved
from penstock.kafka.connection import Connection
from penstock.kafka.failures import Causes, logger, opening, translate
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.record.columns import HEADERS
from penstock.record.formats import metadata_of, metadata_words
from penstock.record.positions import Positions, SourcePartition, require_unmoved

RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("timestamp_ms", pa.int64()),
    ]
)
"""What stagers write for an outbox to send. Partition -1 lets the key decide, timestamp 0 means now."""

_TRANSACTION_TIMEOUT_MS = 600_000
_TIMEOUT_S = 30.0
_BATCH_MAX_BYTES = 1_000_000
_RECORD_MAX_BYTES = 1_000_000_000
_HUNG_TIMEOUT_S = 5.0


class Outbox:
    """Sends what one sink writes to Kafka."""

    def __init__(
        self, connection: Connection, name: str, group: str, partitioner: Literal["murmur2", "crc32"] = "murmur2"
    ) -> None:
        self._connection = connection
        self._name = name
        self.group = group
        self._producer: Producer | None = None
        self._partitioner = partitioner
        self.target_id = ""
        """Id of the topic that the records go to; positions are true of no other. Empty where they go to several."""
        self.has_other_target = False
        """Whether positions were found that are true of another topic, one that had the same name."""
        self.batch_max_bytes = _BATCH_MAX_BYTES
        """The smallest limit of the topics that it sends to, for Kafka refuses a batch above it."""
        self._held: Positions = {}
        causes = Causes(connection)
        settings: dict[str, Any] = {
            **connection.librdkafka(),
            "error_cb": causes,
            "group.id": group,
            "enable.auto.commit": False,
            # Offsets inside a transaction that is not over yet are waited for, not overlooked.
            "isolation.level": "read_committed",
        }
        with opening(connection):
            self._group_client = Consumer(settings, logger=logger)

    def take_over(self) -> Producer:
        """Open the producer, once, and again if it hung; from now on an older driver cannot commit."""
        if self._producer is None or self._producer.hung:
            options = ProducerOptions(
                partitioner=self._partitioner,
                batch_max_bytes=min(_BATCH_MAX_BYTES, self.batch_max_bytes),
                # The topic decides: whoever stages records has compared them with its limits.
                record_max_bytes=_RECORD_MAX_BYTES,
                transactional_id=self.group,
                transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            )
            self._producer = Producer(self._connection, options)
        return self._producer

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions:
        """Read the group's committed offsets; those of a topic with another id, read or written, do not count."""
        asked = {
            (source_partition.topic, source_partition.partition): source_partition
            for source_partition in source_partitions
            if source_partition.in_kafka
        }
        if not asked:
            return {}
        try:
            found = self._committed(list(asked))
        except BrokerUnavailable:
            if not self._is_hung:
                raise
            # What this driver's producer has left open holds the positions back until it is ended, which a new producer
            # does. Had another driver taken over, that one would have ended it.
            self.take_over()
            found = self._committed(list(asked))
        positions: Positions = {}
        self.has_other_target = False
        for each in found:
            if each.offset < 0:
                continue
            source_partition = asked[each.topic, each.partition]
            what = f"the position of sink '{self._name}' at {source_partition}, in group '{self.group}',"
            words = metadata_words(what, each.metadata)
            if each.metadata == self._metadata(source_partition):
                positions[source_partition] = each.offset
            elif words[:1] == [source_partition.topic_id]:
                self.has_other_target = True
        return positions

    def _metadata(self, source_partition: SourcePartition) -> str:
        """Return what a position belongs to: the topic that was read, and the one that was written to."""
        return metadata_of(source_partition.topic_id, self.target_id)

    @property
    def _is_hung(self) -> bool:
        return self._producer is not None and self._producer.hung

    def _committed(self, asked: list[tuple[str, int]]) -> list[TopicPartition]:
        timeout_s = _HUNG_TIMEOUT_S if self._is_hung else _TIMEOUT_S
        try:
            return self._group_client.committed([TopicPartition(*each) for each in asked], timeout_s)
        except KafkaException as failure:
            raise translate(failure, self._connection, f"reading the positions of sink '{self._name}'") from None

    def hold(self, positions: Positions) -> None:
        """Set all positions of the sink, which are committed with every transaction from now on."""
        self._held = {source_partition: at for source_partition, at in positions.items() if source_partition.in_kafka}

    def refresh(self) -> None:
        """Commit the positions unchanged, so that Kafka forgets neither them nor the transactional id."""
        if self._held:
            self.send([], {}, {})

    def holds_fence(self) -> bool:
        """Return whether this driver is the newest, by an empty transaction."""
        try:
            self.refresh()
        except PositionsMoved:
            return False
        return bool(self._held)

    def send(self, files: Iterable[Path], expected: Mapping[SourcePartition, int | None], ends: Positions) -> int:
        """Send staged records and move the positions, in one transaction; return how many records went."""
        ours = {
            **self._held,
            **{source_partition: at for source_partition, at in expected.items() if source_partition.in_kafka},
        }
        moved = {
            **self._held,
            **{source_partition: end for source_partition, end in ends.items() if source_partition.in_kafka},
        }
        if self._is_hung:
            # Meanwhile another driver may have taken over. Then it is the one to go on, and must not be fenced.
            self._require_unmoved(ours)
        producer = self.take_over()
        self._require_unmoved(ours)
        try:
            with producer.transaction() as transaction:
                before = producer.sent
                # Positions first: there is an answer to these, so a producer that Kafka has forgotten shows here.
                if moved:
                    offsets = [
                        TopicPartition(
                            source_partition.topic,
                            source_partition.partition,
                            offset,
                            metadata=self._metadata(source_partition),
                        )
                        for source_partition, offset in moved.items()
                    ]
                    transaction.send_offsets(offsets, self._group_client.consumer_group_metadata())
                for path in files:
                    _send_file(producer, path)
                sent = producer.sent - before
                crash_point("in_commit", self._name)
        except Conflict as error:
            raise PositionsMoved(
                f"another driver has taken over sink '{self._name}'", safe=error.safe, fix=error.fix
            ) from None
        self._held = moved
        return sent

    def _require_unmoved(self, expected: Mapping[SourcePartition, int | None]) -> None:
        """Raise if another driver has moved a position; one that Kafka forgot meanwhile does not count as moved."""
        found = self.positions(expected)
        forgotten = {
            source_partition: at
            for source_partition, at in expected.items()
            if at is not None and source_partition not in found
        }
        require_unmoved(self._name, expected, {**found, **forgotten})

    def close(self) -> None:
        """Close both clients."""
        self._group_client.close()
        if self._producer is not None:
            # Records leave in transactions only: there is nothing to wait for, and a fenced producer cannot.
            with suppress(PenstockError):
                self._producer.close()


def _send_file(producer: Producer, path: Path) -> None:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            for record in batch.to_pylist():
                producer.send(
                    record["topic"],
                    record["value"],
                    key=record["key"],
                    headers=[(each["name"], each["value"]) for each in record["headers"] or ()],
                    partition=record["partition"],
                    timestamp_ms=record["timestamp_ms"],
                )


class OutboxFile:
    """Stages records for an outbox, inside a task."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: Any = None
        self.rows = 0

    def write(self, records: pa.RecordBatch) -> None:
        """Append records; the file appears with the first."""
        if not records.num_rows:
            return
        if self._stream is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = pa.ipc.new_stream(str(self._path), RECORDS)
        self._stream.write_batch(records)
        self.rows += records.num_rows

    def finish(self) -> str | None:
        """Close the file and return its path; None if there was nothing to write."""
        if self._stream is None:
            return None
        self._stream.close()
        return str(self._path)
