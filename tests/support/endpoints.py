"""Transports under test: a topic of the test's own on each kind of server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.transports import Incoming, Outgoing, Subscription, Transport

from support.waiting import until

ALL = ["kafka", "streams", "rabbitmq", "pubsub"]
KEEPING = ["kafka", "streams", "rabbitmq"]


@dataclass(frozen=True)
class Endpoint:
    """A server, the address that leads there, and a topic that no other test uses."""

    transport: Transport
    address: str
    topic: str
    server: Any


def each(kinds: list[str]) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("endpoint", kinds, indirect=True)


def numbered(topic: str, count: int) -> list[Outgoing]:
    """Return messages of three keys, each with a number that grows."""
    return [Outgoing(topic, f"k{number % 3}:{number}".encode(), f"k{number % 3}") for number in range(count)]


def collect(subscription: Subscription, count: int, timeout_s: float = 120.0) -> list[Incoming]:
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
