"""Transports: the same messages through Kafka, Redis Streams, Redis Pub/Sub or RabbitMQ."""

from penstock.transports.address import open_transport
from penstock.transports.transport import Incoming, Outgoing, Subscription, Transport

__all__ = ["Incoming", "Outgoing", "Subscription", "Transport", "open_transport"]
