"""Kafka to Kafka in milliseconds, by Spark's real-time mode.

Guarantee: at least once. Records leave as they come; the position is written down every `commit_every`. A crash repeats
what came since, which is at most that long's events, and how many those were is counted at the next start: records
carry the coordinates of their source. Topics made anew and records deleted before they were read stop it.
"""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self

import orjson

from penstock.broker.java_properties import properties_text
from penstock.delivery.checkpoint import Checkpoint, lost
from penstock.delivery.dead_letters import PREFIX, dead_topic_of, make_topics
from penstock.delivery.durable import write_json
from penstock.delivery.lag import group_of
from penstock.engine.batch import BatchReport, SinkCount
from penstock.engine.home import Home, Progress
from penstock.errors import BadInput, DataRefused, RetentionPassed, TopicRecreated
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import EARLIEST, Position
from penstock.kafka.reader import Reader
from penstock.pipeline.spec import PipelineSpec
from penstock.private import write_private
from penstock.sinks.kafka import Kafka as KafkaSink
from penstock.sources.kafka import Kafka, KafkaFeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.2
_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


class RealtimeRunner:
    """Runs one pipeline in real time. Entering takes the lock and checks that it is safe to go on."""

    def __init__(
        self, spec: PipelineSpec, connection: Connection, home: Home, start_spark: Callable[[], "SparkSession"]
    ) -> None:
        if not isinstance(spec.source, Kafka):
            raise BadInput("`speed: realtime` reads Kafka")
        self.spec = spec
        self.home = home
        self.stopping = Event()
        self.repeated = 0
        self._source = spec.source
        self._connection = connection
        self._start_spark = start_spark
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(Checkpoint(self.home.checkpoint, self.spec.name).locked())
            self._feed = KafkaFeed(self._source, self._connection)
            self.extents = self._feed.extents()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _spark_checkpoint(self) -> Path:
        return self.home.checkpoint / "spark"

    def begin(self) -> dict[str, str]:
        """Compare topic ids with those of the last run; count what this run will send once more."""
        found = {each.place.topic: each.place.topic_id for each in self.extents}
        metadata = self.home.checkpoint / "metadata.json"
        if not metadata.exists():
            write_json(metadata, {"pipeline": self.spec.name, "topic_ids": found})
            return found
        told = orjson.loads(metadata.read_bytes())
        known: dict[str, str] = told["topic_ids"]
        for topic, topic_id in found.items():
            if known.get(topic, topic_id) != topic_id:
                raise TopicRecreated(
                    f"topic '{topic}' was deleted and made again",
                    safe="Nothing was read from the new one",
                    fix=f"To read it from its start, run: penstock pipeline rebuild {self.spec.name}",
                )
        if not (self._spark_checkpoint / "metadata").exists():
            if told.get("from_earliest"):
                return found
            raise lost(self.spec.name, f"Spark's part of it is not in {self._spark_checkpoint}")
        self.repeated = self._count_repeated()
        return found

    def rebuild(self) -> None:
        """Forget the position: the next run sends everything again that the topics hold."""
        shutil.rmtree(self._spark_checkpoint, ignore_errors=True)
        ids = {each.place.topic: each.place.topic_id for each in self.extents}
        metadata = {"pipeline": self.spec.name, "topic_ids": ids, "from_earliest": True}
        write_json(self.home.checkpoint / "metadata.json", metadata)

    def _count_repeated(self) -> int:
        """Count records in the sink that come from behind the position: they will come again."""
        commits = sorted((int(path.name), path) for path in (self._spark_checkpoint / "commits").glob("[0-9]*"))
        position: dict[str, dict[str, int]] = {}
        since = EARLIEST
        if commits:
            number, path = commits[-1]
            lines = (self._spark_checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
            position = orjson.loads(lines[-1])
            since = Position("timestamp", int(path.stat().st_mtime * 1000) - self.spec.realtime.commit_every)
        ids = {each.place.topic_id: each.place.topic for each in self.extents}
        repeated = 0
        with Reader(self._connection, self._sink.topic, start=since) as reader:
            for message in reader:
                told: dict[str, Any] = dict(message.headers() or [])
                topic = ids.get((told.get(f"{PREFIX}topic_id") or b"").decode())
                if topic is not None:
                    partition, offset = (int(told[f"{PREFIX}{name}"]) for name in ("partition", "offset"))
                    repeated += offset >= position.get(topic, {}).get(str(partition), 0)
        return repeated

    @property
    def _sink(self) -> KafkaSink:
        sink = self.spec.sinks[0]
        if not isinstance(sink, KafkaSink):
            raise BadInput("`speed: realtime` writes to Kafka")
        return sink

    def run(self, tell: Callable[[Progress], None]) -> None:
        """Run until told to stop."""
        from pyspark.errors import StreamingQueryException

        from penstock.engine.realtime_frame import records

        topic_ids = self.begin()
        tell(Progress(None, 0, repeated=self.repeated))
        self._make_letter_boxes()
        spark = self._start_spark()
        cores, partitions = spark.sparkContext.defaultParallelism, len(self.extents)
        if cores < partitions:
            raise BadInput(
                f"in real time each of the {partitions} partitions needs a core of its own, and there are {cores}",
                fix=f"Give Spark more, such as --master 'local[{partitions}]'",
            )
        options = self._client_options()
        source = (
            spark.readStream.format("kafka")
            .options(**options)
            .option("subscribe", ",".join(topic_ids))
            .option("startingOffsets", self._starting_offsets())
            .option("includeHeaders", "true")
            .option("groupIdPrefix", group_of(self.spec.name))
            .option("kafka.isolation.level", "read_committed")
            .load()
        )
        query = (
            records(self.spec, spark, source, topic_ids)
            .writeStream.format("kafka")
            .options(**options)
            .option("checkpointLocation", str(self._spark_checkpoint))
            .outputMode("update")
            .trigger(realTime=f"{self.spec.realtime.commit_every} milliseconds")  # type: ignore[call-overload]  # too new
            .queryName(self.spec.name)
            .start()
        )
        told = -1
        while query.isActive:
            progress: Any = query.lastProgress
            if progress and progress["batchId"] > told:
                told = progress["batchId"]
                tell(self._progress(progress))
            if self.stopping.wait(_LOOK_EVERY_S):
                query.stop()
        failure = query.exception()
        if isinstance(failure, StreamingQueryException) and not self.stopping.is_set():
            raise self._explained(str(failure))

    def _progress(self, told: Any) -> Progress:
        count, number = int(told["numInputRows"]), int(told["batchId"])
        report = BatchReport(
            batch=number,
            read=count,
            dead=0,
            sinks={self.spec.sink_names[0]: SinkCount(count, count, 0, 0)},
            rules={},
            ends={},
            seconds=told["durationMs"].get("triggerExecution", 0) / 1000,
        )
        return Progress(report, 0)

    def _starting_offsets(self) -> str:
        told = orjson.loads((self.home.checkpoint / "metadata.json").read_bytes())
        starts = (
            {each.place: each.first for each in self.extents}
            if told.get("from_earliest")
            else self._feed.starts(self.extents)
        )
        offsets: dict[str, dict[str, int]] = {}
        for place, offset in starts.items():
            offsets.setdefault(place.topic, {})[str(place.partition)] = offset
        return orjson.dumps(offsets).decode()

    def _make_letter_boxes(self) -> None:
        wanted: dict[str, int] = {}
        for each in self.extents:
            name = dead_topic_of(each.place.topic, self.spec.dead_letters.topic, self.spec.name)
            wanted[name] = max(wanted.get(name, 0), each.place.partition + 1)
        admin = Admin(self._connection)
        make_topics(admin, wanted)
        topics.partition_count(admin, self._sink.topic)

    def _client_options(self) -> dict[str, str]:
        """Give the settings of Spark's Kafka clients; they name the login, which waits in a private file."""
        login = self._connection.security.java()
        path = self.home.folder / "login.properties"
        write_private(path, properties_text(login).encode("ascii"))
        self._stack.callback(path.unlink, missing_ok=True)
        named = {f"kafka.{name}": f"${{file:{path}:{name}}}" for name in login}
        providers = {"kafka.config.providers": "file", "kafka.config.providers.file.class": _PROVIDER} if login else {}
        return {
            "kafka.bootstrap.servers": self._connection.bootstrap_servers,
            **providers,
            **named,
        }

    def _explained(self, text: str) -> RetentionPassed | DataRefused:
        if "data loss" in text.lower() or "offsetoutofrange" in text.lower():
            return RetentionPassed(
                f"records of pipeline '{self.spec.name}' were deleted before they were read",
                safe="What was sent is in the sink",
                fix=f"To send all that is left, run: penstock pipeline rebuild {self.spec.name}",
            )
        reason = next(line for line in text.splitlines() if line.strip())
        return DataRefused(
            f"pipeline '{self.spec.name}' failed: {reason[:500]}",
            fix=f"Read more with: penstock pipeline logs --spark {self.spec.name}",
        )
