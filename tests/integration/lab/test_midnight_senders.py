"""The senders of the scenario `midnight`, on a shared Kafka: all that is due is sent, each way, once."""

from collections import Counter
from pathlib import Path

from penstock.kafka.reader import Reader
from penstock.lab.bench.throwaway_gateway import gateway
from penstock.lab.scenarios.midnight.day import DayClock, events_of_day
from penstock.lab.scenarios.midnight.senders import Senders

from conftest import RunningKafka


def test_a_day_is_in_the_topic_once_whichever_way_it_was_sent(kafka: RunningKafka, tmp_path: Path) -> None:
    topic, day, clock = kafka.topic("midnight", partitions=2), events_of_day(200, seed=5), DayClock(seconds=2)
    with gateway(kafka.connection, tmp_path, topic) as (address, _):
        clock.begin()
        senders = Senders(kafka.connection, address, topic, day, clock)
        ways = senders.finish()
        senders.stop()

    with Reader(kafka.connection, topic) as reader:
        found = Counter(bytes(each.value() or b"") for each in reader)
    assert Counter(each.value for each in day) == found
    assert [("Kafka", 0), ("HTTP", 0)] == [(way.way, way.refused) for way in ways]
    assert [len(day) - sum(each.by_http for each in day), sum(each.by_http for each in day)] == [
        way.events for way in ways
    ]


def test_what_a_gateway_refuses_is_counted_and_ends_nobody(kafka: RunningKafka, tmp_path: Path) -> None:
    topic, day, clock = kafka.topic("midnight", partitions=1), events_of_day(200, seed=6), DayClock(seconds=1)
    with gateway(kafka.connection, tmp_path, topic) as (address, _):
        pass
    clock.begin()
    senders = Senders(kafka.connection, address, topic, day, clock)
    kafka_way, http_way = senders.finish()
    senders.stop()

    assert (0, True) == (http_way.events, http_way.refused == http_way.calls > 0)
    assert (len(day) - sum(each.by_http for each in day), 0) == (kafka_way.events, kafka_way.refused)
