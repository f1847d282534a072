"""Lineage events through Kafka into PostgreSQL: our pipeline beside one event at a time and Data.Rentgen, in one run.

Stores and their partitions are made before the clock starts, ours as Data.Rentgen's. Every run is checked after it was
timed: the store holds each execution once.
"""

import datetime
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel, Field

from penstock.clock import clock
from penstock.driver import session
from penstock.driver.paths import PipelinePaths
from penstock.driver.runner import Runner
from penstock.interpreter import SAFE_PYTHON
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.lineage_events import values
from penstock.lab.bench.lineage_peer import WORKERS, DataRentgen
from penstock.lab.bench.memory import Memory
from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_kafka import Step, one_node
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.events import parse
from penstock.lineage.extract import Extractor
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import connect_postgres, migrate
from penstock.lineage.store.partitions import Partitions
from penstock.lineage.store.sessions import open_session
from penstock.lineage.store.writing import Writer
from penstock.pipeline.spec import PipelineSpec

TOPIC, _QUIET_TOPIC = "input.runs", "input.single"
_PARTITIONS, _CORES = 4, 2
_SINGLE_SHARE = 20
"""Of this many events one is written by itself: that takes long enough."""
_MOST_SINGLE = 5_000
_DELAYS = 10
_PATIENCE_S = 120


class Line(BaseModel, frozen=True):
    """One contender."""

    contender: str = Field(description="Who.")
    events_per_s: int = Field(description="Median over the rounds.")
    slowest: int = Field(description="Slowest round.")
    fastest: int = Field(description="Fastest round.")
    ratio: float = Field(description="Median beside one event at a time.")
    most_mb: int | None = Field(description="Memory of the driver and its JVM, at most.")
    delay_ms: int | None = Field(description="From the acknowledgement of a single event to the store, median.")


@dataclass
class _Contender:
    name: str
    events: int
    run: Callable[[dict[str, Any], Path], float | None]
    """Returns the seconds, if they are not simply those that it takes."""
    seconds: list[float] = field(default_factory=list)
    most_mb: int = 0


