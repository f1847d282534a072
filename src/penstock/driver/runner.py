"""The driver: one batch after the other, until there is no more, or until it is told to stop.

Why a loop of our own and not Spark's streaming query: the query's offset log knows no topic ids, skips records of a
topic that was recreated, and reads every record through the JVM. Spark does here what it is best at: it spreads the
work and runs the SQL.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Self

from penstock.delivery import gaps, sink_progress
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.crash_points import crash_point
from penstock.delivery.dead_letters import SINK_NAME, DeadLetters
from penstock.delivery.lag import LagReport, group_of
from penstock.delivery.ledger import Replay
from penstock.delivery.sink_progress import PositionStore, SinkProgress
from penstock.driver import session
from penstock.driver.batch import BatchReport, Parts, run_batch
from penstock.driver.paths import OnProgress, PipelinePaths, Progress
from penstock.driver.pattern import PatternTopics
from penstock.driver.rate import RateLimit
from penstock.driver.spark_job import SparkJob
from penstock.errors import (
    CheckpointLost,
    LogTruncated,
    NotFound,
    PositionsMoved,
    TopicRecreated,
    Transient,
)
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.kafka.connection import Connection
from penstock.pipeline.spec import PipelineSpec
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition, require_unmoved
from penstock.sinks.sink import Sink, SinkContext
from penstock.sources.range import Range, RangeSource
from penstock.sources.replay import ReplaySource
from penstock.sources.source import Source, SourceContext
from penstock.worker import spill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.2
_LOOK_AGAIN_S = 5.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
# Kafka forgets offsets and transactional ids that were not used for a week, or what its administrator says.
_REFRESH_S = 600.0


class Runner:
    """Runs one pipeline. Use it as a context: entering takes the lock, opens every sink, and checks that it is safe."""

    def __init__(
        self,
        spec: PipelineSpec,
        connection: Connection,
        home: PipelinePaths,
        start_spark: Callable[[], "SparkSession"],
        base: Path,
        *,
        replay: Replay | Range | None = None,
        any_cluster: bool = False,
        launch_spark: Callable[[], None] | None = None,
    ) -> None:
        self.spec = spec
        self.home = home
        self.checkpoint = Checkpoint(home.checkpoint, spec.name)
        self.stopping = Event()
        self._connection = connection
        self._start_spark = start_spark
        self._launch_spark = launch_spark
        self._base = base
        self._replay = replay
        self._any_cluster = any_cluster
        self._left: dict[str, Positions] = {}
        self._tried: Positions = {}
        self._refreshed_at = time.monotonic()
        self._moved = 0
        self._is_idle = False
        self._rate = RateLimit(spec.rate, home.folder)
        # A replay has positions, groups and staging of its own, so that it can run beside the live driver.
        self._suffix = f".replay-{replay.id}" if replay else ""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.home.locked(self.spec.name))
            shutil.rmtree(self.home.scratch, ignore_errors=True)
            spill.remove_left()
            self._admin = Admin(self._connection)
            if self.checkpoint.exists and not self._any_cluster:
                with suppress(CheckpointLost):  # which is told by `begin`, and fixed by a rebuild
                    self._require_same_cluster(self.checkpoint.load())
            self.source = self._open_source()
            # Kafka first: whoever has forgotten to start it should not wait for Spark to hear so.
            self.available = self.source.available()
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
                self.home.scratch,
                self.home.folder / "analysis.json",
            )
            for sink, model in zip(self.sinks, self.spec.sinks, strict=True):
                if isinstance(self._replay, Range) and self._replay.replaces:
                    sink.replace(self._replay.replaced(gaps.ranges(self.home.gaps)))
                reserved = [job.schema.field(name) for name in model.reserved_columns]
                sink.open(_schema_of(job, reserved))
            # Letters of a range that goes elsewhere are not the pipeline's own: nobody should send them to its sinks.
            elsewhere = isinstance(self._replay, Range) and not self._replay.replaces
            self.dead = DeadLetters(
                self._connection,
                self.spec.name + (self._suffix if elsewhere else ""),
                self.spec.dead_letters.topic,
                self.home.scratch,
                f"{group_of(self.spec.name)}.{SINK_NAME}{self._suffix}",
            )
            stack.callback(self.dead.close)
            self.lag_report = LagReport(self._connection, self.spec.name + self._suffix)
            stack.callback(self.lag_report.close)
            self.parts = Parts(
                self.spec, self.source, job, self.sinks, self.dead, self.home.scratch / "notes", self.stopping
            )
            self.dead.open(self._dead_topics(self.available))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _spark_unless_stopping(self) -> "SparkSession":
        if self.stopping.is_set():
            raise KeyboardInterrupt  # told to stop while it looked for something to read
        return self._start_spark()

    def _has_unread(self) -> bool:
        """Return whether there seems to be something to read; nothing is decided by it."""
        if not self.available:
            return False
        try:
            committed = (
                self.checkpoint.load() if self.checkpoint.exists else Committed(0, self.source.starts(self.available))
            )
        except CheckpointLost:
            return False  # which `begin` will tell
        return self._lag(committed, self.available) > 0

    def _open_source(self) -> Source:
        context = SourceContext(self._connection, gaps.ranges(self.home.gaps))
        if isinstance(self._replay, Replay):
            return ReplaySource(self._replay, context)
        if isinstance(self._replay, Range):
            return RangeSource(self._replay, context)
        return self.spec.source.open(context)

    def _make_sink(self, number: int) -> Sink:
        return self.spec.sinks[number].open(
            SinkContext(
                self.spec.sink_names[number],
                self.spec.name,
                self._connection,
                self.home.scratch,
                lambda: self.parts.job.spark,
                self._suffix,
            )
        )

    @property
    def stores(self) -> dict[str, PositionStore]:
        """Everything that has positions, by name."""
        return {**{sink.name: sink for sink in self.sinks}, SINK_NAME: self.dead}

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster that answers now."""
        return cluster_id(self._admin)

    def _dead_topics(self, available: list[AvailableRange]) -> dict[str, int]:
        """Name the dead-letter topics, with a partition for each of the source's; a replay reads from them."""
        counts: dict[str, int] = {}
        for each in available:
            topic = each.source_partition.topic
            name = topic if isinstance(self._replay, Replay) else self.dead.topic_of(topic)
            counts[name] = max(counts.get(name, 0), each.source_partition.partition + 1)
        return counts

    def begin(self) -> Committed:
        """Load or make the checkpoint, and refuse to go on where that would skip or double events."""
        fresh = not self.checkpoint.exists
        starts = self.source.starts(self.available) if fresh else {}
        target_ids = self.target_ids
        beginning = Committed(0, starts, cluster_id=self.cluster_id, target_ids=target_ids)
        reported = self.lag_report.reported([each.source_partition for each in self.available]) if fresh else {}
        committed = sink_progress.begin(self.checkpoint, self.stores, self.available, beginning, reported)
        if fresh:
            # A lost checkpoint must not begin at `latest` again: where it began is on record before the first batch.
            self.lag_report.report(committed.starts)
        # Before anything else that stops here: what another error has somebody skip, this could not tell any more.
        sink_progress.require_same_targets(self.spec.name, committed, target_ids)
        for sink in self.sinks:
            sink.known_target_id = committed.target_ids.get(sink.name, "")
        sink_progress.require_same_topics(self.spec.name, committed, self.source.topic_ids())
        return replace(committed, target_ids={**committed.target_ids, **target_ids})

    @property
    def target_ids(self) -> dict[str, str]:
        """What each sink writes to, where its positions could be forgotten."""
        found = {sink.name: sink.target_id() for sink in self.sinks}
        return {name: target_id for name, target_id in found.items() if target_id}

    def take_over(self) -> None:
        """End what an older driver has open in Kafka, and keep it from committing any more."""
        self.dead.take_over()
        for sink in self.sinks:
            sink.take_over()

    def run(self, on_progress: OnProgress) -> None:
        """Run batches until caught up (`speed: scheduled`) or told to stop. Outages are waited for, up to a limit."""
        self._topics = PatternTopics(self.source, self.checkpoint, self.home, list(self.stores))
        self._topics.see(self.available)
        committed = self._topics.without_deleted(self.begin(), self.available, self._require_same_cluster)
        self.take_over()
        bounded = self.spec.speed == "scheduled" or self._replay is not None
        targets = {each.source_partition: each.end for each in self.available} if bounded else None
        pause_s, failing_since, truncated = _FIRST_PAUSE_S, None, False
        while not self.stopping.is_set():
            try:
                committed, more = self._step_if_newest(committed, targets, on_progress)
            except LogTruncated:
                # A new leader may not know its end for a moment: look once more before believing it.
                if truncated:
                    raise
                truncated = True
                self.stopping.wait(_LOOK_AGAIN_S)
                continue
            except Transient as error:
                failing_since = failing_since or time.monotonic()
                for sink in self.sinks:
                    sink.abandon()
                waited_s = time.monotonic() - failing_since
                if session.has_died() or waited_s > self.spec.retry.give_up_after / 1000:
                    raise
                self._is_idle = False
                on_progress(Progress(None, -1, waiting_for=str(error)))
                self.stopping.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            pause_s, failing_since, truncated = _FIRST_PAUSE_S, None, False
            if not more and targets is not None:
                return

    def _step_if_newest(
        self, committed: Committed, targets: Positions | None, on_progress: OnProgress
    ) -> tuple[Committed, bool]:
        """Run one batch, and look again if a sink has moved but no newer driver is there.

        1. An older driver has committed its dead letters. 2. This one takes over, and reads where the sinks stand.
        3. The older one commits the same batch to its sinks, which know no fence, and ends at its next dead letters.
        4. This one finds the sinks moved. If it ended, too, there would be none.
        """
        try:
            return self._step(committed, targets, on_progress)
        except (TopicRecreated, NotFound):
            self._require_same_cluster(committed)  # if that is another one, so are its topics
            raise
        except PositionsMoved:
            self._moved += 1
            if self._moved > len(self.sinks) or not self.dead.holds_fence():
                raise
        self._left, self._tried = {}, {}
        for sink in self.sinks:
            sink.abandon()
        return committed, True

    def _step(self, committed: Committed, targets: Positions | None, on_progress: OnProgress) -> tuple[Committed, bool]:
        """Run one batch if there is enough to read; say whether there may be more."""
        found = self._awaited(committed, targets, on_progress)
        committed = self._topics.without_deleted(committed, found, self._require_same_cluster)
        allowed = self._rate.allowance()
        if allowed == 0:
            self.stopping.wait(_POLL_S)
            return committed, targets is None or self._lag(committed, _up_to(targets, found)) > 0
        available = found if targets is None else _up_to(targets, found)
        sink_progress.require_same_topics(
            self.spec.name,
            committed,
            {each.source_partition.topic: each.source_partition.topic_id for each in available},
        )
        committed = sink_progress.with_new_partitions(committed, available)
        progress = self.sink_progress(committed, available)
        if forgotten := progress.forgotten():
            # Put back before a batch begins: what an unfinished one has moved, the checkpoint cannot tell.
            for name in forgotten:
                self.stores[name].refresh()
            progress = self.sink_progress(committed, available)
        self._require_alone(progress)
        # Against what the source holds, not against the targets: a sink may be past those, if another driver was here.
        sink_progress.require_readable(self.spec.name, progress, found)
        committed, changed = sink_progress.with_new_leaders(committed, found)
        sink_progress.require_not_replaced(self.spec.name, self.replaced(changed))
        most = self.spec.batch.max_events
        offset_ranges = sink_progress.plan(progress, available, most if allowed is None else min(most, allowed))
        if not offset_ranges:
            self._refresh(progress)
            return committed, False
        number = committed.batch + 1
        self.dead.open(self._dead_topics(available))
        recorded = sink_progress.recorded(progress, committed)
        if recorded != committed:
            committed = recorded
            self.checkpoint.commit(committed)
        self.checkpoint.plan(number, offset_ranges)
        crash_point("planned")
        self._tried |= {
            each.source_partition: max(each.end, self._tried.get(each.source_partition, 0)) for each in offset_ranges
        }
        report = run_batch(self.parts, number, offset_ranges, progress)
        self._rate.take(report.read)
        committed = self._commit(committed, progress, report)
        stands_at = [{**progress.resume_offsets[name], **committed.sinks[name]} for name in self.stores]
        self._refreshed_at = time.monotonic()
        self.lag_report.report(
            {each.source_partition: min(at[each.source_partition] for at in stands_at) for each in available}
        )
        on_progress(Progress(report, self._lag(committed, available)))
        return committed, True

    def sink_progress(self, committed: Committed, available: list[AvailableRange]) -> SinkProgress:
        """Ask every sink where it stands, and have those hold on to it that Kafka could make forget it."""
        source_partitions = [each.source_partition for each in available]
        settled = self.checkpoint.settled(committed, source_partitions)
        progress = sink_progress.read(self.spec.name, self.stores, committed, source_partitions, settled)
        for name, store in self.stores.items():
            store.hold(progress.held[name])
        return progress

    def replaced(self, changed: dict[SourcePartition, tuple[int, int]]) -> list[OffsetRange]:
        """Find what was read from a leader whose log the present one has not."""
        return self.source.replaced(changed) if changed else []

    @property
    def _is_refresh_due(self) -> bool:
        return time.monotonic() - self._refreshed_at >= _REFRESH_S

    def _refresh(self, progress: SinkProgress) -> None:
        """Commit every position in Kafka again, now and then: one that is never touched is forgotten in the end."""
        if self._is_refresh_due:
            for store in self.stores.values():
                store.refresh()
            self.lag_report.report(
                {
                    source_partition: progress.start(source_partition)
                    for source_partition in progress.expected[SINK_NAME]
                }
            )
            self._refreshed_at = time.monotonic()

    def _awaited(
        self, committed: Committed, targets: Positions | None, on_progress: OnProgress
    ) -> list[AvailableRange]:
        """Look at the source until a batch is full or has waited long enough; say once that there is nothing."""
        wait_s = self.spec.max_wait_ms / 1000 if targets is None else 0.0
        pending_since = None
        while True:
            available = self.source.available()
            has_lost_one = self._topics.see(available)
            if targets is not None or has_lost_one:
                return available
            pending = self._lag(committed, available)
            if not pending and not self._is_idle:
                self._is_idle = True
                on_progress(Progress(None, 0, is_idle=True))
            if pending and pending_since is None:
                pending_since = time.monotonic()
            waited = pending_since is not None and time.monotonic() - pending_since >= wait_s
            is_full = pending >= self.spec.batch.max_events
            if waited or is_full or self.stopping.is_set() or self._is_refresh_due:
                return available
            self.stopping.wait(_POLL_S if pending_since is None else min(_POLL_S, wait_s))

    def _require_same_cluster(self, committed: Committed) -> None:
        sink_progress.require_same_cluster(self.spec.name, committed.cluster_id, self.cluster_id)

    def _require_alone(self, progress: SinkProgress) -> None:
        """Stop if a sink has moved since this driver's last batch: another driver is at work."""
        for name, left in self._left.items():
            found = {source_partition: at for source_partition, at in progress.expected[name].items() if at is not None}
            left_at = {
                source_partition: at
                for source_partition, at in left.items()
                if source_partition in progress.expected[name]
            }
            if self.stores[name].positions_expire:
                # Another driver would have left a position; where there is none, Kafka has forgotten it.
                left_at = {
                    source_partition: at for source_partition, at in left_at.items() if source_partition in found
                }
            # How far a batch got that failed, only the sink knows; but it cannot have got beyond its own end.
            own = {
                source_partition
                for source_partition, at in left_at.items()
                if at < found.get(source_partition, 0) <= self._tried.get(source_partition, 0)
            }
            require_unmoved(
                name,
                {source_partition: at for source_partition, at in left_at.items() if source_partition not in own},
                found,
            )

    def _commit(self, committed: Committed, progress: SinkProgress, report: BatchReport) -> Committed:
        sinks = {name: dict(positions) for name, positions in committed.sinks.items()}
        for name in self.stores:
            for source_partition, end in report.ends.items():
                sinks.setdefault(name, {})[source_partition] = max(end, progress.resume_offsets[name][source_partition])
        done = replace(committed, batch=report.batch, sinks=sinks)
        self.checkpoint.commit(done)
        crash_point("committed")
        self._tried, self._moved = {}, 0
        self._left = {
            name: {
                source_partition: sinks[name][source_partition]
                for source_partition in report.ends
                if source_partition.in_kafka
            }
            for name in progress.kept
        }
        return done

    def _lag(self, committed: Committed, available: list[AvailableRange]) -> int:
        committed, names = sink_progress.with_new_partitions(committed, available), (*self.spec.sink_names, SINK_NAME)
        return sum(max(0, each.end - committed.lowest(names, each.source_partition)) for each in available)


def _up_to(targets: Positions, available: list[AvailableRange]) -> list[AvailableRange]:
    """Leave out what came after the driver started."""
    return [
        AvailableRange(each.source_partition, each.first, min(each.end, targets.get(each.source_partition, each.first)))
        for each in available
    ]


def _schema_of(job: SparkJob, reserved: list[object]) -> object:
    import pyarrow as pa

    return pa.schema([*(job.schema.field(name) for name in job.columns), *reserved])
