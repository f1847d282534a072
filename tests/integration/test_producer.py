from typing import Literal

import pytest
from confluent_kafka import KafkaError, Message

from penstock.errors import BadInput, BrokerUnavailable, Conflict, DeliveryFailed, NotFound, PenstockError, QueueFull
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader, read_all

from conftest import RunningKafka

pytestmark = pytest.mark.clients

NOBODY = Connection(bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_sent_with_any_acks_are_in_the_topic(kafka: RunningKafka, acks: Literal["0", "1", "all"]) -> None:
    topic = kafka.topic()

    with Producer(kafka.connection, ProducerOptions(acks=acks)) as producer:
        for number in range(100):
            producer.send(topic, str(number))

    assert [str(number).encode() for number in range(100)] == [m.value() for m in read_all(kafka.connection, topic)]


def test_key_headers_partition_and_timestamp_arrive_byte_for_byte(kafka: RunningKafka) -> None:
    topic = kafka.topic(partitions=3)
    headers: list[tuple[str, bytes | str | None]] = [("trace", b"\x00\xff"), ("trace", "again"), ("none", None)]

    with Producer(kafka.connection) as producer:
        producer.send(topic, b"\x80value", key=b"\x01key", headers=headers, partition=2, timestamp_ms=1_700_000_000_123)
    (message,) = read_all(kafka.connection, topic)

    assert (b"\x80value", b"\x01key", 2) == (message.value(), message.key(), message.partition())
    assert [("trace", b"\x00\xff"), ("trace", b"again"), ("none", None)] == message.headers()
    assert 1_700_000_000_123 == message.timestamp()[1]


def test_a_tombstone_keeps_its_key_and_has_no_value(kafka: RunningKafka) -> None:
    topic = kafka.topic()

    with Producer(kafka.connection) as producer:
        producer.send(topic, None, key="gone")
    (message,) = read_all(kafka.connection, topic)

    assert (b"gone", None) == (message.key(), message.value())


def test_every_record_gets_a_delivery_report_with_its_offset(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    reported: list[int | None] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None
        reported.append(message.offset())

    with Producer(kafka.connection, on_delivery=on_delivery) as producer:
        for number in range(50):
            producer.send(topic, str(number))

    assert list(range(50)) == reported


def test_a_full_queue_pushes_back_and_loses_nothing(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    options = ProducerOptions(queue_max_events=10)

    with Producer(kafka.connection, options) as producer:
        for number in range(500):
            producer.send(topic, str(number))
        producer.send_many(topic, [{"value": str(number)} for number in range(500, 1000)])

    assert [str(number).encode() for number in range(1000)] == [m.value() for m in read_all(kafka.connection, topic)]


def test_a_queue_that_stays_full_raises_instead_of_dropping() -> None:
    producer = Producer(NOBODY, ProducerOptions(queue_max_events=1))
    producer.send("anything", "first")

    with pytest.raises(QueueFull, match="1 records wait"):
        producer.send("anything", "second", timeout_s=0.3)
    assert producer.sent == 1


def test_flush_says_how_many_records_are_not_in_the_topic() -> None:
    producer = Producer(NOBODY, ProducerOptions(delivery_timeout_ms=200))
    for number in range(3):
        producer.send("anything", str(number))

    with pytest.raises(DeliveryFailed, match="3 of 3 records are not acknowledged"):
        producer.flush(timeout_s=10)


def test_a_producer_is_usable_after_a_failure_was_reported(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    producer = Producer(kafka.connection, ProducerOptions(delivery_timeout_ms=2000))
    producer.send("no-such-topic", "lost")
    with pytest.raises(DeliveryFailed):
        producer.flush()

    producer.send(topic, "kept")
    producer.close()

    assert [b"kept"] == [message.value() for message in read_all(kafka.connection, topic)]


def test_an_exception_in_the_block_says_how_many_records_are_unacknowledged() -> None:
    with pytest.raises(KeyError) as caught, Producer(NOBODY, ProducerOptions(delivery_timeout_ms=100)) as producer:
        producer.send("anything", "x")
        raise KeyError

    assert ["1 of 1 records sent before this are not acknowledged"] == caught.value.__notes__


def test_a_transaction_needs_a_transactional_id(kafka: RunningKafka) -> None:
    with Producer(kafka.connection) as producer, pytest.raises(BadInput, match="no transactional_id"):
        producer.transaction().__enter__()


def test_sending_to_an_unknown_topic_fails_and_makes_no_topic(kafka: RunningKafka) -> None:
    producer = Producer(kafka.connection, ProducerOptions(delivery_timeout_ms=5000))
    producer.send("no-such-topic", "x")

    with pytest.raises(DeliveryFailed, match="no-such-topic"):
        producer.flush()
    with pytest.raises(NotFound):
        Reader(kafka.connection, "no-such-topic")


def test_a_record_larger_than_the_broker_takes_is_refused_at_once(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    producer = Producer(kafka.connection)

    with pytest.raises(PenstockError, match="sending to topic"):
        producer.send(topic, b"x" * 2_000_000)


def test_records_with_one_key_keep_their_order_in_one_partition(kafka: RunningKafka) -> None:
    topic = kafka.topic(partitions=4)

    with Producer(kafka.connection) as producer:
        producer.send_many(topic, [{"key": f"key-{n % 7}", "value": str(n)} for n in range(7000)])
    by_key: dict[bytes | None, list[tuple[int | None, int]]] = {}
    for message in read_all(kafka.connection, topic):
        by_key.setdefault(message.key(), []).append((message.partition(), int(message.value() or b"")))

    assert len(by_key) == 7
    for key, seen in by_key.items():
        assert len({partition for partition, _ in seen}) == 1, key
        assert [number for _, number in seen] == sorted(number for _, number in seen)


def test_a_transaction_appears_whole_or_not_at_all(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    producer = Producer(kafka.connection, ProducerOptions(transactional_id="whole-or-not"))

    with producer.transaction() as transaction:
        transaction.send(topic, "committed")
    with pytest.raises(RuntimeError, match="half way"), producer.transaction() as transaction:
        transaction.send(topic, "aborted")
        raise RuntimeError("half way")
    with producer.transaction() as transaction:
        transaction.send(topic, "committed too")
    producer.close()

    assert [b"committed", b"committed too"] == [m.value() for m in read_all(kafka.connection, topic)]


def test_a_newer_producer_with_the_same_transactional_id_fences_the_older(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    options = ProducerOptions(transactional_id="fenced")
    older = Producer(kafka.connection, options)

    with pytest.raises(Conflict, match="newer producer"), older.transaction() as transaction:
        transaction.send(topic, "from the older")
        newer = Producer(kafka.connection, options)
    with newer.transaction() as transaction:
        transaction.send(topic, "from the newer")
    newer.close()

    assert [b"from the newer"] == [m.value() for m in read_all(kafka.connection, topic)]


def test_a_reader_of_a_broker_that_is_down_fails_fast_and_says_where() -> None:
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        Reader(NOBODY, "anything")
