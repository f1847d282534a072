"""The driver: one batch after the other, until nothing is left to read, or until it is stopped.

Why a loop of our own and not Spark's streaming query: the query's offset log knows no topic ids, skips records of a
topic that was recreated, and reads every record through the JVM. Spark does what it is best at: it distributes the work
and runs the SQL.
"""

import time
from dataclasses import replace

from penstock.delivery import sink_progress
from penstock.delivery.checkpoint import Committed
from penstock.delivery.crash_points import crash_point
from penstock.delivery.dead_letters import SINK_NAME
from penstock.delivery.sink_progress import SinkProgress
from penstock.driver import session
from penstock.driver.batch import BatchReport, run_batch
from penstock.driver.opened import OpenedPipeline
from penstock.driver.own_positions import OwnPositions
from penstock.driver.paths import OnProgress, Progress
from penstock.driver.pattern import PatternTopics
from penstock.driver.rate import RateLimit
from penstock.errors import (
    LogTruncated,
    NotFound,
    PositionsMoved,
    SchemaChanged,
    TopicRecreated,
    Transient,
)
from penstock.record.available_range import AvailableRange
from penstock.record.positions import Positions

_FIRST_POLL_S, _POLL_S = 0.01, 0.2
_LOOK_AGAIN_S = 5.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
# Kafka forgets offsets and transactional ids that were not used for a week, or what its administrator says.
_REFRESH_S = 600.0


