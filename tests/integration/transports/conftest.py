"""A topic of its own for each test of a transport, on the server of that kind."""

import itertools
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.kafka.consumer import ConsumerOptions
from penstock.transports import Transport, open_transport
from penstock.transports.address import parse
from penstock.transports.kafka import Kafka
from penstock.transports.redis_streams import RedisStreams

from support.endpoints import Endpoint

_numbers = itertools.count(1)


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
