"""How transactions are opened, as far as that can be told without a broker."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.kafka.connection import Connection
from penstock.kafka.failures import Causes
from penstock.kafka.transactions import CoordinatorClient


class Client:
    """Writes down what it is asked for."""

    def __init__(self, *, answers: bool) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def cluster_id(self, _timeout: float) -> str:
        self.asked.append("cluster_id")
        if not self._answers:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return "one"

    def init_transactions(self, _timeout: float) -> None:
        self.asked.append("init_transactions")


@pytest.mark.parametrize("client", [Client(answers=True), Client(answers=False)], ids=["an answer", "none"])
def test_transactions_are_opened_once_a_broker_has_answered_or_none_does(client: Any) -> None:
    connection = Connection(bootstrap_servers="localhost:1")

    coordination = CoordinatorClient(client, connection, Causes(connection))

    assert ["cluster_id", "init_transactions"] == client.asked
    assert not coordination.hung
