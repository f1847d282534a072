"""One admin client that several threads share, as those of a console do."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from penstock.errors import BrokerUnavailable
from penstock.kafka.admin import Admin

from conftest import RunningKafka

pytestmark = pytest.mark.clients


def unanswered() -> "Future[Any]":
    failed: Future[Any] = Future()
    failed.set_exception(KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)))
    return failed


def test_an_answer_comes_though_another_thread_met_an_outage_meanwhile(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.admin._REPLACE_EVERY_S", 0.0)
    topic = kafka.topic(partitions=3)
    admin = Admin(kafka.connection, timeout_s=5)
    asked = admin.client.describe_topics(TopicCollection([topic]))[topic]

    first = admin.client
    with pytest.raises(BrokerUnavailable):
        admin.result(unanswered(), "what the other thread does")

    assert first is not admin.client
    del first
    assert 3 == len(admin.result(asked, "describing").partitions)
