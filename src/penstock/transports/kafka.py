"""Kafka: a log that groups read at their own pace.

Guarantees. A message that was sent without an error is in the topic, on every replica that Kafka counts. Messages of
one key are in one partition, in order.

- A consumer dies: what it had not acknowledged is delivered again, to another member, after the session timeout (45 s).
- The server dies: nothing that was accepted is lost while a replica is left. What was being sent when it died is
  waited for, 30 s; after that it may be there or not, and sending it again may double it.

A position moves per partition: acknowledging a message acknowledges all before it in its partition. Any group can read
from the beginning again for as long as the topic keeps its records.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, Message, TopicPartition

from penstock.errors import BadInput, BrokerUnavailable, DeliveryFailed, PenstockError, RecordsRefused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.consumer import Consumer, ConsumerOptions
from penstock.kafka.failures import translate
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.transports.transport import Incoming, Outgoing

_DELIVERY_TIMEOUT_S = 30
# librdkafka alone decides that a record has failed; asking it for a little longer leaves none undecided.
_FLUSH_TIMEOUT_S = _DELIVERY_TIMEOUT_S + 10
_UNDECIDED = {
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - librdkafka's own names
    KafkaError._PURGE_QUEUE,  # noqa: SLF001
    KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
}
# A broker that is back should be noticed soon; librdkafka would wait for up to 10 s.
_RECONNECTING: dict[str, str | int | bool] = {"reconnect.backoff.max.ms": 1000}


class Kafka:
    """Sends with acks `all` and idempotence; the group's position moves when messages are acknowledged."""

    def __init__(self, connection: Connection, consumer_options: ConsumerOptions | None = None) -> None:
        patient = {**_RECONNECTING, **connection.client_settings}
        self._connection = connection.model_copy(update={"client_settings": patient})
        self._consumer_options = consumer_options
        self._admin = Admin(self._connection)
        self._admin.metadata("connecting")
        self._known: set[str] = set()
        self._producer: Producer | None = None
        self._failed: list[tuple[KafkaError, Message]] = []

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Return when every message is acknowledged; a topic that is not there raises `NotFound`."""
        refusals = self._send(messages)
        if refusals:
            raise RecordsRefused(next(iter(refusals.values())).what, refused=sorted(refusals))

    def _send(self, messages: Sequence[Outgoing]) -> dict[int, BadInput]:
        """Send what can be sent, and return why the others cannot, by their number."""
        by_topic: dict[str, list[int]] = {}
        for number, message in enumerate(messages):
            by_topic.setdefault(message.topic, []).append(number)
        for topic in by_topic.keys() - self._known:
            # librdkafka would look for it for half a minute, and then give no reason.
            topics.partition_count(self._admin, topic)
            self._known.add(topic)
        producer = self._producer = self._producer or self._open()
        self._failed.clear()
        refusals: dict[int, BadInput] = {}
        try:
            for topic, numbers in by_topic.items():
                records = [{"value": messages[number].value, "key": messages[number].key} for number in numbers]
                try:
                    producer.send_many(topic, records)
                except RecordsRefused as refusal:
                    refusals |= {numbers[each]: refusal for each in refusal.refused}
            producer.flush(_FLUSH_TIMEOUT_S)
        except DeliveryFailed as failure:
            self._discard()
            explained = self._explained(failure, next(iter(by_topic)))
            if not isinstance(explained, BadInput):
                raise explained from None
            if len(messages) == 1:
                return {0: explained}
            return refusals | self._send_alone(messages, refusals)
        except PenstockError:
            self._discard()
            raise
        return refusals

    def _send_alone(self, messages: Sequence[Outgoing], refusals: Mapping[int, BadInput]) -> dict[int, BadInput]:
        """Send again what was not acknowledged, one by one: Kafka refuses a whole batch for one record in it."""
        failed = Counter((each.topic(), each.key(), each.value() or b"") for _, each in self._failed)
        found: dict[int, BadInput] = {}
        for number, message in enumerate(messages):
            it = (message.topic, message.key.encode() if message.key is not None else None, message.value)
            if number not in refusals and failed[it] > 0:
                failed[it] -= 1
                for refusal in self._send([message]).values():
                    found[number] = refusal
        return found

    def _open(self) -> Producer:
        options = ProducerOptions(delivery_timeout_ms=_DELIVERY_TIMEOUT_S * 1000)
        return Producer(self._connection, options, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append((error, message))

    def _explained(self, failure: DeliveryFailed, topic: str) -> PenstockError:
        if not self._failed or any(error.code() in _UNDECIDED for error, _ in self._failed):
            return BrokerUnavailable(failure.what, safe="They may be in the topic or not", fix="Send them again")
        return translate(self._failed[0][0], self._connection, f"sending to topic '{topic}'")

    def _discard(self) -> None:
        """Forget a producer that failed, and the topics: they may have been recreated."""
        producer, self._producer = self._producer, None
        self._known.clear()
        if producer is not None:
            try:
                producer.close()
            except PenstockError:
                return

    def subscribe(self, topic: str, group: str) -> "KafkaSubscription":
        """Join the group; a new one begins with the oldest record."""
        return KafkaSubscription(Consumer(self._connection, [topic], group, self._consumer_options))

    def close(self) -> None:
        """Close the producer; `send` has waited for everything already."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None


class KafkaSubscription:
    """A member of a consumer group, which owns some of the partitions."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def receive(self, max_messages: int, timeout_s: float) -> list[Incoming]:
        """Return what is there; an outage of Kafka looks like silence, and passes."""
        found = self._next(max_messages, 0.0)
        if not found and timeout_s > 0:
            # librdkafka waits until it has as many as were asked for: one is enough to wait for.
            found = self._next(1, timeout_s)
            if found and max_messages > 1:
                found += self._next(max_messages - 1, 0.0)
        return [_incoming(message) for message in found]

    def _next(self, max_messages: int, timeout_s: float) -> list[Message]:
        batches = self._consumer.batches(max_events=max_messages, max_wait_s=timeout_s, idle_s=timeout_s)
        batch = next(batches, None)
        return batch.messages if batch is not None else []

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Move the group's position behind these, durably; raises `OwnershipLost` after a rebalance."""
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            topic, partition, offset = message.receipt
            ends[topic, partition] = max(offset + 1, ends.get((topic, partition), 0))
        if ends:
            self._consumer.commit([TopicPartition(*partition, offset) for partition, offset in ends.items()])

    def close(self) -> None:
        """Leave the group, so that the others take over at once."""
        self._consumer.close()


def _incoming(message: Message) -> Incoming:
    key, value = message.key(), message.value()
    text = key.decode(errors="replace") if isinstance(key, bytes) else key
    body = value.encode() if isinstance(value, str) else value or b""
    return Incoming(body, text, (str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)))
