"""Chains of drivers on one topic, each killed at another point; then two at once; then one full look."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import yaml

from penstock.errors import Conflict
from penstock.kafka import topics

from conftest import RunningKafka
from support.drivers import Driver, start_driver
from support.landing import SCHEMA, Journal, Row, dead_letters, delta_rows, json_rows, judge, kafka_rows
from support.postgres import RunningPostgres

KILLED = -9
# A worker dies under the first try of a task, now and then: the task runs twice, and only one try may count.
RULES = """
import os
from pyspark import TaskContext

def flaky(row):
    if row["n"] % 701 == 0 and TaskContext.get().attemptNumber() == 0:
        os._exit(1)
    return row
"""


@dataclass(frozen=True)
class Chain:
    """A pipeline into one kind of sink, and how to read that sink."""

    kafka: RunningKafka
    journal: Journal
    file: Path
    name: str
    rows: Callable[[], list[Row]]

    def drive(self, **environment: str) -> Driver:
        return start_driver(self.kafka.home, self.file, self.file.with_suffix(".log"), **environment)

    def faults(self) -> list[str]:
        topic_id = topics.describe(self.kafka.admin(), self.journal.topic).topic_id
        letters = dead_letters(self.kafka.connection, f"{self.journal.topic}.dead", self.name)
        return judge(self.journal, topic_id, self.rows(), letters)


def make_chain(kind: str, kafka: RunningKafka, postgres: RunningPostgres | None, folder: Path) -> Chain:
    topic = kafka.topic(f"chain-{kind}", partitions=3)
    name = topic
    sink: dict[str, object] = {"type": kind}
    if kind == "postgres":
        assert postgres is not None
        server = postgres.database()
        sink |= {"table": "landed", "server": {**server.model_dump(), "password": f"file:{postgres.password_file}"}}

        def rows() -> list[Row]:
            with psycopg.connect(
                host=server.host, port=server.port, dbname=server.database, user=server.user, password=postgres.password
            ) as connection:
                query = "SELECT _topic_id, _partition, _offset, n, sha FROM landed"
                return [Row(*each) for each in connection.execute(query)]

    elif kind == "kafka":
        out = kafka.topic("landed", partitions=2)
        sink |= {"topic": out}

        def rows() -> list[Row]:
            return kafka_rows(kafka.connection, out)

    else:
        sink |= {"path": str(folder / "landed")}

        def rows() -> list[Row]:
            return (delta_rows if kind == "delta" else json_rows)(folder / "landed")

    pipeline = {
        "name": name,
        "source": {"topics": [topic]},
        "decode": {"type": "json", "schema": SCHEMA},
        "steps": [{"python": "rules:flaky"}],
        "sinks": [sink],
        "batch": {"max_events": 900},
        "speed": "scheduled",
    }
    (folder / "rules.py").write_text(RULES)
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(pipeline))
    return Chain(kafka, Journal(kafka.connection, topic), file, name, rows)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["delta", "json", "postgres", "kafka"])
def test_a_chain_of_killed_drivers_loses_and_doubles_nothing(
    kind: str, kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path
) -> None:
    chain = make_chain(kind, kafka, postgres, tmp_path)
    points = ["planned", "writing", f"in_commit:{kind}", f"sink_committed:{kind}", "committed"]

    for point in points:
        chain.journal.send(1500)
        driver = chain.drive(PENSTOCK_CRASH_AT=point, PENSTOCK_CRASH_AFTER="1")
        assert KILLED == driver.wait(), driver.said
    chain.journal.send(1500)
    both = [chain.drive(), chain.drive()]
    codes = sorted(driver.wait() for driver in both)

    assert [0, Conflict.exit_code] == codes, both[0].said
    assert [] == chain.faults()
    assert 9000 == len(chain.journal.acknowledged)
