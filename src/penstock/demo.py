"""The demo: the whole path on a throwaway cluster, counted at both ends."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson
from pydantic import BaseModel, Field

from penstock.broker.cluster import Cluster
from penstock.kafka import groups, topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.consumer import Consumer
from penstock.kafka.producer import Producer
from penstock.kafka.topic_spec import TopicSpec
from penstock.project import LocalCluster

TOPIC = "orders"
GROUP = "demo"
_PARTITIONS = 4
_CUSTOMERS = 1000
_CHUNK = 2000
_IDLE_S = 20.0

Step = Callable[[str, int, int], None]
"""Called with (what happens, done, in all)."""


class PartitionCount(BaseModel, frozen=True):
    """What went in and what came out of one partition."""

    partition: int = Field(description="Partition.")
    sent: int = Field(description="Records that the topic holds.")
    processed: int = Field(description="Records that the consumer processed.")
    lag: int = Field(description="Records between the group's position and the end.")


class Outcome(BaseModel, frozen=True):
    """The demo's result."""

    sent: int = Field(description="Events that were acknowledged.")
    processed: int = Field(description="Events that were processed.")
    distinct: int = Field(description="Different events among them.")
    lag: int = Field(description="What the group had left to read.")
    produced_per_s: int = Field(description="Events a second into the topic.")
    consumed_per_s: int = Field(description="Events a second through the consumer.")
    partitions: list[PartitionCount] = Field(description="The same per partition.")

    @property
    def is_right(self) -> bool:
        """Nothing lost, nothing doubled, nothing left."""
        return self.sent == self.processed == self.distinct and self.lag == 0


def run(home: Path, jar_folder: Path, events: int, step: Step) -> Outcome:
    """Start Kafka, send, receive with commits after processing, compare, stop Kafka."""
    cluster = Cluster(home / "broker", jar_folder, talk=lambda line: step(line, 0, 0))
    cluster.up(LocalCluster(port=0))
    try:
        connection = cluster.connection()
        admin = Admin(connection)
        topics.create(admin, TOPIC, TopicSpec(partitions=_PARTITIONS))
        began = time.monotonic()
        _send(connection, events, step)
        sent_at = time.monotonic()
        seen, per_partition = _receive(connection, events, step)
        received_at = time.monotonic()
        detail = groups.describe(admin, GROUP)
        return Outcome(
            sent=sum(part.end - part.start for part in detail.partitions),
            processed=sum(per_partition.values()),
            distinct=len(seen),
            lag=detail.lag,
            produced_per_s=round(events / (sent_at - began)),
            consumed_per_s=round(events / (received_at - sent_at)),
            partitions=[
                PartitionCount(
                    partition=part.partition,
                    sent=part.end - part.start,
                    processed=per_partition[part.partition],
                    lag=part.lag,
                )
                for part in detail.partitions
            ],
        )
    finally:
        step("stopping Kafka", 0, 0)
        cluster.down()


def _send(connection: Connection, events: int, step: Step) -> None:
    dice = random.Random(7)  # noqa: S311 - made-up orders, the same in every run
    with Producer(connection) as producer:
        for first in range(0, events, _CHUNK):
            orders = []
            for number in range(first, min(first + _CHUNK, events)):
                customer = f"customer-{dice.randrange(_CUSTOMERS)}"
                order = {"order": number, "customer": customer, "cents": dice.randrange(100, 99_900)}
                orders.append({"key": customer, "value": orjson.dumps(order)})
            producer.send_many(TOPIC, orders)
            step("sending", producer.sent, events)


def _receive(connection: Connection, events: int, step: Step) -> tuple[set[int], Counter[int]]:
    seen: set[int] = set()
    per_partition: Counter[int] = Counter()
    with Consumer(connection, [TOPIC], GROUP) as consumer:
        for batch in consumer.batches(max_events=_CHUNK, max_wait_s=0.2, idle_s=_IDLE_S):
            for message in batch:
                seen.add(orjson.loads(message.value() or b"")["order"])
                per_partition[int(message.partition() or 0)] += 1
            batch.commit()
            step("receiving", per_partition.total(), events)
            if per_partition.total() >= events:
                break
    return seen, per_partition
