"""What retention deletes next, counted before Kafka does it."""

import time

from penstock.kafka.producer import Producer
from penstock.kafka.retention import retention_of

from conftest import RunningKafka

DAY_MS = 86_400_000


def test_records_are_counted_by_when_retention_deletes_them(kafka: RunningKafka) -> None:
    keeps_ms, now_ms = 7 * DAY_MS, int(time.time() * 1000)
    topic = kafka.topic("aging", partitions=2, retention="7d")
    ages_ms = {"gone": [8 * DAY_MS] * 3, "tomorrow": [keeps_ms - DAY_MS // 2] * 2, "young": [0] * 4}
    with Producer(kafka.connection) as producer:
        for number, age_ms in enumerate(age for ages in ages_ms.values() for age in ages):
            producer.send(topic, b"x", partition=number % 2, timestamp_ms=now_ms - age_ms)
    found = retention_of(kafka.admin(), topic)

    assert (True, keeps_ms, None) == (found.deletes, found.keeps_ms, found.keeps_bytes)
    assert (3, 2) == (found.due, found.due_within_day)


def test_a_compacted_topic_and_one_that_keeps_all_lose_nothing_to_retention(kafka: RunningKafka) -> None:
    compacted = kafka.topic("compacted", cleanup="compact")
    forever = kafka.topic("forever", retention="forever")
    found = [retention_of(kafka.admin(), each) for each in (compacted, forever)]

    assert [(False, 0), (True, 0)] == [(each.deletes, each.due) for each in found]
    assert found[1].keeps_ms is None
