import gc
import signal
import time
from contextlib import suppress
from typing import Literal

import pytest
from confluent_kafka import KafkaError, Message

from penstock.errors import BadInput, BrokerUnavailable, Conflict, DeliveryFailed, NotFound, PenstockError, QueueFull
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader, read_all

from conftest import RunningKafka
from support.waiting import until

pytestmark = pytest.mark.clients

NOBODY = Connection(bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_sent_with_any_acks_are_in_the_topic(kafka: RunningKafka, acks: Literal["0", "1", "all"]) -> None:
    topic = kafka.topic()

    with Producer(kafka.connection, ProducerOptions(acks=acks)) as producer:
        for number in range(100):
            producer.send(topic, str(number))
    if acks == "0":
        # Nobody has said that they are there: only here a read may come too early.
        until(lambda: 100 == len(read_all(kafka.connection, topic)))

    assert [str(number).encode() for number in range(100)] == [m.value() for m in read_all(kafka.connection, topic)]


def test_key_headers_partition_and_timestamp_arrive_byte_for_byte(kafka: RunningKafka) -> None:
    topic = kafka.topic(partitions=3, retention="forever")
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


def test_a_record_that_is_too_large_costs_no_other_of_its_call(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    records: list[dict[str, object]] = [{"value": str(number)} for number in range(200)]
    records[20] = {"value": b"x" * 2_000_000}

    producer = Producer(kafka.connection, ProducerOptions(queue_max_events=50))
    with pytest.raises(PenstockError, match="The other 199 records of the call were taken"):
        producer.send_many(topic, records)
    producer.close()

    expected = [str(number).encode() for number in range(200) if number != 20]
    assert expected == [message.value() for message in read_all(kafka.connection, topic)]
    assert 199 == producer.sent


def test_a_queue_that_stays_full_says_which_records_of_a_call_were_not_taken() -> None:
    producer = Producer(NOBODY, ProducerOptions(queue_max_events=2))

    with pytest.raises(QueueFull, match="the last 3 records of this call were not taken"):
        producer.send_many("anything", [{"value": str(number)} for number in range(5)], timeout_s=0.3)
    assert 2 == producer.sent


def test_a_queue_that_stays_full_raises_instead_of_dropping() -> None:
    producer = Producer(NOBODY, ProducerOptions(queue_max_events=1))
    producer.send("anything", "first")

    with pytest.raises(QueueFull, match="1 record waiting"):
        producer.send("anything", "second", timeout_s=0.3)
    assert producer.sent == 1


def test_flush_says_how_many_records_are_not_in_the_topic() -> None:
    producer = Producer(NOBODY, ProducerOptions(delivery_timeout_ms=200))
    for number in range(3):
        producer.send("anything", str(number))

    with pytest.raises(DeliveryFailed, match="3 of 3 records not acknowledged"):
        producer.flush(timeout_s=60)


def test_what_was_acknowledged_does_not_count_as_missing(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    heard: list[int | None] = []

    def on_delivery(_error: KafkaError | None, message: Message) -> None:
        heard.append(message.offset())
        time.sleep(0.1)  # a user's callback takes its time; the records have been in the topic for long

    producer = Producer(kafka.connection, on_delivery=on_delivery)
    producer.send_many(topic, [{"value": str(number)} for number in range(30)])
    until(lambda: 30 == len(read_all(kafka.connection, topic)))
    producer.send("no-such-topic", "missing")

    with pytest.raises(DeliveryFailed, match="1 of 31 records not acknowledged"):
        producer.flush(timeout_s=1.0)


def test_what_was_reported_once_and_sent_again_is_not_reported_again() -> None:
    producer = Producer(NOBODY, ProducerOptions(delivery_timeout_ms=200))
    for count in (3, 2):
        for number in range(count):
            producer.send("anything", str(number))

        with pytest.raises(DeliveryFailed, match=f"{count} of {count} records not acknowledged"):
            producer.flush(timeout_s=60)
    assert (5, 5) == (producer.sent, producer.failed)


def test_a_transaction_is_given_up_in_seconds_when_the_broker_is_gone(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    producer = Producer(kafka.connection, ProducerOptions(transactional_id="given-up"))
    node = kafka.cluster.node(1).process()
    assert node is not None
    try:
        with pytest.raises(KeyboardInterrupt) as caught, producer, producer.transaction() as transaction:
            transaction.send(topic, "x")
            producer.flush()
            node.kill()
            node.wait(60)
            begun = time.monotonic()
            raise KeyboardInterrupt
        took_s = time.monotonic() - begun
    finally:
        kafka.start_again()
    with Producer(kafka.connection, ProducerOptions(transactional_id="given-up")):
        left = read_all(kafka.connection, topic)

    assert (True, []) == (producer.hung, left)
    assert took_s < 55  # its transaction would be waited for for a minute
    assert "aborting a transaction: no answer" in caught.value.__notes__[0]


def test_leaving_the_block_by_an_exception_waits_five_seconds_for_a_broker_that_is_down() -> None:
    begun = time.monotonic()

    with pytest.raises(KeyError), Producer(NOBODY) as producer:
        producer.send("anything", "x")
        raise KeyError

    assert time.monotonic() - begun < 100  # two minutes is what a record has by itself


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

    assert ["1 of 1 record sent before this not acknowledged"] == caught.value.__notes__


def test_a_transaction_needs_a_transactional_id(kafka: RunningKafka) -> None:
    with Producer(kafka.connection) as producer, pytest.raises(BadInput, match="no transactional_id"):
        producer.transaction().__enter__()


def test_sending_to_an_unknown_topic_fails_with_the_nearest_name_and_makes_no_topic(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    wrong = topic.replace("topic", "topci")
    producer = Producer(kafka.connection)
    producer.send(wrong, "x")

    with pytest.raises(DeliveryFailed, match=f"there is no topic '{wrong}'. Did you mean '{topic}'"):
        producer.flush()
    with pytest.raises(NotFound):
        Reader(kafka.connection, wrong)


def test_whoever_waits_for_a_kafka_that_is_not_there_is_told_so_once(caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer(NOBODY, ProducerOptions(delivery_timeout_ms=7000))
    producer.send("anything", "x")

    with pytest.raises(DeliveryFailed, match=r"1 of 1 record not acknowledged: .*Send it again"):
        producer.flush(timeout_s=60)

    (told,) = [each.getMessage() for each in caplog.records if each.name == "penstock.producer"]
    assert "no Kafka answers at" in told
    assert ". Waiting for it, for up to " in told


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


class _TimeIsUp(Exception):
    """What a signal handler of a user's program raises."""


def test_a_signal_that_raises_during_the_commit_does_not_hide_that_it_has_happened(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    producer = Producer(kafka.connection, ProducerOptions(transactional_id="signalled"))

    def raise_it(_number: int, _frame: object) -> None:
        raise _TimeIsUp

    # What is raised while garbage of other tests is collected is lost, and would be held against this one.
    gc.collect()
    gc.disable()
    before = signal.signal(signal.SIGALRM, raise_it)
    told = 0
    try:
        for number in range(40):
            sent = producer.sent
            with suppress(_TimeIsUp):
                with producer.transaction() as transaction:
                    transaction.send(topic, str(number))
                    producer.flush()
                    signal.setitimer(signal.ITIMER_REAL, 0.0001 * (1 + number % 20))
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert transaction.committed == (producer.sent > sent)
            told += transaction.committed
    finally:
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    producer.close()

    assert told == len(read_all(kafka.connection, topic))


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


def test_a_producer_that_is_fenced_while_it_sends_hears_it_from_send_now_and_ever_after(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    options = ProducerOptions(transactional_id="fenced-while-sending")
    older = Producer(kafka.connection, options)

    with pytest.raises(Conflict, match="newer producer"), older.transaction() as transaction:
        newer = Producer(kafka.connection, options)
        until(lambda: bool(transaction.send(topic, "from the older")))
    with pytest.raises(Conflict, match="newer producer"):
        older.send(topic, "once more")
    with pytest.raises(Conflict, match="newer producer"):
        older.send_many(topic, [{"value": "many more"}])
    newer.close()

    assert [] == read_all(kafka.connection, topic)


def test_a_reader_of_a_broker_that_is_down_fails_fast_and_says_where() -> None:
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        Reader(NOBODY, "anything")


def test_a_bounded_read_ends_where_a_transaction_is_open_instead_of_waiting_for_it(kafka: RunningKafka) -> None:
    topic = kafka.topic()
    with Producer(kafka.connection) as plain:
        plain.send(topic, "before")
    writer = Producer(kafka.connection, ProducerOptions(transactional_id="open", transaction_timeout_ms=120_000))

    with writer.transaction() as transaction:
        transaction.send(topic, "inside")
        writer.flush()
        with Producer(kafka.connection) as plain:
            plain.send(topic, "behind")
        during = [message.value() for message in read_all(kafka.connection, topic)]
    with Reader(kafka.connection, topic, wait_for_open_transactions=True) as reader:
        after = [message.value() for message in reader]
    writer.close()

    assert [b"before"] == during
    assert [b"before", b"inside", b"behind"] == after
