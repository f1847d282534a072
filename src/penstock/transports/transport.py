"""The contract of transports: send messages to a topic, and deliver them to the members of a group.

One interface for servers that promise different things. Each transport's docstring says what is lost when a consumer
dies and when the server dies; none promises more than its server does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send. Messages of one key keep their order."""

    topic: str
    value: bytes
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message that arrived. `receipt` is what its server needs to acknowledge it."""

    value: bytes
    key: str | None
    receipt: Any


class Subscription(Protocol):
    """One member of a group. Not thread-safe."""

    def receive(self, max_messages: int, timeout_s: float) -> list[Incoming]:
        """Return what is there as soon as something is, at most `max_messages`; nothing after `timeout_s`.

        Raises `Transient` when the server does not answer. The next call connects again.
        """

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Confirm that these were handled, so that they do not come again.

        Raises `OwnershipLost` for messages that the server has taken back already: they come again.
        """

    def close(self) -> None:
        """Leave the group. What was not acknowledged is delivered again, where the server can."""


class Transport(Protocol):
    """A connection to a server. Not thread-safe."""

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Return when the server has accepted all of them, as far as this transport can know.

        Raises `Transient` when it is not sure: send them again, and some may arrive twice. Raises `RecordsRefused` when
        the server can never take some of them: it has accepted all the others.
        """

    def subscribe(self, topic: str, group: str) -> Subscription:
        """Join a group. A new group begins with the oldest message that the server still has for it."""

    def close(self) -> None:
        """Close the connection; subscriptions are closed separately."""
