"""Redis Pub/Sub: a message reaches only those who are subscribed at that moment.

Guarantees. At most once. Subscribers hear messages in the order in which one sender sent them.

- A consumer dies, or is not there yet: everything sent until it listens (again) is lost.
- A consumer is slow: Redis cuts it off when 32 MB wait for it. What waited is lost, and `receive` raises.
- The server dies: what was on its way is lost. `receive` and `send` raise, and the next call connects again.

There is no group: every subscriber hears everything. There is nothing to acknowledge, and nothing to read again.
Messages carry no key.
"""

import time
from collections.abc import Sequence
from typing import Any

from penstock.transports.address import Address
from penstock.transports.redis_client import ANSWER_S, connect, translated
from penstock.transports.transport import Incoming, Outgoing

_CHUNK = 1000


class RedisPubSub:
    """Publishes to a channel of the topic's name. That Redis took a message does not mean that anybody received it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client = connect(address)

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Return when Redis has passed all of them on to its subscribers, of which there may be none."""
        for start in range(0, len(messages), _CHUNK):
            with translated(self._address, "publishing"), self._client.pipeline(transaction=False) as pipeline:
                for message in messages[start : start + _CHUNK]:
                    pipeline.publish(message.topic, message.value)
                pipeline.execute()

    def subscribe(self, topic: str, group: str) -> "PubSubSubscription":  # noqa: ARG002 - there are no groups
        """Listen from now on; the group has no effect."""
        return PubSubSubscription(self._address, topic)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class PubSubSubscription:
    """A listener. When it is back after an outage, messages sent meanwhile are lost."""

    def __init__(self, address: Address, topic: str) -> None:
        self._address = address
        self._client = connect(address)
        self._channel: Any = self._client.pubsub()
        with translated(address, f"subscribing to '{topic}'"):
            self._channel.subscribe(topic)
            # Redis answers once the subscription holds: from here on nothing is missed.
            self._channel.get_message(timeout=ANSWER_S)

    def receive(self, max_messages: int, timeout_s: float) -> list[Incoming]:
        """Return what was heard since the last call."""
        found: list[Incoming] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < max_messages:
            wait_s = 0.0 if found else min(ANSWER_S / 2, max(0.0, deadline - time.monotonic()))
            with translated(self._address, "listening"):
                heard = self._channel.get_message(ignore_subscribe_messages=False, timeout=wait_s)
            if heard is not None and heard["type"] == "message":
                found.append(Incoming(heard["data"], None, None))
            elif heard is None and (found or time.monotonic() >= deadline):
                break
        return found

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Do nothing: Redis has forgotten them already."""

    def close(self) -> None:
        """Stop listening."""
        self._channel.close()
        self._client.close()
