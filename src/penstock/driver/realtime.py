"""Kafka to Kafka in milliseconds, by Spark's real-time mode.

Guarantee: at least once. Records are sent as they come; the position is saved every `commit_every`. A crash repeats the
events since then, and their number is counted at the next start: records carry the coordinates of their source. Topics
recreated, records deleted before they were read, and more partitions than Spark has cores stop it. Where it begins is
recorded before anything else happens.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self

import msgspec
import orjson

from penstock.delivery.checkpoint import lost
from penstock.delivery.dead_envelope import dead_topic_of
from penstock.delivery.dead_letters import make_topics
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.lag import LagReport, group_of
from penstock.delivery.sink_progress import require_same_cluster
from penstock.driver.batch import BatchReport, SinkCount
from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.repeats import Offsets, count_sent
from penstock.driver.spark_checkpoint import SparkCheckpoint
from penstock.driver.spark_login import client_options
from penstock.errors import (
    BadInput,
    CheckpointLost,
    PenstockError,
    PipelineHalted,
    RetentionPassed,
    TopicRecreated,
    Transient,
)
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.kafka.connection import Connection
from penstock.pipeline.spec import PipelineSpec
from penstock.record.formats import CHECKPOINT
from penstock.record.positions import Positions
from penstock.sources.source import SourceContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.2


class _Metadata(msgspec.Struct, frozen=True):
    """The content of `metadata.json`: where the pipeline began, and the checkpoint of Spark's that belongs to it."""

    pipeline: str
    topic_ids: dict[str, str]
    starts: Offsets
    began_ms: int
    cluster_id: str
    query: str | None = None
    """The id of Spark's query; none as long as it has not started."""


