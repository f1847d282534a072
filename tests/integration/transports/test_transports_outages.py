"""Killed consumers and killed servers: what was accepted and what was not acknowledged is there afterwards."""

import signal
import subprocess
import sys
import textwrap
import uuid
from contextlib import closing
from functools import partial

import psutil
import pytest

from penstock.broker.ports import find_free
from penstock.errors import BrokerUnavailable, NotFound, OwnershipLost, Transient
from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_rabbitmq import RunningRabbitMQ
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.transports import Outgoing, open_transport
from penstock.transports.kafka import Kafka

from conftest import RunningKafka
from support.endpoints import ALL, Endpoint, by_key, collect, each, numbered
from support.waiting import until

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


def test_a_groups_queue_is_decided_on_disk_when_subscribe_returns(rabbitmq: RunningRabbitMQ) -> None:
    logs = list(rabbitmq.data.glob("*/LATEST.LOG"))
    if not logs:
        pytest.skip("this RabbitMQ keeps what it decides elsewhere than in Mnesia")
    decided = b""

    def is_in_the_log() -> bool:
        """Subscribe a group, and find its binding on disk, unless Mnesia has just emptied its log into the tables."""
        nonlocal decided
        topic = f"decided-{uuid.uuid4()}"
        with closing(open_transport(rabbitmq.address)) as transport, closing(transport.subscribe(topic, "readers")):
            _, _, of_queue = logs[0].read_bytes().partition(f"{topic}.readers".encode())
        _, binding, decided = of_queue.partition(b"rabbit_durable_route")
        return bool(binding)

    until(is_in_the_log)

    # What is not decided when the server dies is taken back. Another change is behind it, so the decision is there.
    assert b"presume_abort" in decided
    assert b"committed" in decided


def test_what_kafka_accepted_outlives_a_kill_of_it(kafka: RunningKafka) -> None:
    topic = kafka.topic("transport", partitions=2)
    with closing(Kafka(kafka.connection)) as transport:
        transport.send(numbered(topic, 500))
        node = kafka.cluster.node(1).process()
        assert node is not None
        node.kill()
        node.wait(60)
        kafka.start_again()
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

        with pytest.raises(NotFound, match="no longer has the group"):
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
                subscription.receive(10, 120.0)
        finally:
            endpoint.server.start()

        subscription.receive(10, 0.1)
        if endpoint.address.startswith("amqp"):
            with pytest.raises(OwnershipLost):
                subscription.acknowledge(held)
        with closing(open_transport(endpoint.address)) as sender:
            sender.send([Outgoing(endpoint.topic, b"k9:1")])
        until(lambda: b"k9:1" in [message.value for message in subscription.receive(10, 0.2)])


@pytest.mark.parametrize("scheme", ["kafka", "redis", "redis-pubsub", "amqp"])
def test_a_server_that_is_not_there_is_one_clear_line(scheme: str) -> None:
    (port,) = find_free("127.0.0.1", 1)

    with pytest.raises(BrokerUnavailable) as caught:
        open_transport(f"{scheme}://127.0.0.1:{port}")

    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_throwaway_servers_leave_no_process_behind() -> None:
    with running(RunningRabbitMQ) as server:
        started = [psutil.Process(each) for each in server.process_ids]
        assert {"epmd", "beam.smp"} <= {each.name() for each in started}

    assert [] == [each for each in started if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
