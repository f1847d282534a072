"""Everything that a driver works with: the source, the sinks and the dead letters of a pipeline, opened and compared.

Problems show up in the order of their cost: Kafka, then databases, then Spark. Repairs open a pipeline, too, and run no
batch.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from penstock.delivery import gaps, sink_progress
from penstock.delivery.checkpoint import Checkpoint, Committed, lost
from penstock.delivery.dead_letters import SINK_NAME, DeadLetters
from penstock.delivery.known_topics import KnownTopics
from penstock.delivery.lag import LagReport, group_of
from penstock.delivery.ledger import Replay
from penstock.delivery.sink_progress import PositionStore, SinkProgress
from penstock.driver import met_columns, renamed
from penstock.driver.batch import Parts
from penstock.driver.column_lineage import MadeColumns
from penstock.driver.paths import PipelinePaths
from penstock.driver.spark_job import SparkJob
from penstock.errors import CheckpointLost, SchemaChanged
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.kafka.connection import Connection
from penstock.pipeline.spec import PipelineSpec
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.sink import Sink, SinkContext
from penstock.sources.range import Range, RangeSource
from penstock.sources.replay import ReplaySource
from penstock.sources.source import Source, SourceContext
from penstock.worker import spill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OpenedPipeline:
    """A pipeline as a context: entering takes the lock, opens every sink, and checks that it is safe."""

    def __init__(
        self,
        spec: PipelineSpec,
        connection: Connection,
        paths: PipelinePaths,
        start_spark: Callable[[], "SparkSession"],
        base: Path,
        *,
        replay: Replay | Range | None = None,
        any_cluster: bool = False,
        launch_spark: Callable[[], None] | None = None,
    ) -> None:
        self.spec = self._written = spec
        self.paths = paths
        self.checkpoint = Checkpoint(paths.checkpoint, spec.name)
        self.known_topics = KnownTopics(paths.gaps)
        self.stopping = Event()
        self.connection = connection
        self._start_spark = start_spark
        self._launch_spark = launch_spark
        self._base = base
        self.replay = replay
        self._any_cluster = any_cluster
        # A replay has positions, groups and staging of its own, so that it can run beside the live driver.
        self._suffix = f".replay-{replay.id}" if replay else ""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.paths.locked(self.spec.name))
            shutil.rmtree(self.paths.scratch, ignore_errors=True)
            spill.remove_left()
            self._admin = Admin(self.connection)
            if self.checkpoint.exists and not self._any_cluster:
                with suppress(CheckpointLost):  # which `begin` reports, and a rebuild fixes
                    self.require_same_cluster(self.checkpoint.load())
            self.source = self._open_source()
            # Kafka first: whoever has forgotten to start it should not wait for Spark to hear so.
            self.available = self._with_removed_files(self.source.available())
            self.spec = self._written.resolved().with_columns(met_columns.load(self.paths.gaps))
            self.sinks = [self._make_sink(number) for number in range(len(self.spec.sinks))]
            for sink in self.sinks:
                stack.callback(sink.close)
                sink.reach()  # the same for a database that does not let this user in
            if self._launch_spark is not None and self._has_unread():
                self._launch_spark()  # its JVM comes up while the rest is opened
            job = SparkJob(
                self.spec,
                self._spark_unless_stopping,
                self._base,
                self.paths.scratch,
                self.paths.folder / "analysis.json",
            )
            for number, sink in enumerate(self.sinks):
                if isinstance(self.replay, Range) and self.replay.replaces:
                    sink.replace(self.replay.replaced(gaps.ranges(self.paths.gaps)))
                sink.open(self._schema_of(number, job))
            # Letters of a range that goes elsewhere are not the pipeline's own: nobody should send them to its sinks.
            elsewhere = isinstance(self.replay, Range) and not self.replay.replaces
            self.dead = DeadLetters(
                self.connection,
                self.spec.name + (self._suffix if elsewhere else ""),
                self.spec.dead_letters.topic,
                self.paths.scratch,
                f"{group_of(self.spec.name)}.{SINK_NAME}{self._suffix}",
                self.spec.sink_names,
            )
            stack.callback(self.dead.close)
            self.lag_report = LagReport(self.connection, self.spec.name + self._suffix)
            stack.callback(self.lag_report.close)
            self.parts = Parts(
                self.spec, self.source, job, self.sinks, self.dead, self.paths.scratch / "notes", self.stopping
            )
            self.dead.open(self.dead_topics(self.available))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def reopen(self) -> None:
        """Open everything once more, with columns as they are now; what was open is closed first."""
        self._stack.close()
        self.__enter__()

    def learn(self, change: SchemaChanged) -> None:
        """Keep the columns that records have brought: the next to open the pipeline has them, too."""
        met_columns.add(self.paths.gaps, change.columns)

    def _spark_unless_stopping(self) -> "SparkSession":
        if self.stopping.is_set():
            raise KeyboardInterrupt  # told to stop while it looked for something to read
        return self._start_spark()

    def _with_removed_files(self, available: list[AvailableRange]) -> list[AvailableRange]:
        names = (*self._written.sink_names, SINK_NAME)
        with suppress(CheckpointLost):  # which `begin` reports
            if not self._written.source.in_kafka and self.replay is None and self.checkpoint.exists:
                return sink_progress.with_removed_files(self.checkpoint.load(), available, names)
        return available

    def _has_unread(self) -> bool:
        """Return whether there seems to be something to read; this is only a hint."""
        if not self.available:
            return False
        try:
            committed = (
                self.checkpoint.load() if self.checkpoint.exists else Committed(0, self.source.starts(self.available))
            )
        except CheckpointLost:
            return False  # which `begin` will tell
        return self.lag(committed, self.available) > 0

    def _open_source(self) -> Source:
        context = SourceContext(self.connection, gaps.ranges(self.paths.gaps))
        if isinstance(self.replay, Replay):
            return ReplaySource(self.replay, context)
        if isinstance(self.replay, Range):
            return RangeSource(self.replay, context)
        return self.spec.source.open(context)

    def _schema_of(self, number: int, job: SparkJob) -> pa.Schema:
        reserved = self.spec.reserved_columns(self.spec.sinks[number])
        return pa.schema([job.schema.field(name) for name in (*job.columns, *reserved)])

    @contextmanager
    def _opened_as(self, name: str, other: str) -> Iterator[Sink]:
        """Open one of the sinks once more, under another name."""
        number = self.spec.sink_names.index(name)
        with closing(self._make_sink(number, other)) as sink:
            sink.reach()
            sink.open(self._schema_of(number, self.parts.job))
            yield sink

    def _make_sink(self, number: int, name: str | None = None) -> Sink:
        return self.spec.sinks[number].open(
            SinkContext(
                name or self.spec.sink_names[number],
                self.spec.name,
                self.connection,
                self.paths.scratch,
                lambda: self.parts.job.spark,
                self._suffix,
            )
        )

    def made_columns(self) -> MadeColumns:
        """Return the columns and what they were made of; Spark is started for it, if it was not yet."""
        return self.parts.job.made_columns()

    @property
    def stores(self) -> dict[str, PositionStore]:
        """Everything that has positions, by name."""
        return {**{sink.name: sink for sink in self.sinks}, SINK_NAME: self.dead}

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster that answers now."""
        return cluster_id(self._admin)

    def dead_topics(self, available: list[AvailableRange]) -> dict[str, int]:
        """Name the dead-letter topics, with a partition for each of the source's; a replay reads from them."""
        counts: dict[str, int] = {}
        for each in available:
            topic = each.source_partition.topic
            name = topic if isinstance(self.replay, Replay) else self.dead.topic_of(topic)
            counts[name] = max(counts.get(name, 0), each.source_partition.partition + 1)
        return counts

    def begin(self) -> Committed:
        """Load or make the checkpoint, and refuse to go on where that would skip or double events."""
        fresh = not self.checkpoint.exists
        topic_ids = self.source.topic_ids()
        if fresh:
            self._require_unread(topic_ids)
        starts = self.source.starts(self.available) if fresh else {}
        target_ids = self.target_ids
        beginning = Committed(0, starts, cluster_id=self.cluster_id, target_ids=target_ids, targets=self.targets)
        reported = self.lag_report.reported([each.source_partition for each in self.available]) if fresh else {}
        committed = sink_progress.begin(
            self.checkpoint, self.stores, self.available, beginning, reported, is_replay=self.replay is not None
        )
        self.checkpoint.require_plan()  # first of all: what another error advises would end here
        if fresh:
            # A lost checkpoint must not begin at `latest` again: where it began is on record before the first batch.
            self.lag_report.report(committed.starts)
        committed = self.continued(committed)
        # Before anything else that stops here: what another error has somebody skip, this could not tell any more.
        sink_progress.require_same_targets(self.spec.name, committed, target_ids)
        for sink in self.sinks:
            sink.known_target_id = committed.target_ids.get(sink.name, "")
        sink_progress.require_same_topics(self.spec.name, committed, topic_ids)
        self.keep_topics(committed)
        return replace(committed, target_ids={**committed.target_ids, **target_ids})

    def continued(self, committed: Committed) -> Committed:
        """Let sinks that have got another name go on where they stand under the former one."""
        by_name = {sink.name: sink for sink in self.sinks}
        committed = renamed.continued(self.checkpoint, committed, self.targets, by_name, self._opened_as, self._judged)
        self.dead.called_now = committed.called_now
        return committed

    def _judged(self, source_partitions: Iterable[SourcePartition]) -> Positions:
        self.dead.take_over()  # what a killed driver has left open there would be waited for
        return self.dead.positions(source_partitions)

    def _require_unread(self, topic_ids: Mapping[str, str]) -> None:
        """Raise if a topic replaces one that a pipeline without a checkpoint has read, whose unread rest is a gap."""
        for each in self.known_topics.load().starts if self.replay is None else ():
            if topic_ids.get(each.topic, each.topic_id) != each.topic_id:
                raise lost(
                    self.spec.name,
                    f"there is none in {self.checkpoint.folder}, and topic '{each.topic}' was read before it was"
                    " recreated",
                )

    def keep_topics(self, committed: Committed) -> None:
        """Record which topics are read, beside the checkpoint, too."""
        if self.replay is None:
            self.known_topics.keep(committed)

    @property
    def target_ids(self) -> dict[str, str]:
        """What each sink writes to, where its positions could be forgotten."""
        found = {sink.name: sink.target_id() for sink in self.sinks}
        return {name: target_id for name, target_id in found.items() if target_id}

    @property
    def targets(self) -> dict[str, str]:
        """What each sink writes to, by which a renamed sink is recognised."""
        found = {name: model.target() for name, model in zip(self.spec.sink_names, self.spec.sinks, strict=True)}
        return {name: str(target) for name, target in found.items() if target is not None}

    def take_over(self) -> None:
        """Abort an older driver's open transactions in Kafka, and fence it."""
        self.dead.take_over()
        for sink in self.sinks:
            sink.take_over()

    def sink_progress(self, committed: Committed, available: list[AvailableRange]) -> SinkProgress:
        """Ask every sink for its positions; sinks whose positions Kafka could forget hold on to them.

        Raise if Kafka has, and the checkpoint that knows it is an old copy.
        """
        source_partitions = [each.source_partition for each in available]
        settled = self.checkpoint.settled(committed, source_partitions)
        progress = sink_progress.read(self.spec.name, self.stores, committed, source_partitions, settled, self.targets)
        sink_progress.require_current(self.spec.name, self.stores, committed, progress, settled)
        for name, store in self.stores.items():
            store.hold(progress.held[name])
        return progress

    def replaced(self, changed: dict[SourcePartition, tuple[int, int]]) -> list[OffsetRange]:
        """Find what was read from a leader whose log the present one has not."""
        return self.source.replaced(changed) if changed else []

    def require_same_cluster(self, committed: Committed) -> None:
        """Raise if another cluster answers than the one that was read."""
        sink_progress.require_same_cluster(self.spec.name, committed.cluster_id, self.cluster_id)

    def lag(self, committed: Committed, available: list[AvailableRange]) -> int:
        """Count the events that some sink lacks."""
        committed, names = sink_progress.with_new_partitions(committed, available), (*self.spec.sink_names, SINK_NAME)
        return sum(max(0, each.end - committed.lowest(names, each.source_partition)) for each in available)
