"""How every sender and reader of the bench connects: the transports as they are, but dead readers are missed soon."""

from penstock.transports import Transport, open_transport
from penstock.transports.address import parse

TAKEOVER_S = 6
"""After this long a silent reader counts as dead, where the server waits at all; Kafka allows no less."""


def connect(address: str) -> Transport:
    """Connect. Only the client that is needed is imported, so that a reader's process starts quickly."""
    known = parse(address)
    if known.scheme == "kafka":
        from penstock.kafka.connection import Connection
        from penstock.kafka.consumer import ConsumerOptions
        from penstock.transports.kafka import Kafka

        servers = Connection(bootstrap_servers=f"{known.host}:{known.port}")
        return Kafka(servers, ConsumerOptions(session_timeout_ms=TAKEOVER_S * 1000))
    if known.scheme == "redis":
        from penstock.transports.redis_streams import RedisStreams

        return RedisStreams(known, reclaim_after_s=TAKEOVER_S)
    return open_transport(address)
