"""Our own sinks that need a server keep what the conformance suite asks for."""

import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.kafka import topics
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.positions import SourcePartition
from penstock.sinks.kafka import Kafka
from penstock.sinks.postgres import Postgres
from penstock.sinks.postgres_server import Server
from penstock.sinks.spark_format import SparkFormat
from penstock.testing.sink_conformance import Landed, SinkConformance

from conftest import RunningKafka
from support.killed_often import KilledOften
from support.postgres_driver import ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count()


def read_topic(kafka: RunningKafka, topic: str) -> Iterator[Landed]:
    for message in read_all(kafka.connection, topic):
        headers: Any = message.headers()
        told = {name: value.decode() for name, value in headers}
        row = json.loads(message.value() or b"")
        yield Landed(int(told["penstock.partition"]), int(told["penstock.offset"]), row["id"], row["text"])


def read_table(server: Server) -> list[Landed]:
    if not ask(server, "SELECT 1 FROM pg_class WHERE relname = 'landed'"):
        return []
    return [Landed(*row) for row in ask(server, "SELECT _partition, _offset, id, text FROM landed")]


class TestKafka(KilledOften):
    @pytest.fixture(autouse=True)
    def _target(self, kafka: RunningKafka, tmp_path: Path) -> None:
        source = kafka.topic("conformance", partitions=2)
        # The suite's rows are years old: by default Kafka deletes them as soon as it looks.
        target = kafka.topic("conformance-out", partitions=2, retention="forever")
        topic_id = topics.describe(kafka.admin(), source).topic_id
        self.folder, self.model, self.connection = tmp_path, Kafka(topic=target), kafka.connection
        self.pipeline = f"conformance-{next(_numbers)}"
        self.source_partitions = SourcePartition(source, topic_id, 0), SourcePartition(source, topic_id, 1)
        self.read = partial(read_topic, kafka, target)


class TestPostgres(KilledOften):
    @pytest.fixture(autouse=True)
    def _target(self, postgres: RunningPostgres, tmp_path: Path) -> None:
        server = postgres.database()
        self.folder, self.model = tmp_path, Postgres(server=server, table="landed")
        self.drop = partial(ask, server, "DROP TABLE landed")
        self.read = partial(read_table, server)


class TestSparkFormat(SinkConformance):
    """At least once, by a Spark that no other process has."""

    kills_in_commit = 0

    @pytest.fixture(autouse=True)
    def _target(self, spark: "SparkSession", tmp_path: Path) -> None:
        self._spark = spark
        path = tmp_path / "files"
        self.folder, self.model = tmp_path / "scratch", SparkFormat(format="parquet", path=path)
        self.read = lambda: (
            Landed(row["_partition"], row["_offset"], row["id"], row["text"])
            for file in path.glob("*.parquet")
            for row in pq.read_table(file).to_pylist()
        )

    def spark(self) -> "SparkSession":
        return self._spark
