"""What each transport's docstring promises, against the real server."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
import pytest

from penstock.broker.ports import find_free
from penstock.config.project import LocalCluster
from penstock.errors import BrokerUnavailable, Conflict, NotFound, OwnershipLost, RecordsRefused, Refused, Transient
from penstock.kafka import topics
from penstock.kafka.consumer import ConsumerOptions
from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_rabbitmq import RunningRabbitMQ
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.transports import Incoming, Outgoing, Subscription, Transport, open_transport
from penstock.transports.address import parse
from penstock.transports.kafka import Kafka
from penstock.transports.redis_streams import RedisStreams

from conftest import RunningKafka
from support.waiting import until

_numbers = itertools.count(1)
ALL = ["kafka", "streams", "rabbitmq", "pubsub"]
KEEPING = ["kafka", "streams", "rabbitmq"]


@dataclass(frozen=True)
class Endpoint:
    """A server, the address that leads there, and a topic that no other test uses."""

    transport: Transport
    address: str
    topic: str
    server: Any


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    topic = f"transport-{next(_numbers)}"
    kind = request.param
    address = ""
    if kind == "kafka":
        server = request.getfixturevalue("kafka")
        address = f"kafka://{server.connection.bootstrap_servers}"
        topic = server.topic("transport", partitions=4)
        transport: Transport = Kafka(server.connection, ConsumerOptions(session_timeout_ms=6000))
    elif kind == "rabbitmq":
        server = request.getfixturevalue("rabbitmq")
        address = server.address
        transport = open_transport(address)
    else:
        server = request.getfixturevalue("redis_server")
        address = server.address("redis-pubsub" if kind == "pubsub" else "redis")
        transport = open_transport(address) if kind == "pubsub" else RedisStreams(parse(address), reclaim_after_s=0.2)
    with closing(transport):
        yield Endpoint(transport, address, topic, server)


def each(kinds: list[str]) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("endpoint", kinds, indirect=True)


def numbered(topic: str, count: int) -> list[Outgoing]:
    """Give messages of three keys, each with a number that grows."""
    return [Outgoing(topic, f"k{number % 3}:{number}".encode(), f"k{number % 3}") for number in range(count)]


def collect(subscription: Subscription, count: int, timeout_s: float = 30.0) -> list[Incoming]:
    found: list[Incoming] = []

    def enough() -> bool:
        found.extend(subscription.receive(100, 0.2))
        return len(found) >= count

    until(enough, timeout_s)
    return found


def by_key(messages: list[Incoming]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for message in messages:
        key, _, number = message.value.decode().partition(":")
        found.setdefault(key, []).append(int(number))
    return found


@each(ALL)
def test_every_message_arrives_once_and_in_order_per_key(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        endpoint.transport.send(numbered(endpoint.topic, 1500))

        found = collect(subscription, 1500)

    assert {f"k{key}": list(range(key, 1500, 3)) for key in range(3)} == by_key(found)


@each(KEEPING)
def test_the_key_arrives_and_a_message_without_one_has_none(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        endpoint.transport.send(
            [Outgoing(endpoint.topic, b"\x00\xff", "schlüssel"), Outgoing(endpoint.topic, b"plain")]
        )

        found = collect(subscription, 2)

    assert {(b"\x00\xff", "schlüssel"), (b"plain", None)} == {(message.value, message.key) for message in found}


@each(KEEPING)
def test_what_was_acknowledged_does_not_come_again_and_the_rest_does(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as first:
        endpoint.transport.send(numbered(endpoint.topic, 30))
        done = collect(first, 30)
        first.acknowledge(done)
        endpoint.transport.send([Outgoing(endpoint.topic, f"k0:{number}".encode(), "k0") for number in range(100, 110)])
        assert 10 == len(collect(first, 10))
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as second:
        again = collect(second, 10)
        second.acknowledge(again)

        assert {"k0": list(range(100, 110))} == by_key(again)
        assert [] == second.receive(100, 0.5)


@each(["rabbitmq", "streams"])
def test_messages_are_acknowledged_one_by_one_too(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as first:
        endpoint.transport.send(numbered(endpoint.topic, 5))
        found = collect(first, 5)
        first.acknowledge(found[1:2])
        first.acknowledge(found[3:])
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as second:
        assert [b"k0:0", b"k2:2"] == sorted(message.value for message in collect(second, 2))


@each(KEEPING)
def test_two_groups_each_get_everything(endpoint: Endpoint) -> None:
    with (
        closing(endpoint.transport.subscribe(endpoint.topic, "ones")) as ones,
        closing(endpoint.transport.subscribe(endpoint.topic, "others")) as others,
    ):
        endpoint.transport.send(numbered(endpoint.topic, 60))

        assert by_key(collect(ones, 60)) == by_key(collect(others, 60))


@each(ALL)
def test_an_idle_topic_gives_nothing_within_the_time_allowed(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        assert [] == subscription.receive(10, 0.1)


READER = """
    import sys
    from penstock.transports import open_transport
    from penstock.transports.kafka import Kafka
    from penstock.kafka.connection import Connection
    from penstock.kafka.consumer import ConsumerOptions

    address, topic = sys.argv[1:]
    if address.startswith("kafka"):
        connection = Connection(bootstrap_servers=address.removeprefix("kafka://"))
        transport = Kafka(connection, ConsumerOptions(session_timeout_ms=6000))
    else:
        transport = open_transport(address)
    subscription = transport.subscribe(topic, "readers")
    print("ready", flush=True)
    count = 0
    while count < 20:
        count += len(subscription.receive(20 - count, 1.0))
    print("holding", flush=True)
    sys.stdin.read()
