"""The way into Kafka, when the broker goes away between two transactions."""

import pytest

from penstock.config.project import LocalCluster
from penstock.delivery import lag
from penstock.delivery import outbox as outboxes
from penstock.delivery.lag import LagReport
from penstock.delivery.outbox import Outbox
from penstock.errors import BrokerUnavailable
from penstock.kafka import topics, transactions
from penstock.record.positions import Place

from conftest import RunningKafka


def test_a_transaction_that_hangs_after_a_restarted_broker_is_given_up_and_done_again(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_OFFSETS_TIMEOUT_S", 3.0)
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


def test_a_broker_that_hangs_at_a_commit_and_then_dies_holds_no_position_back(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_END_TIMEOUT_S", 1.0)
    monkeypatch.setattr(lag, "_TIMEOUT_S", 1.0)
    topic = kafka.topic("hanging")
    place = Place(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    outbox, report = Outbox(kafka.connection, "out", f"penstock.{topic}.out"), LagReport(kafka.connection, topic)
    outbox.send([], {place: None}, {place: 1})
    broker = kafka.cluster.node(1).process()
    assert broker is not None

    with monkeypatch.context() as patch:
        patch.setattr(outboxes, "crash_point", lambda *_: broker.suspend())
        with pytest.raises(BrokerUnavailable):
            outbox.send([], {place: 1}, {place: 2})
    told = report.tell({place: 1})
    broker.kill()
    broker.wait(30)
    kafka.cluster.up(LocalCluster())
    monkeypatch.setattr(transactions, "_END_TIMEOUT_S", 60.0)
    found = outbox.positions([place])
    outbox.send([], found, {place: 3})

    assert not told
    assert found in ({place: 1}, {place: 2})  # the client that hung may have got its commit through in the end
    assert {place: 3} == outbox.positions([place])
    outbox.close()
    report.close()


def test_positions_that_a_hung_producer_holds_back_are_read_after_a_new_one_has_ended_its_transaction(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "_HUNG_TIMEOUT_S", 1.0)
    topic = kafka.topic("held-back")
    place = Place(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    outbox = Outbox(kafka.connection, "out", f"penstock.{topic}")
    outbox.send([], {place: None}, {place: 1})

    def hang(*_: object) -> None:
        coordination = outbox.take_over()._coordination
        assert coordination is not None
        coordination.hung = True
        raise BrokerUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(outboxes, "crash_point", hang)
        with pytest.raises(BrokerUnavailable):
            outbox.send([], {place: 1}, {place: 2})

    assert {place: 1} == outbox.positions([place])
    outbox.send([], {place: 1}, {place: 2})
    assert {place: 2} == outbox.positions([place])
    outbox.close()
