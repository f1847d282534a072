"""From librdkafka's errors to ours: which are waited out, and which end the work."""

import pytest
from confluent_kafka import KafkaError

from penstock.errors import BrokerUnavailable, NotFound, PenstockError, Refused, Settling
from penstock.kafka.connection import Connection
from penstock.kafka.failures import translate


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(KafkaError._NOENT, Settling, id="a new partition that has no leader yet"),
        pytest.param(KafkaError.NOT_LEADER_FOR_PARTITION, Settling, id="a leader that has just changed"),
        pytest.param(KafkaError.FENCED_LEADER_EPOCH, Settling, id="a leader that is no more"),
        pytest.param(KafkaError._ALL_BROKERS_DOWN, BrokerUnavailable, id="nobody there"),
        pytest.param(KafkaError.UNKNOWN_TOPIC_OR_PART, NotFound, id="no such topic"),
        pytest.param(KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused, id="no permission"),
    ],
)
def test_an_error_says_by_its_kind_whether_to_try_again(code: int, expected: type[PenstockError]) -> None:
    found = translate(KafkaError(code), Connection(bootstrap_servers="127.0.0.1:1"), "looking")

    assert expected is type(found)
    assert "looking" in str(found)