class RealtimeRunner:
    """Runs one pipeline in real time. Entering takes the lock and checks that it is safe to go on."""

    def __init__(
        self,
        spec: PipelineSpec,
        connection: Connection,
        paths: PipelinePaths,
        start_spark: Callable[[], "SparkSession"],
    ) -> None:
        if not spec.source.named_topics:
            raise BadInput("`speed: realtime` reads Kafka")
        self.spec = spec
        self.paths = paths
        self.stopping = Event()
        self.repeated = 0
        self._connection = connection
        self._start_spark = start_spark
        self._stack = ExitStack()
        self._spark = SparkCheckpoint(paths.checkpoint / "spark")

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.paths.locked(self.spec.name))
            self._source = self.spec.source.open(SourceContext(self._connection))
            self.available = self._source.available()
            self._lag_report = LagReport(self._connection, self.spec.name)
            stack.callback(self._lag_report.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _metadata(self) -> Path:
        return self.paths.checkpoint / "metadata.json"

    def begin(self) -> None:
        """Compare topic ids and Spark's checkpoint with those of the last run; count what this run sends again."""
        if not self._metadata.exists():
            if self._spark.exists:
                raise lost(self.spec.name, f"only Spark's part of it is in {self.paths.checkpoint}")
            if self._reported():
                reason = f"there is none in {self.paths.checkpoint}, and its lag has been reported before"
                raise lost(self.spec.name, reason)
            starts = self._source.starts(self.available)
            self._remember(self._beginning(starts))
            self._lag_report.report(starts)
            return
        self._begun = self._load()
        require_same_cluster(self.spec.name, self._begun.cluster_id, cluster_id(Admin(self._connection)))
        self._require_same_topics()
        if self._topic_ids().keys() - self._begun.topic_ids.keys():
            # A topic that the file has since: without its id on record nobody would notice that it was recreated.
            ids = {**self._begun.topic_ids, **self._topic_ids()}
            self._remember(msgspec.structs.replace(self._begun, topic_ids=ids))
        if self._begun.query is not None and self._spark.query_id() != self._begun.query:
            raise lost(self.spec.name, f"Spark's part of it is not in {self._spark.folder}")
        if self._spark.exists:
            self.repeated = self._count_repeated()

    def _reported(self) -> Positions:
        """Return the positions that were last reported to Kafka, which are left if the whole checkpoint is lost."""
        return self._lag_report.reported([each.source_partition for each in self.available])

    def _require_same_topics(self) -> None:
        for topic, topic_id in self._topic_ids().items():
            if self._begun.topic_ids.get(topic, topic_id) != topic_id:
                raise TopicRecreated(
                    f"topic '{topic}' was deleted and recreated",
                    safe="Nothing was read from the new one",
                    fix=f"To read it from its start, run: penstock pipeline rebuild {self.spec.name}",
                )

    def _topic_ids(self) -> dict[str, str]:
        return {each.source_partition.topic: each.source_partition.topic_id for each in self.available}

    def _beginning(self, starts: Positions) -> _Metadata:
        offsets: Offsets = {}
        for source_partition, offset in starts.items():
            offsets.setdefault(source_partition.topic, {})[str(source_partition.partition)] = offset
        now_ms = int(time.time() * 1000)
        return _Metadata(
            self.spec.name, self._topic_ids(), offsets, now_ms, cluster_id=cluster_id(Admin(self._connection))
        )

    def _remember(self, metadata: _Metadata) -> None:
        write_versioned(self._metadata, CHECKPOINT, msgspec.to_builtins(metadata))
        self._begun = metadata

    def _load(self) -> _Metadata:
        try:
            return msgspec.convert(read_versioned(self._metadata, CHECKPOINT), _Metadata)
        except (msgspec.MsgspecError, ValueError) as error:
            raise lost(self.spec.name, f"{self._metadata} makes no sense: {error}") from None

    def rebuild(self) -> None:
        """Forget the position: the next run begins where the first did, as far as the topics still hold that.

        A topic that was recreated is read from its start. Without a record of the first run, the lag that was reported
        last says where to go on, for everything before it was sent; without that, the file.
        """
        begun: _Metadata | None = None
        with suppress(CheckpointLost, FileNotFoundError):
            begun = self._load()
        self._spark.retire()
        starts = self._source.starts(self.available)
        if reported := self._reported():
            starts = {
                each.source_partition: max(reported.get(each.source_partition, 0), each.first)
                for each in self.available
            }
        if begun is not None:
            for available_range in self.available:
                source_partition = available_range.source_partition
                is_same = begun.topic_ids.get(source_partition.topic) == source_partition.topic_id
                known = (
                    begun.starts.get(source_partition.topic, {}).get(str(source_partition.partition), 0)
                    if is_same
                    else 0
                )
                starts[source_partition] = max(known, available_range.first)
        self._remember(self._beginning(starts))
        self._spark.remove_old()

    def _count_repeated(self) -> int:
        """Count records in the sink whose source is past the position: each of them will be sent again."""
        position, since_ms = self._begun.starts, self._begun.began_ms
        if (number := self._spark.committed()) is not None and (offsets := self._spark.offsets(number)) is not None:
            position = orjson.loads(offsets.splitlines()[-1])
            since_ms = self._spark.committed_ms(number) - self.spec.realtime.commit_every
        return count_sent(self._connection, self._topic, self.available, position, since_ms)

    @property
    def _topic(self) -> str:
        layout = self.spec.sinks[0].realtime()
        if layout is None:
            raise BadInput("`speed: realtime` writes to Kafka")
        return layout.topic

    def run(self, on_progress: Callable[[Progress], None]) -> None:
        """Run until stopped."""
        from pyspark.errors import StreamingQueryException

        from penstock.driver.realtime_job import records

        self.begin()
        on_progress(Progress(None, 0, repeated=self.repeated))
        self._make_letter_boxes()
        spark = self._start_spark()
        cores = spark.sparkContext.defaultParallelism
        self._require_cores(cores)
        options = self._stack.enter_context(client_options(self._connection, self.paths, spark))
        source = (
            spark.readStream.format("kafka")
            .options(**options)
            .option("subscribe", ",".join(self._topic_ids()))
            .option("startingOffsets", self._starting_offsets())
            .option("includeHeaders", "true")
            .option("groupIdPrefix", group_of(self.spec.name))
            .option("kafka.isolation.level", "read_committed")
            .load()
        )
        query = (
            records(self.spec, spark, source, self._topic_ids())
            .writeStream.format("kafka")
            .options(**options)
            .option("checkpointLocation", str(self._spark.folder))
            .outputMode("update")
            .trigger(realTime=f"{self.spec.realtime.commit_every} milliseconds")  # type: ignore[call-overload]  # too new
            .queryName(self.spec.name)
            .start()
        )
        self._remember(msgspec.structs.replace(self._begun, query=str(query.id)))
        try:
            self._watch(query, cores, on_progress)
        except PenstockError:
            query.stop()
            raise
        failure = query.exception()
        if isinstance(failure, StreamingQueryException) and not self.stopping.is_set():
            raise self._explained(str(failure))

    def _watch(self, query: Any, cores: int, on_progress: Callable[[Progress], None]) -> None:
        reported, looked = -1, time.monotonic()
        while query.isActive:
            progress: Any = query.lastProgress
            is_new = bool(progress) and progress["batchId"] > reported
            if is_new or time.monotonic() - looked > self.spec.realtime.commit_every / 1000:
                looked = time.monotonic()
                with suppress(Transient):  # Spark's own clients wait for a broker that is down, or end the query
                    self.available = self._source.available()
                self._require_same_topics()
                self._require_cores(cores)
            if is_new:
                reported = progress["batchId"]
                self._lag_report.report(self._reached(progress))
                on_progress(self._progress(progress))
            if self.stopping.wait(_LOOK_EVERY_S):
                query.stop()

    def _require_cores(self, cores: int) -> None:
        """Refuse more partitions than can be read at once: the rest would wait forever without notice."""
        partitions = len(self.available)
        if cores < partitions:
            raise BadInput(
                f"in real time each of the {partitions} partitions needs a core of its own, and there are {cores}",
                safe="What was not read is in the topic",
                fix=f"Give Spark more, such as --master 'local[{partitions}]'",
            )

    def made_columns(self) -> None:
        """Return nothing: Spark's own sink writes whole records."""

    def _progress(self, reported: Any) -> Progress:
        count, number = int(reported["numInputRows"]), int(reported["batchId"])
        report = BatchReport(
            batch=number,
            read=count,
            dead=0,
            sinks={self.spec.sink_names[0]: SinkCount(count, count, 0, 0)},
            rules={},
            ends={},
            seconds=reported["durationMs"].get("triggerExecution", 0) / 1000,
        )
        reached = self._reached(reported)
        lag = sum(max(0, each.end - reached.get(each.source_partition, each.first)) for each in self.available)
        return Progress(report, lag)

    def _reached(self, reported: Any) -> Positions:
        """Return how far Spark has got, according to its checkpoint; a partition that is new to it is missing."""
        reached: Offsets = orjson.loads(reported["sources"][0]["endOffset"])
        source_partitions = [each.source_partition for each in self.available]
        return {
            source_partition: reached[source_partition.topic][str(source_partition.partition)]
            for source_partition in source_partitions
            if str(source_partition.partition) in reached.get(source_partition.topic, {})
        }

    def _starting_offsets(self) -> str:
        """Return the starts on record, and 0 for partitions that came since: so that a gap there is noticed."""
        offsets: Offsets = {}
        for each in self.available:
            topic, partition = each.source_partition.topic, str(each.source_partition.partition)
            offsets.setdefault(topic, {})[partition] = self._begun.starts.get(topic, {}).get(partition, 0)
        return orjson.dumps(offsets).decode()

    def _make_letter_boxes(self) -> None:
        wanted: dict[str, int] = {}
        for each in self.available:
            name = dead_topic_of(each.source_partition.topic, self.spec.dead_letters.topic, self.spec.name)
            wanted[name] = max(wanted.get(name, 0), each.source_partition.partition + 1)
        admin = Admin(self._connection)
        make_topics(admin, wanted)
        topics.partition_count(admin, self._topic)

    def _explained(self, text: str) -> RetentionPassed | PipelineHalted:
        if "data loss" in text.lower() or "offsetoutofrange" in text.lower():
            return RetentionPassed(
                f"records of pipeline '{self.spec.name}' were deleted before they were read",
                safe="What was sent is in the sink",
                fix=f"To send all that is left, run: penstock pipeline rebuild {self.spec.name}",
            )
        reason = next(line for line in text.splitlines() if line.strip())
        return PipelineHalted(
            f"pipeline '{self.spec.name}' failed: {reason[:500]}",
            fix=f"Read more with: penstock pipeline logs --spark {self.spec.name}",
        )
