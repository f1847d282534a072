"""What a server does not take is named in one line, and costs no other message."""

import os
import uuid
from contextlib import closing

import pytest

from penstock.errors import BrokerUnavailable, Conflict, NotFound, OwnershipLost, RecordsRefused, Refused
from penstock.kafka import topics
from penstock.lab.bench.throwaway_rabbitmq import RunningRabbitMQ
from penstock.transports import Outgoing, open_transport
from penstock.transports.kafka import Kafka

from conftest import RunningKafka
from support.endpoints import Endpoint, by_key, collect, each, numbered


def test_messages_for_a_topic_without_a_queue_are_refused_rather_than_lost(rabbitmq: RunningRabbitMQ) -> None:
    topic = f"unread-{uuid.uuid4()}"
    with closing(open_transport(rabbitmq.address)) as transport:
        with pytest.raises(NotFound, match="no group has subscribed"):
            transport.send(numbered(topic, 3))
        with closing(transport.subscribe(topic, "readers")) as subscription:
            transport.send(numbered(topic, 3))

            assert 3 == len(collect(subscription, 3))


def test_a_kafka_topic_that_is_not_there_is_named(kafka: RunningKafka) -> None:
    with closing(Kafka(kafka.connection)) as transport, pytest.raises(NotFound, match="there is no topic 'nowhere'"):
        transport.send([Outgoing("nowhere", b"x")])


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_wrong_password_is_refused_and_not_repeated(
    scheme: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = request.getfixturevalue("redis_server" if scheme == "redis" else "rabbitmq")
    monkeypatch.setenv("WRONG_PASSWORD", "canary-7261")
    user = "" if scheme == "redis" else "penstock@"

    with pytest.raises(Refused) as caught:
        open_transport(f"{scheme}://{user}127.0.0.1:{server.port}?password=env:WRONG_PASSWORD")

    assert "canary-7261" not in repr(caught.value) + str(caught.value)
    assert caught.value.__suppress_context__


def test_a_topic_that_is_something_else_in_rabbitmq_is_a_conflict(rabbitmq: RunningRabbitMQ) -> None:
    topic = f"direct-{uuid.uuid4()}"
    with closing(rabbitmq.connect()) as connection:
        connection.channel().exchange_declare(topic, "direct")
    with closing(open_transport(rabbitmq.address)) as transport:
        for attempt in (lambda: transport.send(numbered(topic, 1)), lambda: transport.subscribe(topic, "readers")):
            with pytest.raises(Conflict, match="PRECONDITION_FAILED"):
                attempt()


@each(["kafka", "rabbitmq"])
def test_messages_that_can_never_be_taken_are_named_and_the_others_arrive_once(endpoint: Endpoint) -> None:
    too_large = Outgoing(
        endpoint.topic, b"x" * (1_100_000 if isinstance(endpoint.server, RunningKafka) else 17 * 2**20)
    )
    messages = numbered(endpoint.topic, 50)
    messages[20:20] = [too_large, too_large]

    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        with pytest.raises(RecordsRefused) as caught:
            endpoint.transport.send(messages)
        endpoint.transport.send([Outgoing(endpoint.topic, b"last:0")])
        found = by_key(collect(subscription, 51))

    assert (20, 21) == caught.value.refused
    assert [*range(50)] == sorted(number for key, numbers in found.items() if key != "last" for number in numbers)


@each(["kafka"])
def test_a_record_that_the_broker_refuses_costs_none_of_its_batch(endpoint: Endpoint) -> None:
    topics.alter_config(endpoint.server.admin(), endpoint.topic, {"max.message.bytes": "2000"})
    messages = [Outgoing(endpoint.topic, f"k:{number}".encode(), "k") for number in range(30)]
    messages[10] = Outgoing(endpoint.topic, os.urandom(5000), "k")

    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        with pytest.raises(RecordsRefused) as caught:
            endpoint.transport.send(messages)
        found = by_key(collect(subscription, 29))

    assert (10,) == caught.value.refused
    assert {"k": [number for number in range(30) if number != 10]} == found


@each(["rabbitmq"])
@pytest.mark.parametrize("key", ["\ud800", "k" * 200_000], ids=["no text", "too long"])
def test_a_key_that_rabbitmq_cannot_take_costs_its_message_alone(endpoint: Endpoint, key: str) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        with pytest.raises(RecordsRefused) as caught:
            endpoint.transport.send([Outgoing(endpoint.topic, b"k:0"), Outgoing(endpoint.topic, b"k:1", key)])
        found = by_key(collect(subscription, 1))

    assert ((1,), {"k": [0]}) == (caught.value.refused, found)


@each(["rabbitmq"])
def test_a_consumer_whose_queue_is_deleted_is_told_and_takes_from_the_new_one(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        endpoint.transport.send([Outgoing(endpoint.topic, b"k:0")])
        (first,) = collect(subscription, 1)
        with closing(endpoint.server.connect()) as connection:
            channel = connection.channel()
            channel.queue_delete(f"{endpoint.topic}.readers")
            channel.queue_declare(f"{endpoint.topic}.readers", durable=True)
            channel.queue_bind(f"{endpoint.topic}.readers", endpoint.topic)
        with pytest.raises(BrokerUnavailable, match="has taken queue"):
            subscription.receive(1, 120.0)
        endpoint.transport.send([Outgoing(endpoint.topic, b"k:1")])
        (second,) = collect(subscription, 1)
        with pytest.raises(OwnershipLost, match="1 messages"):
            subscription.acknowledge([first, second])
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as again:
        left = again.receive(10, 0.5)

    assert (b"k:0", b"k:1") == (first.value, second.value)
    assert [] == left


@each(["streams"])
def test_what_redis_refuses_is_reported_without_the_message(endpoint: Endpoint) -> None:
    with endpoint.server.connect() as client:
        client.set(endpoint.topic, "no stream")

    with pytest.raises(Refused, match="WRONGTYPE") as caught:
        endpoint.transport.send([Outgoing(endpoint.topic, b"canary-7731")])
    assert "canary" not in str(caught.value)