def run(
    home: Path, jar_folder: Path, *, events: int, rounds: int, peer: DataRentgen | None, step: Step
) -> tuple[list[Line], int]:
    """Measure on throwaway servers; return the lines, and how many bytes an event has."""
    with (
        one_node(home, jar_folder, step) as cluster,
        running(partial(RunningPostgres, durable=True)) as postgres,
    ):
        connection = cluster.connection()
        mean_bytes = fill(connection, events, step)
        few = min(events // _SINGLE_SHARE, _MOST_SINGLE)
        servers = [each.pid for each in psutil.Process().children()]
        with spark_session(home) as spark:
            contenders = [
                _Contender("one event at a time", few, lambda keys, _: _one_by_one(keys, few)),
                _Contender("Penstock, in batches", events, partial(_land, connection, spark)),
            ]
            if peer is not None:
                there = partial(_peer, peer, connection, postgres, events, step)
                contenders.append(_Contender(f"Data.Rentgen, {WORKERS} workers", events, there))
            for number in range(rounds + 1):
                for place, contender in enumerate(contenders):
                    step(f"round {number} of {rounds}: {contender.name}", number * len(contenders) + place, 0)
                    _measure(contender, postgres, home / f"r{number}-{place}", number, servers)
        step("single events", 0, 0)
        delays = _delays(connection, postgres, home / "single")
    ours, slow = contenders[1], contenders[0].events / statistics.median(contenders[0].seconds)
    lines = [
        Line(
            contender=each.name,
            events_per_s=round(each.events / statistics.median(each.seconds)),
            slowest=round(each.events / max(each.seconds)),
            fastest=round(each.events / min(each.seconds)),
            ratio=round(each.events / statistics.median(each.seconds) / slow, 1),
            most_mb=each.most_mb if each is ours else None,
            delay_ms=round(1000 * statistics.median(delays)) if each is ours else None,
        )
        for each in contenders
    ]
    return lines, mean_bytes


def fill(connection: Connection, events: int, step: Step) -> int:
    """Make the topics and send the events; return how many bytes one has."""
    for name in (TOPIC, _QUIET_TOPIC):
        topics.create(Admin(connection), name, TopicSpec(partitions=_PARTITIONS))
    return _send(connection, events, step, TOPIC)


def _send(connection: Connection, events: int, step: Step, topic: str) -> int:
    size = 0
    with Producer(connection, ProducerOptions(linger_ms=20)) as producer:
        for number, value in enumerate(values(events)):
            if number % 1000 == 0:
                step("sending events", number, events)
            size += len(value)
            producer.send(topic, value, key=str(number // 2))
    return round(size / events)


@contextmanager
def spark_session(home: Path) -> Iterator[Any]:
    """Have Spark run on the cores that all contenders get."""
    spark = session.start("bench", home / "logs", master=f"local[{_CORES},4]", jars=[])
    yield spark
    spark.stop()


def store_keys(postgres: RunningPostgres) -> dict[str, Any]:
    """Make an empty database; return the settings by which a sink finds it."""
    server = postgres.database("bench")
    address = f"postgresql://{server.user}@{server.host}:{server.port}/{server.database}"
    return {"store": address, "password": f"file:{postgres.password_file}", "sslmode": "disable"}


def pipeline_into(keys: dict[str, Any], topic: str, **more: Any) -> dict[str, Any]:
    """Return the pipeline file that fills a store."""
    batch = {"max_events": 50_000, "max_bytes": "500MB"}
    sinks = [{"type": "lineage", **keys}]
    source = {"topics": [topic]}
    return {
        "source": source,
        "decode": {"type": "openlineage"},
        "sinks": sinks,
        "batch": batch,
    } | more


def _land(connection: Connection, spark: Any, keys: dict[str, Any], folder: Path) -> None:
    """Read the whole topic into the store, exactly once."""
    spec = PipelineSpec.model_validate(pipeline_into(keys, TOPIC, name=folder.name, speed="scheduled"))
    with Runner(spec, connection, PipelinePaths(folder / "home"), lambda: spark, folder) as runner:
        runner.run(lambda _progress: None)


def _peer(
    peer: DataRentgen,
    connection: Connection,
    postgres: RunningPostgres,
    events: int,
    step: Step,
    _keys: dict[str, Any],
    folder: Path,
) -> float:
    return peer.run(connection, partial(_send, connection, events, step), events, postgres, folder)


def _one_by_one(keys: dict[str, Any], events: int) -> None:
    """Write each event by itself, in a transaction of its own; no Kafka, which is in its favour."""
    address = StoreAddress.model_validate(keys)
    opened = open_session(address)
    writer = Writer(opened)
    for value in islice(values(events), events):
        extractor = Extractor()
        extractor.add(parse(value))
        opened.begin()
        writer.write(extractor.facts)
        opened.commit()
        writer.committed()
    opened.close()


def _make_store(keys: dict[str, Any]) -> None:
    """Make the store with the partitions of this month and the last, which Data.Rentgen has from the start, too."""
    address = StoreAddress.model_validate(keys)
    migrate(address)
    now = clock().now()
    months = {now, now.replace(day=1) - datetime.timedelta(days=1)}
    if address.server is None:
        raise ValueError(f"{address.store} has no partitions")
    with connect_postgres(address.server, address.schema_name) as connection:
        for table in tables.HISTORY:
            Partitions("month").make(connection, table, months, now)


def _measure(
    contender: _Contender, postgres: RunningPostgres, folder: Path, number: int, servers: Collection[int]
) -> None:
    folder.mkdir()
    keys = store_keys(postgres)
    _make_store(keys)
    with Memory(os.getpid(), servers) as memory:
        began = time.perf_counter()
        own_seconds = contender.run(keys, folder)
        seconds = time.perf_counter() - began
    if own_seconds is not None:
        if number:
            contender.seconds.append(own_seconds)
        return
    contender.most_mb = max(contender.most_mb, round(memory.most_bytes / 1e6))
    found = ask_store(postgres, keys, "SELECT count(*) FROM lineage.operation")
    if found != (contender.events + 1) // 2:
        raise RuntimeError(f"{contender.name}: {found} executions of {contender.events} events")
    if number:
        contender.seconds.append(seconds)


def ask_store(postgres: RunningPostgres, keys: dict[str, Any], query: str, *values: Any) -> Any:
    """Return the only value of an answer."""
    with postgres.connect(keys["store"].rpartition("/")[2]) as connection:
        row = connection.execute(query, values).fetchone()
        return None if row is None else row[0]


def _delays(connection: Connection, postgres: RunningPostgres, folder: Path) -> list[float]:
    """Send events one by one to a driver that runs, and wait for each to be in the store."""
    folder.mkdir()
    keys, file = store_keys(postgres), folder / "lineage.json"
    migrate(StoreAddress.model_validate(keys))
    pipeline = pipeline_into(keys, _QUIET_TOPIC, name=folder.name, speed="stream")
    pipeline["batch"] |= {"max_wait": "200ms"}
    file.write_text(json.dumps(pipeline))
    command = [*SAFE_PYTHON, "-m", "penstock", "--home", str(folder), "--bootstrap", connection.bootstrap_servers]
    with (folder / "driver.log").open("wb") as log:
        driver = subprocess.Popen([*command, "pipeline", "run", str(file)], stdout=log, stderr=log)
    delays = []
    try:
        for value in islice(values(2 * _DELAYS + 2, seed=2), 0, None, 2):
            with Producer(connection) as producer:
                producer.send(_QUIET_TOPIC, value)
            began, run_id = time.perf_counter(), json.loads(value)["run"]["runId"]
            while not ask_store(postgres, keys, "SELECT count(*) FROM lineage.operation WHERE id = %s", run_id):
                if driver.poll() is not None or time.perf_counter() - began > _PATIENCE_S:
                    raise RuntimeError(f"no event came: {(folder / 'driver.log').read_text()[-500:]}")
            delays.append(time.perf_counter() - began)
    finally:
        driver.terminate()
        driver.wait()
    return delays[1:]  # the first waited for Spark
