"""While Kafka is away, nobody waits behind others for an answer that does not come."""

import asyncio
import time

import pytest

from penstock.kafka.connection import Connection
from penstock.lineage.gateway.refusal import Refusal
from penstock.lineage.gateway.topics import Topics


def test_requests_for_an_unknown_topic_are_refused_together_while_kafka_is_away() -> None:
    async def ask() -> list[object]:
        topics = Topics(Connection(bootstrap_servers="127.0.0.1:1"), "input.runs", "connect", timeout_s=1.0)
        return await asyncio.gather(
            *(topics.limits(f"orders-{each % 3}") for each in range(30)), return_exceptions=True
        )

    began = time.monotonic()
    answers = asyncio.run(ask())

    assert [503] * 30 == [answer.status for answer in answers if isinstance(answer, Refusal)]
    assert time.monotonic() - began < 25  # one after the other they would take half a minute


@pytest.mark.parametrize("topic", ["penstock.dead-ledger", "orders.dead", "connect-configs", "etl-configs", "_schemas"])
def test_nothing_is_taken_for_topics_whose_records_are_commands(topic: str) -> None:
    async def ask() -> None:
        await Topics(Connection(bootstrap_servers="127.0.0.1:1"), "input.runs", "etl", timeout_s=1.0).limits(topic)

    with pytest.raises(Refusal) as refused:
        asyncio.run(ask())

    assert 403 == refused.value.status
