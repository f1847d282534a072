"""Our Python clients beside Kafka's own Java tools: same broker, same settings, alternating in one run."""

import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from penstock.broker.tools import run_tool
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.consumer import Consumer
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway_kafka import Step, one_node

TOPIC = "bench"
_PARTITIONS = 4
_CHUNK = 1000
_LINGER_MS = 5
_BATCH_BYTES = 1_000_000
_JAVA_BUFFER_BYTES = 64 * 2**20
_TIMEOUT_S = 600.0


class Line(BaseModel, frozen=True):
    """One contender."""

    contender: str = Field(description="Who.")
    role: str = Field(description="producer or consumer.")
    events_per_s: int = Field(description="Median over the rounds.")
    slowest: int = Field(description="Slowest round.")
    fastest: int = Field(description="Fastest round.")
    ratio: float = Field(description="Median beside the Java tool of the same role.")


class _Run:
    """One cluster, one set of sizes."""

    def __init__(self, connection: Connection, classpath: list[Path], events: int, size_bytes: int) -> None:
        self.connection = connection
        self.classpath = classpath
        self.events = events
        self.size_bytes = size_bytes
        letters = bytes(range(65, 91))
        self.values = [(letters * 40)[i % 26 : i % 26 + size_bytes] for i in range(_CHUNK)]
        self.round = 0

    def java_producer(self) -> float:
        settings = [
            "acks=all",
            "compression.type=none",
            f"linger.ms={_LINGER_MS}",
            f"batch.size={_BATCH_BYTES}",
        ]
        settings.append(f"buffer.memory={_JAVA_BUFFER_BYTES}")
        arguments = ["--bootstrap-server", self.connection.bootstrap_servers, "--topic", TOPIC]
        arguments += [
            "--num-records",
            str(self.events),
            "--record-size",
            str(self.size_bytes),
            "--throughput",
            "-1",
        ]
        said = self._java("org.apache.kafka.tools.ProducerPerformance", [*arguments, "--command-property", *settings])
        found = re.findall(r"([\d.]+) records/sec", said)
        return float(found[-1])

    def java_consumer(self) -> float:
        arguments = ["--bootstrap-server", self.connection.bootstrap_servers, "--topic", TOPIC]
        arguments += ["--num-records", str(self.events), "--group", f"java-{self.round}"]
        said = self._java("org.apache.kafka.tools.ConsumerPerformance", [*arguments, "--timeout", "60000"])
        header, *rows = [line for line in said.splitlines() if "," in line]
        names = [name.strip() for name in header.split(",")]
        return float(rows[-1].split(",")[names.index("nMsg.sec")])

    def _java(self, main_class: str, arguments: list[str]) -> str:
        return run_tool(self.classpath, main_class, arguments, timeout_s=_TIMEOUT_S, quick=False)

    def send(self) -> float:
        began = time.perf_counter()
        with Producer(self.connection, self._options()) as producer:
            for _ in range(self.events // _CHUNK):
                for value in self.values:
                    producer.send(TOPIC, value)
        return self.events / (time.perf_counter() - began)

    def send_many(self) -> float:
        records: list[dict[str, Any]] = [{"value": value} for value in self.values]
        began = time.perf_counter()
        with Producer(self.connection, self._options()) as producer:
            for _ in range(self.events // _CHUNK):
                producer.send_many(TOPIC, records)
        return self.events / (time.perf_counter() - began)

    @staticmethod
    def _options() -> ProducerOptions:
        return ProducerOptions(compression="none", linger_ms=_LINGER_MS)

    def group_consumer(self) -> float:
        began = time.perf_counter()
        count = 0
        with Consumer(self.connection, [TOPIC], f"penstock-{self.round}") as consumer:
            for batch in consumer.batches(max_events=5000, max_wait_s=0.2, idle_s=60.0):
                count += sum(message.value() is not None for message in batch)
                if count >= self.events:
                    return count / (time.perf_counter() - began)
        raise RuntimeError(f"{count} of {self.events} events arrived")

    def reader(self) -> float:
        began = time.perf_counter()
        count = 0
        with Reader(self.connection, TOPIC) as reader:
            for batch in reader.batches():
                count += sum(message.value() is not None for message in batch)
                if count >= self.events:
                    return count / (time.perf_counter() - began)
        raise RuntimeError(f"{count} of {self.events} events arrived")


def run(home: Path, jar_folder: Path, *, events: int, size_bytes: int, rounds: int, step: Step) -> list[Line]:
    """Measure on a throwaway cluster of one node; the first, cold round of everybody is thrown away."""
    with one_node(home, jar_folder, step) as cluster:
        bench = _Run(cluster.connection(), cluster.classpath(), events, size_bytes)
        admin = Admin(bench.connection)
        contenders: dict[str, tuple[str, Callable[[], float]]] = {
            "Java ProducerPerformance": ("producer", bench.java_producer),
            "Producer.send_many": ("producer", bench.send_many),
            "Producer.send": ("producer", bench.send),
            "Java ConsumerPerformance": ("consumer", bench.java_consumer),
            "Consumer.batches": ("consumer", bench.group_consumer),
            "Reader.batches": ("consumer", bench.reader),
        }
        rates: dict[str, list[float]] = {name: [] for name in contenders}
        for bench.round in range(rounds + 1):
            for place, (name, (role, measure)) in enumerate(contenders.items()):
                step(
                    f"round {bench.round} of {rounds}: {name}",
                    bench.round * len(contenders) + place,
                    (rounds + 1) * len(contenders),
                )
                if role == "producer":
                    _fresh_topic(admin)
                rates[name].append(measure())
    medians = {name: statistics.median(kept[1:]) for name, kept in rates.items()}
    beside = {
        "producer": medians["Java ProducerPerformance"],
        "consumer": medians["Java ConsumerPerformance"],
    }
    return [
        Line(
            contender=name,
            role=role,
            events_per_s=round(medians[name]),
            slowest=round(min(rates[name][1:])),
            fastest=round(max(rates[name][1:])),
            ratio=round(medians[name] / beside[role], 2),
        )
        for name, (role, _) in contenders.items()
    ]


def _fresh_topic(admin: Admin) -> None:
    """Each producer writes to an empty topic, and consumers read what the last one wrote."""
    if any(topic.topic == TOPIC for topic in topics.list_topics(admin)):
        topics.delete(admin, TOPIC)
    topics.create(admin, TOPIC, TopicSpec(partitions=_PARTITIONS))
