from typing import Any

import pytest
from pydantic import ValidationError

from penstock.kafka.producer import ProducerOptions


def made(**options: Any) -> dict[str, Any]:
    return ProducerOptions(**options).librdkafka()


def test_the_defaults_lose_nothing_and_double_nothing() -> None:
    expected = {
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": "lz4",
        "linger.ms": 5,
        "queue.buffering.max.messages": 100_000,
        "queue.buffering.max.kbytes": 262_144,
        "delivery.timeout.ms": 120_000,
        "topic.metadata.propagation.max.ms": 10_000,  # how long a topic that is not there is hoped for
    }

    actual = made()

    assert expected.items() <= actual.items()
    assert "transactional.id" not in actual


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"acks": "all"}, True, id="all"),
        pytest.param({"acks": "all", "idempotent": False}, False, id="all, turned off"),
        pytest.param({"acks": "1"}, False, id="1"),
        pytest.param({"acks": "0"}, False, id="0"),
        pytest.param({"acks": "1", "idempotent": False}, False, id="1, turned off"),
        pytest.param({"transactional_id": "orders"}, True, id="transactional"),
    ],
)
def test_idempotence_follows_acks_unless_said_otherwise(options: dict[str, Any], *, expected: bool) -> None:
    assert expected == made(**options)["enable.idempotence"]


@pytest.mark.parametrize("acks", ["0", "1"])
def test_idempotent_with_fewer_acks_is_refused(acks: str) -> None:
    with pytest.raises(ValidationError, match=f"idempotent needs acks 'all', not '{acks}'"):
        made(acks=acks, idempotent=True)


@pytest.mark.parametrize(
    "options", [{"acks": "1"}, {"acks": "0"}, {"idempotent": False}], ids=["acks 1", "acks 0", "not idempotent"]
)
def test_transactions_without_idempotence_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="transactions need acks 'all' and idempotent"):
        made(transactional_id="orders", **options)


def test_a_transactional_id_reaches_the_client() -> None:
    assert "orders" == made(transactional_id="orders")["transactional.id"]


def test_every_option_reaches_the_client() -> None:
    expected = {
        "acks": "1",
        "compression.type": "zstd",
        "linger.ms": 0,
        "queue.buffering.max.messages": 10,
        "queue.buffering.max.kbytes": 1024,
        "delivery.timeout.ms": 500,
    }

    actual = made(
        acks="1",
        compression="zstd",
        linger_ms=0,
        queue_max_events=10,
        queue_max_bytes=2**20,
        delivery_timeout_ms=500,
    )

    assert expected.items() <= actual.items()


@pytest.mark.parametrize(
    "wrong",
    [
        {"acks": "2"},
        {"acks": 1},
        {"compression": "rar"},
        {"linger_ms": -1},
        {"queue_max_events": 0},
        {"queue_max_bytes": 1000},
        {"delivery_timeout_ms": 0},
        {"transactional_id": ""},
        {"retries": 0},
    ],
    ids=str,
)
def test_what_no_producer_can_do_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        made(**wrong)

    assert [tuple(wrong)] == [each["loc"] for each in caught.value.errors()]