class Runner(OpenedPipeline):
    """Runs one pipeline, batch by batch."""

    def run(self, on_progress: OnProgress) -> None:
        """Run batches until caught up (`speed: scheduled`) or stopped. Outages are waited for, up to a limit."""
        while True:
            try:
                self._run(on_progress)
            except SchemaChanged as change:
                on_progress(Progress(None, -1, waiting_for=str(change)))
                self.learn(change)
                self._reopen()
            else:
                return

    def _reopen(self) -> None:
        """Open again with the new columns. The registry answered a moment ago: if it does not now, wait for it."""
        pause_s, began = _FIRST_PAUSE_S, time.monotonic()
        while True:
            try:
                self.reopen()
            except Transient:
                if self.stopping.is_set() or time.monotonic() - began > self.spec.retry.give_up_after / 1000:
                    raise
                self.stopping.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            else:
                return

    def _run(self, on_progress: OnProgress) -> None:
        self._own, self._moved = OwnPositions(), 0
        self._rate = RateLimit(self.spec.rate, self.paths.folder)
        self._refreshed_at, self._is_idle, self._is_lag_new = time.monotonic(), False, True
        self._are_sinks_compared = False
        self._topics = PatternTopics(self.source, self.checkpoint, self.paths, list(self.stores))
        self._topics.see(self.available)
        committed = self._topics.without_deleted(self.begin(), self.available, self.require_same_cluster)
        self.take_over()
        bounded = self.spec.speed == "scheduled" or self.replay is not None
        targets = {each.source_partition: each.end for each in self.available} if bounded else None
        pause_s, failing_since, truncated = _FIRST_PAUSE_S, None, False
        while not self.stopping.is_set():
            try:
                committed, more = self._step_if_newest(committed, targets, on_progress)
                for sink in self.sinks:
                    sink.maintain()
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
                is_waited_for = not isinstance(error, SchemaChanged) and not session.has_died()
                if not is_waited_for or waited_s > self.spec.retry.give_up_after / 1000:
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
        """Run one batch, and read the positions again if a sink has moved without a newer driver.

        1. An older driver has committed its dead letters. 2. This one takes over, and reads the sinks' positions.
        3. The older one commits the same batch to its sinks, which know no fence, and ends at its next dead letters.
        4. This one finds the sinks moved. If it ended, too, none would be left.
        """
        try:
            return self._step(committed, targets, on_progress)
        except (TopicRecreated, NotFound):
            self.require_same_cluster(committed)  # if that is another one, so are its topics
            raise
        except PositionsMoved:
            self._moved += 1
            if self._moved > len(self.sinks) or not self.dead.holds_fence():
                raise
        self._own.forget()
        for sink in self.sinks:
            sink.abandon()
        return committed, True

    def _step(self, committed: Committed, targets: Positions | None, on_progress: OnProgress) -> tuple[Committed, bool]:
        """Run one batch if there is enough to read; return whether there may be more."""
        found = self._awaited(committed, targets, on_progress)
        committed = self._topics.without_deleted(committed, found, self.require_same_cluster)
        allowed = self._rate.allowance()
        if allowed == 0:
            self.stopping.wait(_POLL_S)
            return committed, targets is None or self.lag(committed, _up_to(targets, found)) > 0
        available = found if targets is None else _up_to(targets, found)
        sink_progress.require_same_topics(
            self.spec.name,
            committed,
            {each.source_partition.topic: each.source_partition.topic_id for each in available},
        )
        committed = sink_progress.with_new_partitions(committed, available)
        progress = self.sink_progress(committed, available)
        if forgotten := progress.forgotten():
            # Put back before a batch begins: what an unfinished one has moved, the checkpoint does not know.
            for name in forgotten:
                self.stores[name].refresh()
            progress = self.sink_progress(committed, available)
        self._own.require_alone(progress, self.stores)
        # Against what the source holds, not against the targets: a sink may be past those, if another driver was here.
        sink_progress.require_readable(self.spec.name, progress, found, self.source.log_end)
        committed, changed = sink_progress.with_new_leaders(committed, found)
        sink_progress.require_not_replaced(self.spec.name, self.replaced(changed))
        self._are_sinks_compared = True
        most = self.spec.batch.max_events
        offset_ranges = sink_progress.plan(progress, available, most if allowed is None else min(most, allowed))
        if not offset_ranges:
            self._refresh(progress)
            return committed, False
        number = committed.batch + 1
        self.dead.open(self.dead_topics(available))
        recorded = sink_progress.recorded(progress, committed, self.targets, found)
        if recorded != committed:
            committed = recorded
            self.checkpoint.commit(committed)
        self.keep_topics(committed)
        self.checkpoint.plan(number, offset_ranges)
        crash_point("planned")
        self._own.trying(offset_ranges)
        report = run_batch(self.parts, number, offset_ranges, progress)
        self._rate.take(report.read)
        committed = self._commit(committed, progress, report)
        stands_at = [{**progress.resume_offsets[name], **committed.sinks[name]} for name in self.stores]
        self._refreshed_at = time.monotonic()
        self.lag_report.report(
            {each.source_partition: min(at[each.source_partition] for at in stands_at) for each in available}
        )
        on_progress(Progress(report, self.lag(committed, available)))
        return committed, True

    @property
    def _is_refresh_due(self) -> bool:
        return time.monotonic() - self._refreshed_at >= _REFRESH_S

    def _refresh(self, progress: SinkProgress) -> None:
        """Commit every position in Kafka again, now and then: Kafka forgets those that are not used."""
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
        """Poll the source until a batch is full or has waited long enough; report once that there is nothing."""
        wait_s = self.spec.max_wait_ms / 1000 if targets is None else 0.0
        pending_since, poll_s = None, _FIRST_POLL_S
        while True:
            available = sink_progress.with_removed_files(committed, self.source.available(), self.stores)
            has_lost_one = self._topics.see(available)
            if targets is not None or has_lost_one:
                return available
            pending = self.lag(committed, available)
            if not pending and not self._are_sinks_compared:
                # By the checkpoint nothing waits; but a sink may have lost rows, or its table, since that was written.
                return available
            if not pending and not self._is_idle:
                self._is_idle = True
                on_progress(Progress(None, 0, is_idle=True))
            if pending and pending_since is None:
                pending_since = time.monotonic()
                if self._is_lag_new:
                    # Spark starts with the first batch: for some seconds there is no other word of what waits.
                    on_progress(Progress(None, pending))
                    self._is_lag_new = False
            waited = pending_since is not None and time.monotonic() - pending_since >= wait_s
            is_full = pending >= self.spec.batch.max_events
            if waited or is_full or self.stopping.is_set() or self._is_refresh_due:
                return available
            # Events that come soon after a batch are found soon; a source that stays idle is asked less and less often.
            self.stopping.wait(poll_s if pending_since is None else min(_POLL_S, wait_s))
            poll_s = min(2 * poll_s, _POLL_S)

    def _commit(self, committed: Committed, progress: SinkProgress, report: BatchReport) -> Committed:
        sinks = {name: dict(positions) for name, positions in committed.sinks.items()}
        for name in self.stores:
            for source_partition, end in report.ends.items():
                sinks.setdefault(name, {})[source_partition] = max(end, progress.resume_offsets[name][source_partition])
        done = replace(committed, batch=report.batch, sinks=sinks, ran=tuple(self.stores))
        self.checkpoint.commit(done)
        crash_point("committed")
        self._moved = 0
        in_kafka = [each for each in report.ends if each.in_kafka]
        self._own.left_at({name: {each: sinks[name][each] for each in in_kafka} for name in progress.kept})
        return done


def _up_to(targets: Positions, available: list[AvailableRange]) -> list[AvailableRange]:
    """Leave out what came after the driver started."""
    return [
        AvailableRange(each.source_partition, each.first, min(each.end, targets.get(each.source_partition, each.first)))
        for each in available
    ]
