"""How long an event takes from Kafka through Spark to Kafka: in real time, and in plain micro-batches, in one run."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from pydantic import BaseModel, Field

from penstock.driver import session
from penstock.driver.paths import PipelinePaths
from penstock.driver.realtime import RealtimeRunner
from penstock.jvm import jars
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import LATEST
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway_kafka import Step, one_node
from penstock.pipeline.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MS = 1_000_000
_SCHEMA = "id bigint NOT NULL, sent bigint NOT NULL, price double"
_WARM_S = 15.0
_DRAIN_S = 30.0


class Line(BaseModel, frozen=True):
    """One contender."""

    contender: str = Field(description="Who.")
    events: int = Field(description="Events that were measured.")
    p50_ms: float = Field(description="Half of the events were faster.")
    p95_ms: float = Field(description="19 of 20 were faster.")
    p99_ms: float = Field(description="99 of 100 were faster.")
    slowest_ms: float = Field(description="The slowest one.")


def run(home: Path, jar_folder: Path, *, rate: int, seconds: int, step: Step) -> list[Line]:
    """Measure on a throwaway cluster of one node; what goes through while it warms up does not count."""
    with one_node(home, jar_folder, step) as cluster:
        connection = cluster.connection()
        spark = session.start("bench", home / "logs", master="local[4]", jars=jars.ensure("spark-kafka", jar_folder))
        lines = []
        contenders = {"Penstock, speed realtime": _realtime, "plain PySpark, micro-batches": _micro_batches}
        for number, (name, contender) in enumerate(contenders.items()):
            step(f"{name}: {rate:,} events a second for {seconds} s", number, len(contenders))
            source, sink = f"in-{number}", f"out-{number}"
            for topic in (source, sink):
                topics.create(Admin(connection), topic, TopicSpec(partitions=1))
            with contender(spark, connection, home / f"run-{number}", source, sink):
                delays = delays_of(connection, source, sink, rate, seconds)
            lines.append(line_of(name, delays))
        spark.stop()
    return lines


@contextmanager
def _realtime(spark: "SparkSession", connection: Connection, folder: Path, source: str, sink: str) -> Iterator[None]:
    spec = PipelineSpec.model_validate(
        {
            "name": "bench-realtime",
            "source": {"topics": [source]},
            "decode": {"type": "json", "schema": _SCHEMA},
            "steps": [{"sql": "SELECT id, sent, price * 2 AS twice FROM events"}],
            "expect": [{"name": "a price", "that": "twice >= 0", "otherwise": "dead_letter"}],
            "sinks": [{"type": "kafka", "topic": sink}],
            "speed": "realtime",
            "realtime": {"commit_every": "10s"},
        }
    )
    with RealtimeRunner(spec, connection, PipelinePaths(folder), lambda: spark) as runner:
        thread = threading.Thread(target=runner.run, args=(lambda _progress: None,))
        thread.start()
        yield
        runner.stopping.set()
        thread.join()


@contextmanager
def _micro_batches(
    spark: "SparkSession", connection: Connection, folder: Path, source: str, sink: str
) -> Iterator[None]:
    from pyspark.sql import functions as F  # noqa: N812 - as in every PySpark program

    options = {"kafka.bootstrap.servers": connection.bootstrap_servers}
    events = spark.readStream.format("kafka").options(**options).option("subscribe", source).load()
    parsed = events.select(F.from_json(F.col("value").cast("string"), _SCHEMA).alias("event")).select("event.*")
    rows = parsed.selectExpr("to_json(struct(id, sent, price * 2 AS twice)) AS value", f"'{sink}' AS topic")
    query = rows.writeStream.format("kafka").options(**options).option("checkpointLocation", str(folder)).start()
    yield
    query.stop()


def delays_of(connection: Connection, source: str, sink: str, rate: int, seconds: int) -> list[float]:
    """Send at an even rate, and note how old each event is when it comes out."""
    count = int(rate * (_WARM_S + seconds))
    delays: dict[int, float] = {}
    ready, done = threading.Event(), threading.Event()

    def read() -> None:
        with Reader(connection, sink, start=LATEST, end=None) as reader:
            ready.set()
            for batch in reader.batches(max_events=1, max_wait_s=0.1):
                for message in batch:
                    event = orjson.loads(message.value() or b"{}")
                    delays.setdefault(event["id"], (time.time_ns() - event["sent"]) / _MS)
                if done.is_set() and (len(delays) >= count or time.monotonic() > deadline):
                    return

    deadline = time.monotonic() + _WARM_S + seconds + _DRAIN_S
    thread = threading.Thread(target=read)
    thread.start()
    ready.wait()
    with Producer(connection, ProducerOptions(linger_ms=0)) as producer:
        began = time.perf_counter()
        for number in range(count):
            pause = began + number / rate - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            producer.send(source, orjson.dumps({"id": number, "sent": time.time_ns(), "price": 2.5}))
    done.set()
    thread.join()
    if len(delays) < count:
        raise RuntimeError(f"{count - len(delays)} of {count} events did not come out")
    return [delay for number, delay in delays.items() if number >= rate * _WARM_S]


def line_of(name: str, delays: list[float]) -> Line:
    """Return how the delays are spread."""
    cuts = statistics.quantiles(delays, n=100)
    return Line(
        contender=name,
        events=len(delays),
        p50_ms=round(cuts[49], 1),
        p95_ms=round(cuts[94], 1),
        p99_ms=round(cuts[98], 1),
        slowest_ms=round(max(delays), 1),
    )
