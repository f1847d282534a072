"""Redis Streams: a log in memory that groups share out among their members.

Guarantees. At least once. A topic is one stream, in the order of sending. Up to 1,000 messages are
appended as a whole or not at all.

- A consumer dies: what it had not acknowledged is claimed by another member of the group, or by itself when it is back
  under a new name, once it has been idle for `reclaim_after_s` (30 s). Nothing is lost.
- The server dies: with `appendfsync always` nothing that was accepted is lost; with `everysec` a kill of the process
  loses nothing and a power failure loses about the last second; without an append-only file all since the last snapshot
  is lost.

A group with several members keeps no order between them: Redis gives each the next messages. Streams are not trimmed:
any group can read from the beginning, and memory grows until somebody calls XTRIM.
"""

import os
import socket
import time
import uuid
from collections.abc import Sequence
from typing import Any

import redis

from penstock.errors import NotFound, OwnershipLost, Transient
from penstock.transports.address import Address
from penstock.transports.redis_client import ANSWER_S, connect, translated
from penstock.transports.transport import Incoming, Outgoing

_CHUNK = 1000
_BEGINNING = "0-0"


class RedisStreams:
    """Appends to the stream of the topic's name."""

    def __init__(self, address: Address, *, reclaim_after_s: float = 30.0) -> None:
        self._address = address
        self._reclaim_after_s = reclaim_after_s
        self._client = connect(address)

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Return when Redis has appended all of them."""
        for start in range(0, len(messages), _CHUNK):
            # A transaction: one refused in the middle, for want of memory, must not let later ones pass it.
            with translated(self._address, "appending"), self._client.pipeline(transaction=True) as pipeline:
                for message in messages[start : start + _CHUNK]:
                    key = {} if message.key is None else {"key": message.key}
                    pipeline.xadd(message.topic, {"value": message.value, **key})
                pipeline.execute()

    def subscribe(self, topic: str, group: str) -> "StreamSubscription":
        """Join the group under a new name; a new group begins with the oldest message of the stream."""
        return StreamSubscription(self._address, topic, group, self._reclaim_after_s)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class StreamSubscription:
    """A consumer of a group, under a name that nobody else has."""

    def __init__(self, address: Address, topic: str, group: str, reclaim_after_s: float) -> None:
        self._address = address
        self._topic = topic
        self._group = group
        self._reclaim_after_ms = int(reclaim_after_s * 1000)
        self._name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._client = connect(address)
        self._held: set[bytes] = set()
        self._claim_from: Any = _BEGINNING
        self._claim_at = 0.0
        with translated(address, f"joining group '{group}' of '{topic}'"):
            try:
                self._client.xgroup_create(topic, group, id="0", mkstream=True)
            except redis.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    def receive(self, max_messages: int, timeout_s: float) -> list[Incoming]:
        """Return what dead members have left, else what is new."""
        found = self._reclaim(max_messages)
        deadline = time.monotonic() + timeout_s
        while not found:
            wait_s = min(ANSWER_S / 2, max(0.0, deadline - time.monotonic()))
            found = self._read(max_messages, wait_s)
            if time.monotonic() >= deadline:
                break
        self._held.update(message.receipt for message in found)
        return found

    def _read(self, max_messages: int, wait_s: float) -> list[Incoming]:
        # BLOCK 0 would wait for good.
        block_ms = max(1, int(wait_s * 1000))
        with translated(self._address, f"reading '{self._topic}'"):
            answer = self._client.xreadgroup(
                self._group, self._name, {self._topic: ">"}, count=max_messages, block=block_ms
            )
        return [_incoming(entry, fields) for entry, fields in _entries(answer)]

    def _reclaim(self, max_messages: int) -> list[Incoming]:
        """Look now and then for messages that nobody has acknowledged for long; not for those in our own hands."""
        if time.monotonic() < self._claim_at:
            return []
        with translated(self._address, f"claiming what is left of '{self._topic}'"):
            answer = self._client.xautoclaim(
                self._topic,
                self._group,
                self._name,
                min_idle_time=self._reclaim_after_ms,
                start_id=self._claim_from,
                count=max_messages,
            )
        self._claim_from = answer[0]
        if self._claim_from in {_BEGINNING, _BEGINNING.encode()}:
            self._claim_at = time.monotonic() + self._reclaim_after_ms / 2000
        return [_incoming(entry, fields) for entry, fields in answer[1] if fields and entry not in self._held]

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Take them out of the group's list; raises `OwnershipLost` if another member has acknowledged some before."""
        if not messages:
            return
        with translated(self._address, "acknowledging"):
            count = self._client.xack(self._topic, self._group, *(message.receipt for message in messages))
        self._held.difference_update(message.receipt for message in messages)
        if count < len(messages):
            raise OwnershipLost(
                f"{len(messages) - count} of {len(messages)} messages of '{self._topic}' were acknowledged already",
                safe="They took too long and went to another member of the group too",
            )

    def close(self) -> None:
        """Leave the group, unless messages are left: those keep the name, until another member claims them."""
        try:
            with translated(self._address, "leaving the group"):
                mine = self._client.xpending_range(self._topic, self._group, "-", "+", 1, consumername=self._name)
                if not mine:
                    self._client.xgroup_delconsumer(self._topic, self._group, self._name)
        except (Transient, NotFound):
            # A name that stays in the group does no harm.
            return
        finally:
            self._client.close()


def _entries(answer: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Read the answer to XREADGROUP, which has one shape in Redis' second protocol and another in its third."""
    if not answer:
        return []
    if isinstance(answer, dict):
        return [pair for groups in answer.values() for group in groups for pair in group]
    return [pair for _, pairs in answer for pair in pairs]


def _incoming(entry: bytes, fields: dict[bytes, bytes]) -> Incoming:
    key = fields.get(b"key")
    return Incoming(fields[b"value"], key.decode(errors="replace") if key is not None else None, entry)
