"""Our pipelines beside plain PySpark: one topic, one Spark, one machine, alternating in one run.

Every run is checked after it was timed: the table holds each good event once, and, where dead letters are promised,
each malformed one is among them.
"""

import json
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from penstock.delivery import dead_letter
from penstock.driver import session
from penstock.driver.paths import PipelinePaths
from penstock.driver.runner import Runner
from penstock.interpreter import SAFE_PYTHON
from penstock.jvm import jars
from penstock.jvm.jars import JarSet
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench import plain_pyspark
from penstock.lab.bench.memory import Memory
from penstock.lab.bench.peer_runs import CONTENDERS, Peers
from penstock.lab.bench.schema_events import AVRO, Encode, encoder, in_json, registry
from penstock.lab.bench.throwaway_kafka import Step, one_node
from penstock.pipeline.spec import PipelineSpec
from penstock.schemas.formats import Format
from penstock.schemas.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "bench"
WARM_TOPIC = "bench-warm"
CORES = 2
_PARTITIONS = 4
_ONE_MALFORMED_IN = 1000
_CHUNK = 2000
_WARM_EVENTS = 100_000
SCHEMA = (
    "id bigint NOT NULL, customer string, item string, price double, quantity int, country string, at timestamp,"
    " note string"
)
EXPECT = [
    {"name": "a price", "that": "price >= 0", "otherwise": "dead_letter"},
    {"name": "a quantity", "that": "quantity BETWEEN 1 AND 1000", "otherwise": "dead_letter"},
]
DERIVED = "SELECT *, price * quantity AS total FROM events"
_SQL = (
    "SELECT *, price * quantity AS total, upper(country) AS land, date_trunc('hour', at) AS hour,"
    " CASE WHEN price * quantity > 5000 THEN 'large' ELSE 'small' END AS size FROM events"
)


class Line(BaseModel, frozen=True):
    """One contender."""

    contender: str = Field(description="Who.")
    events_per_s: int = Field(description="Median over the rounds.")
    slowest: int = Field(description="Slowest round.")
    fastest: int = Field(description="Fastest round.")
    ratio: float = Field(description="Median beside plain PySpark.")
    delivery: str = Field(description="What the contender promises.")
    driver_mb: int | None = Field(description="Peak memory of a driver by itself and its JVM, over the same topic.")


@dataclass
class _Contender:
    name: str
    delivery: str
    run: Callable[[str, Path], float | None]
    """Reads a topic into a folder; gives the seconds if they are not those of the call."""
    check: Callable[[str, Path], None]
    topics: str = ""
    """What follows the names of the topics that it reads."""
    seconds: list[float] = field(default_factory=list)
    driver_bytes: int | None = None


