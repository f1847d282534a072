"""The way into Kafka, when the broker goes away between two transactions."""

import pytest

from penstock.delivery.outbox import Outbox
from penstock.delivery.positions import Place
from penstock.errors import BrokerUnavailable
from penstock.kafka import producer, topics

from conftest import RunningKafka


def test_a_transaction_that_hangs_after_a_restarted_broker_is_given_up_and_done_again(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "_OFFSETS_TIMEOUT_S", 3.0)
    topic = kafka.topic("restarted")
    place = Place(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    outbox = Outbox(kafka.connection, "out", f"penstock.{topic}")
    outbox.send([], {place: None}, {place: 1})
    kafka.cluster.restart()

    try:
        outbox.send([], {place: 1}, {place: 2})
    except BrokerUnavailable:  # a librdkafka that does not hang is welcome
        outbox.send([], outbox.positions([place]), {place: 2})

    assert {place: 2} == outbox.positions([place])
    outbox.close()
