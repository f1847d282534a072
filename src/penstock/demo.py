"""The demo: the whole path on a throwaway cluster, counted at both ends."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, Field

from penstock import settings
from penstock.broker.cluster import Cluster
from penstock.delivery import selection
from penstock.delivery.selection import Filter, Reason
from penstock.engine import driver
from penstock.engine.status import Status
from penstock.kafka import groups, topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer
from penstock.kafka.topic_spec import TopicSpec
from penstock.pipeline.load import load
from penstock.project import LocalCluster
from penstock.sinks.rows import plain_rows
from penstock.sinks.tables import open_table

TOPIC = "orders"
_PARTITIONS = 4
_CUSTOMERS = 1000
_CHUNK = 2000
_ONE_MALFORMED_IN = 100
_SHOWN_ROWS = 5

PIPELINE = """\
name: orders
source: {topics: [orders]}
decode: {type: json, schema: "order bigint NOT NULL, customer string NOT NULL, cents int NOT NULL"}
steps:
  - sql: SELECT order, customer, cents / 100 AS amount, cents >= 90000 AS large FROM events
expect:
  - {name: amount is positive, that: amount > 0, otherwise: dead_letter}
sinks:
  - {type: delta, path: table}
batch: {max_events: 50000}
speed: scheduled
"""

Step = Callable[[str, int, int], None]
"""Called with (what happens, done, in all)."""


class Outcome(BaseModel, frozen=True):
    """The demo's result."""

    sent: int = Field(description="Events that were acknowledged.")
    malformed: int = Field(description="How many of them were sent malformed.")
    landed: int = Field(description="Rows in the table.")
    distinct: int = Field(description="Different orders among them.")
    dead: int = Field(description="Dead letters.")
    lag: int = Field(description="What the pipeline had left to read.")
    produced_per_s: int = Field(description="Events a second into the topic.")
    landed_per_s: int = Field(description="Events a second through the pipeline, in its last batch.")
    reasons: list[Reason] = Field(description="Why records failed.")
    some: list[dict[str, Any]] = Field(description="Some rows of the table.")

    @property
    def is_right(self) -> bool:
        """Nothing lost, nothing doubled, nothing left."""
        return (
            self.sent == self.landed + self.dead
            and self.landed == self.distinct
            and self.dead == self.malformed
            and self.lag == 0
        )


def run(home: Path, jar_folder: Path, events: int, step: Step) -> Outcome:
    """Start Kafka, send events with one in a hundred malformed, land them with Spark, compare, stop Kafka."""
    cluster = Cluster(home / "broker", jar_folder, talk=lambda line: step(line, 0, 0))
    cluster.up(LocalCluster(port=0))
    try:
        connection = cluster.connection()
        admin = Admin(connection)
        topics.create(admin, TOPIC, TopicSpec(partitions=_PARTITIONS))
        began = time.monotonic()
        malformed = _send(connection, events, step)
        sent_at = time.monotonic()
        status = _land(home, events, step)
        table = open_table(home / "table")
        orders = table.to_pyarrow_table(columns=["order"]).column("order").to_pylist()
        lag = groups.describe(admin, f"penstock.{TOPIC}")
        reasons = selection.reasons(selection.select(connection, Filter()))
        some = table.to_pyarrow_dataset().head(_SHOWN_ROWS)
        return Outcome(
            sent=sum(part.end - part.start for part in lag.partitions),
            malformed=malformed,
            landed=len(orders),
            distinct=len(set(orders)),
            dead=sum(reason.letters for reason in reasons),
            lag=lag.lag,
            produced_per_s=round(events / (sent_at - began)),
            landed_per_s=status.events_per_s,
            reasons=reasons,
            some=[row for batch in some.to_batches() for row in plain_rows(batch)],
        )
    finally:
        step("stopping Kafka", 0, 0)
        cluster.down()


def _send(connection: Connection, events: int, step: Step) -> int:
    """Send made-up orders; give how many were cut short."""
    dice = random.Random(7)  # noqa: S311 - made-up orders, the same in every run
    malformed = 0
    with Producer(connection) as producer:
        for first in range(0, events, _CHUNK):
            orders = []
            for number in range(first, min(first + _CHUNK, events)):
                customer = f"customer-{dice.randrange(_CUSTOMERS)}"
                value = orjson.dumps({"order": number, "customer": customer, "cents": dice.randrange(100, 99_900)})
                if number % _ONE_MALFORMED_IN == 0:
                    malformed += 1
                    value = value[: dice.randrange(1, len(value))]
                orders.append({"key": customer, "value": value})
            producer.send_many(TOPIC, orders)
            step("sending", producer.sent, events)
    return malformed


def _land(home: Path, events: int, step: Step) -> Status:
    """Run the pipeline as `penstock pipeline run` would."""
    file = home / "orders.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    step("starting Spark", 0, 0)
    return driver.run(
        load(file),
        settings.load(home=home),
        file,
        show=lambda status: step("landing", status.events, events) if status.batch else None,
    )