class Bench:
    """One cluster, one Spark; or none, where contenders are processes that start their own."""

    def __init__(self, connection: Connection, spark: "SparkSession | Any", max_events: int) -> None:
        self.connection = connection
        self.spark = spark
        self.max_events = max_events
        self.good: dict[str, int] = {}
        self.malformed: dict[str, int] = {}

    def fill(self, topic: str, count: int, step: Step, encode: Encode = in_json) -> None:
        """Make it a topic of `count` events, of about 230 bytes in JSON, one in a thousand malformed."""
        if topic not in self.good:
            topics.create(Admin(self.connection), topic, TopicSpec(partitions=_PARTITIONS))
            self.good[topic] = self.malformed[topic] = 0
        with Producer(self.connection, ProducerOptions(linger_ms=20)) as producer:
            for first in range(self.good[topic] + self.malformed[topic], count, _CHUNK):
                step(f"sending events to {topic}", first, count)
                records = list(self._records(topic, range(first, min(first + _CHUNK, count)), encode))
                producer.send_many(topic, records)

    def _records(self, topic: str, numbers: range, encode: Encode) -> Iterator[dict[str, Any]]:
        dice = random.Random(numbers.start)  # noqa: S311 - the same events every time
        for number in numbers:
            value = encode(
                {
                    "id": number,
                    "customer": f"customer-{dice.randrange(100_000):06d}",
                    "item": f"item-{dice.randrange(5000):05d}",
                    "price": round(dice.uniform(1, 900), 2),
                    "quantity": dice.randint(1, 20),
                    "country": dice.choice(["de", "fr", "nl", "pl", "es", "it"]),
                    "at": f"2026-03-{dice.randint(1, 28):02d}T{dice.randrange(24):02d}:{dice.randrange(60):02d}:00Z",
                    "note": "".join(dice.choices("abcdefghij ", k=40)),
                }
            )
            if number % _ONE_MALFORMED_IN == 0:
                self.malformed[topic] += 1
                value = value[:-9]
            else:
                self.good[topic] += 1
            yield {"value": value, "key": str(number % 10_000)}

    def peer(self, peers: Peers, name: str) -> _Contender:
        """Return a peer as a contender."""
        return _Contender(
            name,
            CONTENDERS[name][1],
            lambda topic, folder: peers.run(
                name, self.connection, topic, self.good[topic] + self.malformed[topic], folder
            ),
            lambda topic, folder: peers.check(name, folder, self.good[topic]),
        )

    def pipeline(
        self,
        topic: str,
        folder: Path,
        steps: list[dict[str, str]],
        expect: list[dict[str, str]],
        decode: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return our pipeline as it is written in a file."""
        return {
            "name": folder.name,
            "source": {"topics": [topic]},
            "decode": decode or {"type": "json", "schema": SCHEMA},
            "steps": steps,
            "expect": expect,
            "sinks": [{"type": "delta", "path": str(folder / "table")}],
            "dead_letters": {"topic": f"{folder.name}.dead"},
            "batch": {"max_events": self.max_events, "max_bytes": "2GB"},
            "speed": "scheduled",
        }

    def driver_bytes(self, folder: Path) -> int:
        """Run the pipeline with the derived column as a user does, and look at the driver's memory meanwhile."""
        folder.mkdir()
        file = folder / "pipeline.json"
        file.write_text(json.dumps(self.pipeline(TOPIC, folder, [{"sql": DERIVED}], EXPECT)))
        servers = self.connection.bootstrap_servers
        command = [*SAFE_PYTHON, "-m", "penstock", "--home", str(folder), "--bootstrap", servers]
        with (folder / "driver.log").open("wb") as log:
            process = subprocess.Popen([*command, "pipeline", "run", str(file)], stdout=log, stderr=log)
        with Memory(process.pid) as memory:
            code = process.wait()
        if code != 0:
            raise RuntimeError(f"the driver ended with {code}: {(folder / 'driver.log').read_text()[-500:]}")
        self.check_ours(TOPIC, folder)
        return memory.most_bytes

    def derived(self, topic: str, folder: Path) -> None:
        """Two expectations and a derived column: the pipeline that the goals speak of."""
        self.ours([{"sql": DERIVED}], EXPECT)(topic, folder)

    def ours(
        self, steps: list[dict[str, str]], expect: list[dict[str, str]], decode: dict[str, str] | None = None
    ) -> Callable[[str, Path], None]:
        """Exactly once into Delta, with dead letters."""

        def run(topic: str, folder: Path) -> None:
            spec = PipelineSpec.model_validate(self.pipeline(topic, folder, steps, expect, decode))
            home = PipelinePaths(folder / "home")
            with Runner(spec, self.connection, home, lambda: self.spark, folder) as runner:
                runner.run(lambda _progress: None)

        return run

    def check_ours(self, topic: str, folder: Path) -> None:
        """Look at the table and the dead letters afresh."""
        self.check_table(topic, folder)
        found = sum(1 for _ in dead_letter.read(self.connection, f"{folder.name}.dead"))
        if found != self.malformed[topic]:
            raise RuntimeError(f"{folder.name}: {found} dead letters of {self.malformed[topic]}")

    def check_table(self, topic: str, folder: Path) -> None:
        """Look at the table afresh."""
        from deltalake import DeltaTable

        ids = DeltaTable(str(folder / "table")).to_pyarrow_table(columns=["id"]).column("id")
        if (len(ids), len(ids.unique())) != (self.good[topic], self.good[topic]):
            raise RuntimeError(f"{folder.name}: {len(ids)} rows, {len(ids.unique())} apart, of {self.good[topic]}")

    def plain_avro(self, topic: str, folder: Path) -> None:
        """Do the same with Spark's own reader of Avro, which takes the schema from the program."""
        plain_pyspark.land(self.spark, self.connection.bootstrap_servers, topic, SCHEMA, folder, AVRO)

    def plain(self, topic: str, folder: Path) -> None:
        """Read, parse and write as Spark's and Delta's guides show."""
        plain_pyspark.land(self.spark, self.connection.bootstrap_servers, topic, SCHEMA, folder)


@contextmanager
def opened(
    home: Path, jar_folder: Path, max_events: int, step: Step, more_jars: Sequence[JarSet] = ()
) -> Iterator[Bench]:
    """Return one Spark and a throwaway Kafka of one node; both are gone afterwards."""
    with one_node(home, jar_folder, step) as cluster:
        sets: list[JarSet] = ["spark-kafka", "delta", *more_jars]
        needed = [path for each in sets for path in jars.ensure(each, jar_folder)]
        spark = session.start("bench", home / "logs", master=f"local[{CORES},4]", jars=needed)
        yield Bench(cluster.connection(), spark, max_events)
        spark.stop()


def run(
    home: Path,
    jar_folder: Path,
    *,
    events: int,
    rounds: int,
    max_events: int,
    peers: Peers | None,
    schemas: bool = False,
    step: Step,
) -> list[Line]:
    """Measure on a throwaway cluster of one node; a round on a small topic warms everybody up."""
    with ExitStack() as stack:
        bench = stack.enter_context(opened(home, jar_folder, max_events, step, ["spark-avro"] if schemas else []))
        bench.fill(WARM_TOPIC, min(_WARM_EVENTS, events), step)
        bench.fill(TOPIC, events, step)
        contenders = _contenders(bench)
        if schemas:
            where = stack.enter_context(registry(home / "registry", jar_folder, bench.connection))
            contenders += _by_schemas(bench, where, events, step)
        contenders += [bench.peer(peers, name) for name in CONTENDERS] if peers else []
        for number in range(rounds + 1):
            for place, contender in enumerate(contenders):
                step(f"round {number} of {rounds}: {contender.name}", number * len(contenders) + place, 0)
                topic = (TOPIC if number else WARM_TOPIC) + contender.topics
                _measure(contender, topic, home / f"r{number}-{place}", number)
        bench.spark.stop()
        step("a driver by itself", 0, 0)
        contenders[1].driver_bytes = bench.driver_bytes(home / "driver")
    return _lines(contenders, events)


def _contenders(bench: Bench) -> list[_Contender]:
    once = "exactly once, dead letters"
    return [
        _Contender("plain PySpark", "exactly once, malformed left out", bench.plain, bench.check_table),
        _Contender("Penstock, derived column", once, bench.derived, bench.check_ours),
        _Contender("Penstock, SQL step", once, bench.ours([{"sql": _SQL}], EXPECT), bench.check_ours),
        _Contender("Penstock, no SQL", once, bench.ours([], []), bench.check_ours),
    ]


def _by_schemas(bench: Bench, where: Registry, events: int, step: Step) -> list[_Contender]:
    """Return our pipelines over the same events by the schemas of a registry, without SQL."""
    formats: dict[str, Format] = {"avro": "AVRO", "protobuf": "PROTOBUF"}
    for name, format_ in formats.items():
        for topic, count in ((WARM_TOPIC, min(_WARM_EVENTS, events)), (TOPIC, events)):
            bench.fill(f"{topic}-{name}", count, step, encoder(where, f"{topic}-{name}", format_))
    once = "exactly once, dead letters"
    left_out = "exactly once, malformed left out"
    return [
        _Contender("plain PySpark, from_avro", left_out, bench.plain_avro, bench.check_table, "-avro"),
        *(
            _Contender(
                f"Penstock, {format_.capitalize()}, no SQL",
                once,
                bench.ours([], [], {"type": name, "registry": where.url}),
                bench.check_ours,
                f"-{name}",
            )
            for name, format_ in formats.items()
        ),
    ]


def _measure(contender: _Contender, topic: str, folder: Path, number: int) -> None:
    folder.mkdir()
    began = time.perf_counter()
    own_s = contender.run(topic, folder)
    seconds = time.perf_counter() - began if own_s is None else own_s
    contender.check(topic, folder)
    shutil.rmtree(folder)
    if number:
        contender.seconds.append(seconds)


def _lines(contenders: list[_Contender], events: int) -> list[Line]:
    plain = statistics.median(contenders[0].seconds)
    return [
        Line(
            contender=each.name,
            events_per_s=round(events / statistics.median(each.seconds)),
            slowest=round(events / max(each.seconds)),
            fastest=round(events / min(each.seconds)),
            ratio=round(plain / statistics.median(each.seconds), 2),
            delivery=each.delivery,
            driver_mb=None if each.driver_bytes is None else round(each.driver_bytes / 1e6),
        )
        for each in contenders
    ]
