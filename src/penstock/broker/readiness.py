"""Ready means: a record was written to and read from every node. A port that answers proves nothing."""

import time
import uuid
from collections.abc import Callable, Iterable

from confluent_kafka.admin import NewPartitions, NewTopic

from penstock.errors import BrokerUnavailable, PenstockError, Refused, Transient
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import Position
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader

PROBE_TOPIC = "__penstock_probe"
_PROBE_CONFIG = {"min.insync.replicas": "1", "retention.ms": "3600000", "segment.bytes": "1048576"}
_PAUSE_S = 0.1


def wait_until(
    condition: Callable[[], bool],
    *,
    timeout_s: float,
    waiting_for: str,
    fix: str = "Read the log with: penstock logs",
) -> None:
    """Wait on state; transient errors on the way count as "not yet"."""
    deadline = time.monotonic() + timeout_s
    last: PenstockError | None = None
    while True:
        try:
            if condition():
                return
        except Transient as error:
            last = error
        if time.monotonic() > deadline:
            reason = f" ({last.what})" if last else ""
            raise BrokerUnavailable(
                f"{waiting_for} took longer than {timeout_s:.0f} s{reason}",
                fix=fix,
            )
        time.sleep(_PAUSE_S)


def probe_every_node(
    connection: Connection, node_ids: Iterable[int], still_alive: Callable[[], None], timeout_s: float = 120.0
) -> None:
    """Write a record to every node and read it back. `still_alive` raises when waiting has become pointless."""
    admin = Admin(connection, timeout_s=10.0)
    waiting = list(node_ids)

    def all_joined() -> bool:
        still_alive()
        return set(waiting) <= set(admin.metadata("waiting for the nodes").brokers)

    wait_until(all_joined, timeout_s=timeout_s, waiting_for="waiting for the nodes to join")
    for node_id in waiting:

        def answered(node_id: int = node_id) -> bool:
            still_alive()
            return _probe(admin, node_id)

        wait_until(answered, timeout_s=timeout_s, waiting_for=f"writing to and reading from node {node_id}")


def _probe(admin: Admin, node_id: int) -> bool:
    partition = _partition_led_by(admin, node_id)
    if partition is None:
        return False
    sign = uuid.uuid4().bytes
    offsets: list[int] = []
    options = ProducerOptions(linger_ms=0, delivery_timeout_ms=10_000, compression="none")
    try:
        with Producer(
            admin.connection,
            options,
            on_delivery=lambda _error, message: offsets.append(int(message.offset() or 0)),
        ) as producer:
            producer.send(PROBE_TOPIC, sign, partition=partition)
        with Reader(admin.connection, PROBE_TOPIC, start=Position("offset", offsets[0]), partition=partition) as reader:
            return any(message.value() == sign for message in reader)
    except Refused:
        raise
    except PenstockError as error:
        raise BrokerUnavailable(error.what) from None


def _partition_led_by(admin: Admin, node_id: int) -> int | None:
    """Find the probe partition on a node; make it if the node has none, and come back later."""
    topic = admin.metadata("looking for the probe topic").topics.get(PROBE_TOPIC)
    parts = list(topic.partitions.values()) if topic is not None else []
    placed = {part.id: list(part.replicas) for part in parts}
    led = [part.id for part in parts if part.leader == node_id]
    if led:
        return led[0]
    if [node_id] in placed.values():
        return None  # it is there, and its leader is about to be elected
    timeout = {"request_timeout": admin.timeout_s, "operation_timeout": admin.timeout_s}
    if not placed:
        new = NewTopic(PROBE_TOPIC, num_partitions=1, replica_assignment=[[node_id]], config=_PROBE_CONFIG)
        futures = admin.client.create_topics([new], **timeout)
    else:
        more = NewPartitions(PROBE_TOPIC, len(placed) + 1, replica_assignment=[[node_id]])
        futures = admin.client.create_partitions([more], **timeout)
    for future in futures.values():
        # A node that is a step behind may not show yet what was made a moment ago: look again.
        if (error := future.exception()) is not None:
            raise BrokerUnavailable(f"making the probe topic: {error}")
    return None