"""


@each(ALL)
def test_a_consumer_killed_before_it_acknowledges_loses_messages_only_with_pubsub(endpoint: Endpoint) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(READER), endpoint.address, endpoint.topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with reader:
        assert reader.stdout is not None
        assert "ready\n" == reader.stdout.readline()
        endpoint.transport.send(numbered(endpoint.topic, 20))
        assert "holding\n" == reader.stdout.readline()
        reader.send_signal(signal.SIGKILL)

    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as second:
        if endpoint.address.startswith("redis-pubsub"):
            endpoint.transport.send([Outgoing(endpoint.topic, b"k9:1")])
            assert [b"k9:1"] == [message.value for message in collect(second, 1)]
            return
        again = collect(second, 20)
        second.acknowledge(again)

    assert {f"k{key}": list(range(key, 20, 3)) for key in range(3)} == by_key(again)


@each(["streams", "rabbitmq"])
def test_what_the_server_accepted_outlives_a_kill_of_it(endpoint: Endpoint) -> None:
    endpoint.transport.subscribe(endpoint.topic, "readers").close()
    endpoint.transport.send(numbered(endpoint.topic, 500))
    endpoint.server.kill()
    try:
        with pytest.raises(BrokerUnavailable):
            endpoint.transport.send(numbered(endpoint.topic, 1))
    finally:
        endpoint.server.start()

    # The same transport connects again by itself.
    endpoint.transport.send([Outgoing(endpoint.topic, b"k9:1")])
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        found = by_key(collect(subscription, 501))

    assert {**{f"k{key}": list(range(key, 500, 3)) for key in range(3)}, "k9": [1]} == found


def test_what_kafka_accepted_outlives_a_kill_of_it(kafka: RunningKafka) -> None:
    topic = kafka.topic("transport", partitions=2)
    with closing(Kafka(kafka.connection)) as transport:
        transport.send(numbered(topic, 500))
        node = kafka.cluster.node(1).process()
        assert node is not None
        node.kill()
        node.wait(30)
        kafka.cluster.up(LocalCluster(port=0))
        transport.send([Outgoing(topic, b"k9:1")])
        with closing(transport.subscribe(topic, "readers")) as subscription:
            found = by_key(collect(subscription, 501))

    assert {**{f"k{key}": list(range(key, 500, 3)) for key in range(3)}, "k9": [1]} == found


def test_a_redis_that_keeps_nothing_loses_everything_when_it_dies(redis_server: RunningRedis) -> None:
    assert redis_server.process_ids, "it is there, or this test is skipped"
    with (
        running(partial(RunningRedis, persistence="none")) as forgetful,
        closing(open_transport(forgetful.address())) as transport,
        closing(transport.subscribe("lost", "readers")) as before,
    ):
        transport.send(numbered("lost", 10))
        forgetful.kill()
        forgetful.start()

        with pytest.raises(NotFound, match="does not have the group any more"):
            before.receive(10, 0.1)
        with closing(transport.subscribe("lost", "readers")) as after:
            assert [] == after.receive(10, 0.1)


@each(["streams", "rabbitmq", "pubsub"])
def test_a_subscription_reports_the_outage_and_goes_on_when_the_server_is_back(endpoint: Endpoint) -> None:
    with closing(endpoint.transport.subscribe(endpoint.topic, "readers")) as subscription:
        endpoint.transport.send(numbered(endpoint.topic, 3))
        held = collect(subscription, 3)
        endpoint.server.kill()
        try:
            with pytest.raises(Transient):
                subscription.receive(10, 5.0)
        finally:
            endpoint.server.start()

        subscription.receive(10, 0.1)
        if endpoint.address.startswith("amqp"):
            with pytest.raises(OwnershipLost):
                subscription.acknowledge(held)
        with closing(open_transport(endpoint.address)) as sender:
            sender.send([Outgoing(endpoint.topic, b"k9:1")])
        until(lambda: b"k9:1" in [message.value for message in subscription.receive(10, 0.2)])


def test_messages_for_a_topic_without_a_queue_are_refused_rather_than_lost(rabbitmq: RunningRabbitMQ) -> None:
    topic = f"unread-{next(_numbers)}"
    with closing(open_transport(rabbitmq.address)) as transport:
        with pytest.raises(NotFound, match="no group has subscribed"):
            transport.send(numbered(topic, 3))
        with closing(transport.subscribe(topic, "readers")) as subscription:
            transport.send(numbered(topic, 3))

            assert 3 == len(collect(subscription, 3))


def test_a_kafka_topic_that_is_not_there_is_named(kafka: RunningKafka) -> None:
    with closing(Kafka(kafka.connection)) as transport, pytest.raises(NotFound, match="there is no topic 'nowhere'"):
        transport.send([Outgoing("nowhere", b"x")])


@pytest.mark.parametrize("scheme", ["kafka", "redis", "redis-pubsub", "amqp"])
def test_a_server_that_is_not_there_is_one_clear_line(scheme: str) -> None:
    (port,) = find_free("127.0.0.1", 1)

    with pytest.raises(BrokerUnavailable) as caught:
        open_transport(f"{scheme}://127.0.0.1:{port}")

    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "\n" not in str(caught.value)


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


def test_throwaway_servers_leave_no_process_behind() -> None:
    with running(RunningRabbitMQ) as server:
        started = server.process_ids
        assert {"epmd", "beam.smp"} <= {psutil.Process(each).name() for each in started}

    alive = [each for each in started if psutil.pid_exists(each)]
    assert [] == [each for each in alive if psutil.Process(each).status() != psutil.STATUS_ZOMBIE]


def test_a_topic_that_is_something_else_in_rabbitmq_is_a_conflict(rabbitmq: RunningRabbitMQ) -> None:
    topic = f"direct-{next(_numbers)}"
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
            subscription.receive(1, 10.0)
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
