"""The way into Kafka, when the broker goes away between two transactions."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from penstock.delivery import lag
from penstock.delivery import outbox as outboxes
from penstock.delivery.lag import LagReport
from penstock.delivery.outbox import Outbox
from penstock.errors import BrokerUnavailable, Transient
from penstock.kafka import topics, transactions
from penstock.record.positions import SourcePartition

from conftest import RunningKafka
from support.waiting import until

T = TypeVar("T")


def in_the_end(act: Callable[[], T]) -> T:
    """Try as a driver does: again after an outage, such as a leader that is not ready yet after a restart."""
    results: list[T] = []

    def is_done() -> bool:
        try:
            results.append(act())
        except Transient:
            return False
        return True

    until(is_done)
    return results[0]


def stop(process: psutil.Process) -> None:
    """Stop a process, and wait until its last thread has: on a busy machine one may still answer meanwhile."""
    process.suspend()
    states = Path(f"/proc/{process.pid}/task")
    until(lambda: all("State:\tT" in each.read_text() for each in states.glob("*/status")))


def test_a_transaction_that_hangs_after_a_restarted_broker_is_given_up_and_done_again(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_OFFSETS_TIMEOUT_S", 3.0)
    topic = kafka.topic("restarted")
    source_partition = SourcePartition(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    outbox = Outbox(kafka.connection, "out", f"penstock.{topic}")
    outbox.send([], {source_partition: None}, {source_partition: 1})
    kafka.restart()

    known = [{source_partition: 1}]
    in_the_end(
        lambda: outbox.send([], known.pop() if known else outbox.positions([source_partition]), {source_partition: 2})
    )

    assert {source_partition: 2} == outbox.positions([source_partition])
    outbox.close()


def test_a_broker_that_hangs_at_a_commit_and_then_dies_holds_no_position_back(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "_TIMEOUT_S", 1.0)
    topic = kafka.topic("hanging")
    source_partition = SourcePartition(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    outbox, report = Outbox(kafka.connection, "out", f"penstock.{topic}.out"), LagReport(kafka.connection, topic)
    outbox.send([], {source_partition: None}, {source_partition: 1})
    broker = kafka.cluster.node(1).process()
    assert broker is not None

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_END_TIMEOUT_S", 1.0)
        patch.setattr(outboxes, "crash_point", lambda *_: stop(broker))
        with pytest.raises(BrokerUnavailable):
            outbox.send([], {source_partition: 1}, {source_partition: 2})
    reported = report.report({source_partition: 1})
    broker.kill()
    broker.wait(60)
    kafka.start_again()
    found = in_the_end(lambda: outbox.positions([source_partition]))
    in_the_end(lambda: outbox.send([], outbox.positions([source_partition]), {source_partition: 3}))

    assert not reported
    assert found in (
        {source_partition: 1},
        {source_partition: 2},
    )  # the client that hung may have got its commit through in the end
    assert {source_partition: 3} == outbox.positions([source_partition])
    outbox.close()
    report.close()


def test_positions_that_a_hung_producer_holds_back_are_read_after_a_new_one_has_ended_its_transaction(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "_HUNG_TIMEOUT_S", 1.0)
    topic = kafka.topic("held-back")
    source_partition = SourcePartition(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    outbox = Outbox(kafka.connection, "out", f"penstock.{topic}")
    outbox.send([], {source_partition: None}, {source_partition: 1})

    def hang(*_: object) -> None:
        coordination = outbox.take_over()._coordinator
        assert coordination is not None
        coordination.hung = True
        raise BrokerUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(outboxes, "crash_point", hang)
        with pytest.raises(BrokerUnavailable):
            outbox.send([], {source_partition: 1}, {source_partition: 2})

    assert {source_partition: 1} == outbox.positions([source_partition])
    outbox.send([], {source_partition: 1}, {source_partition: 2})
    assert {source_partition: 2} == outbox.positions([source_partition])
    outbox.close()
