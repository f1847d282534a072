"""Pipelines under fault tests: one topic, one kind of sink or several, and how to read each sink afresh."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import yaml
from deltalake.exceptions import DeltaError

from penstock.kafka import topics
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import RunningKafka
from support.drivers import Driver, start_driver
from support.landing import SCHEMA, Journal, Row, dead_letters, delta_rows, iceberg_landed, json_rows, judge, kafka_rows

# A worker dies under the first try of a task, now and then: the task runs twice, and only one try may count.
RULES = """
import os
from pyspark import TaskContext

def flaky(row):
    if row["n"] % 701 == 0 and TaskContext.get().attemptNumber() == 0:
        os._exit(1)
    return row
"""


@dataclass
class Chain:
    """A pipeline, what was sent to it, and how to read each of its sinks."""

    kafka: RunningKafka
    journal: Journal
    file: Path
    name: str
    rows: dict[str, Callable[[], list[Row]]] = field(default_factory=dict)

    def drive(self, home: Path | None = None, *options: str, **environment: str) -> Driver:
        """Start a driver; one in another home shares no lock and no checkpoint with the others."""
        return start_driver(home or self.kafka.home, self.file, self.file.with_suffix(".log"), *options, **environment)

    def faults(self, refused: Callable[[int], bool] = lambda _n: False) -> list[str]:
        """Judge every sink; an empty list is a pass."""
        topic_id = topics.describe(self.kafka.admin(), self.journal.topic).topic_id
        letters = dead_letters(self.kafka.connection, f"{self.journal.topic}.dead", self.name)
        found = []
        for sink, read in self.rows.items():
            found += [f"{sink}: {fault}" for fault in judge(self.journal, topic_id, read(), letters, refused)]
        return found


def make_chain(
    kinds: list[str],
    kafka: RunningKafka,
    postgres: RunningPostgres | None,
    folder: Path,
    *,
    max_events: int = 900,
    replication: int = 1,
) -> Chain:
    """Make a topic and a pipeline file with these sinks."""
    topic = kafka.topic(f"chain-{'-'.join(kinds)}", partitions=3, replication=replication)
    chain = Chain(kafka, Journal(kafka.connection, topic), folder / "pipeline.yaml", topic)
    sinks = [_sink(kind, chain, postgres, folder / kind) for kind in kinds]
    pipeline = {
        "name": chain.name,
        "source": {"topics": [topic]},
        "decode": {"type": "json", "schema": SCHEMA},
        "steps": [{"python": "rules:flaky"}],
        "sinks": sinks,
        "batch": {"max_events": max_events},
        "speed": "scheduled",
    }
    (folder / "rules.py").write_text(RULES)
    chain.file.write_text(yaml.safe_dump(pipeline))
    return chain


def _sink(kind: str, chain: Chain, postgres: RunningPostgres | None, folder: Path) -> dict[str, Any]:
    if kind == "delta":
        chain.rows[kind] = lambda: delta_rows(folder)
        return {"type": kind, "path": str(folder)}
    if kind == "iceberg":
        chain.rows[kind] = lambda: iceberg_landed(folder)
        return {"type": kind, "path": str(folder), "compact": {"every": 2}}
    if kind == "json":
        chain.rows[kind] = lambda: json_rows(folder)
        return {"type": kind, "path": str(folder)}
    if kind == "kafka":
        out = chain.kafka.topic("landed", partitions=2)
        chain.rows[kind] = lambda: kafka_rows(chain.kafka.connection, out)
        return {"type": kind, "topic": out}
    assert postgres is not None
    server = postgres.database()

    def rows() -> list[Row]:
        with postgres.connect(server.database) as connection:
            return [
                Row(*each) for each in connection.execute("SELECT _topic_id, _partition, _offset, n, sha FROM landed")
            ]

    chain.rows[kind] = rows
    return {
        "type": kind,
        "table": "landed",
        "server": {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"},
    }


def landed_so_far(chain: Chain, sink: str) -> int:
    """Count the rows of a sink while its pipeline runs; none if the sink is not there yet."""
    try:
        return len(chain.rows[sink]())
    except (psycopg.Error, OSError, DeltaError):
        return 0
