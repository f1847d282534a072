"""One batch, from a plan to every sink's commit.

The order is the guarantee. Tasks stage. Every sink prepares, and may still refuse rows. Topic ids are looked at
once more. Dead letters are committed first, which fixes the verdict on every record; then each sink; then the
checkpoint; then the lag is reported. Whatever is killed in between, the positions show what is left to do.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from penstock.delivery.crash_points import crash_point
from penstock.delivery.dead_letters import SINK_NAME, DeadLetters
from penstock.delivery.sink_progress import SinkProgress
from penstock.driver.failures import cause_of, job_errors
from penstock.driver.poison import PoisonSearch
from penstock.driver.spark_job import SparkJob
from penstock.errors import BatchAborted, NotFound, PenstockError, PipelineHalted, RetentionPassed, TopicRecreated
from penstock.pipeline.spec import PipelineSpec
from penstock.record.decoded import RecordError, record_error
from penstock.record.manifest import Manifest, added_up
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.sink import Sink, Staged
from penstock.sources.source import Source
from penstock.steps.code_line import in_brackets
from penstock.wording import plural
from penstock.worker.assembly import tasks_of
from penstock.worker.tasks import RECORDED, RejectedRecords


@dataclass(frozen=True)
class SinkCount:
    """What one sink got of a batch. read = written + dead + dropped."""

    read: int
    written: int
    dead: int
    dropped: int


@dataclass(frozen=True)
class BatchReport:
    """What one batch did."""

    batch: int
    read: int
    dead: int
    sinks: dict[str, SinkCount]
    rules: dict[str, int]
    ends: Positions
    seconds: float
    starts: Positions = field(default_factory=dict)
    """With `ends`, the offsets that it read; empty if Spark keeps them itself."""
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds by stage: the Spark job, preparing the sinks, committing."""
    handlers: dict[str, Any] = field(default_factory=dict)
    """What handlers did: messages, failed, retries, batches by batcher and trigger, seconds."""
    state_rows: int | None = None
    """Rows in the state of a stateful pipeline."""


@dataclass
class Parts:
    """What a batch needs; made once per driver."""

    spec: PipelineSpec
    source: Source
    job: SparkJob
    sinks: list[Sink]
    dead: DeadLetters
    notes: Path
    stopping: Event


def run_batch(parts: Parts, number: int, offset_ranges: list[OffsetRange], progress: SinkProgress) -> BatchReport:
    """Run one whole batch, or raise; the positions show everything that was done."""
    began = time.monotonic()
    rejected: list[RejectedRecords] = [{} for _ in offset_ranges]
    recorded = _recorded(parts.dead, offset_ranges, progress)
    for index, offset_range in enumerate(offset_ranges):
        for offset, sink in recorded.get(offset_range.source_partition, ()):
            rejected[index].setdefault(offset, {})[sink] = record_error(RECORDED, "judged dead before", stage="dead")
    while True:
        read, write = tasks_of(
            parts.spec,
            parts.source.reader(),
            {sink.name: sink.stager() for sink in parts.sinks},
            parts.dead.stager(),
            offset_ranges,
            progress.resume_offsets,
            rejected,
            recorded,
        )
        started = time.monotonic()
        try:
            manifests = parts.job.manifests(read, write)
        except job_errors() as error:
            cause = cause_of(error)
            if isinstance(cause, NotFound | RetentionPassed):
                _require_same_topics(parts, offset_ranges)  # a topic that is gone, or another one, says more
            if cause is not None:
                raise cause from None
            if parts.stopping.is_set():
                # Ctrl-C reaches the workers too: what they died of is no record's fault.
                raise BatchAborted("stopped in the middle of a batch", safe="Nothing of it was written") from None
            for index, offset, problem in PoisonSearch(parts.job, read, write, parts.notes).poison_records(error):
                _require_first_time(
                    parts.spec.name, offset_ranges[index].source_partition, offset, problem, rejected[index]
                )
                rejected[index].setdefault(offset, {})[None] = problem
            continue
        _require_all(manifests, len(offset_ranges))
        _require_rules_kept(parts.spec, manifests, offset_ranges)
        done = time.monotonic()
        staged = _staged(parts, offset_ranges, progress, manifests)
        if not _prepared(parts, offset_ranges, progress, staged, rejected):
            continue
        break
    counts = _counted(parts, offset_ranges, progress, manifests)
    crash_point("prepared")
    ends = {offset_ranges[each.index].source_partition: each.end for each in manifests}
    _require_same_topics(parts, offset_ranges)
    prepared = time.monotonic()
    dead = _commit(parts, progress, manifests, staged, ends)
    stages = {"job": done - started, "prepare": prepared - done, "commit": time.monotonic() - prepared}
    return BatchReport(
        batch=number,
        read=sum(each.summary.read[offset_ranges[each.index].start] for each in manifests),
        dead=dead,
        sinks=counts,
        rules=dict(sum((Counter(each.rules) for each in manifests), Counter())),
        ends=ends,
        starts={each.source_partition: each.start for each in offset_ranges},
        seconds=time.monotonic() - began,
        stages={name: round(seconds, 6) for name, seconds in stages.items()},
        handlers=added_up(each.summary.handlers for each in manifests),
    )


def _recorded(
    dead: DeadLetters, offset_ranges: list[OffsetRange], progress: SinkProgress
) -> dict[SourcePartition, set[tuple[int, str | None]]]:
    """After a crash between the commits of the dead letters and of a sink, find what was judged already."""
    judged = [
        OffsetRange(
            each.source_partition,
            each.start,
            min(each.end, progress.resume_offsets[SINK_NAME][each.source_partition])
            if each.source_partition.in_kafka
            else each.end,
        )
        for each in offset_ranges
        if progress.resume_offsets[SINK_NAME][each.source_partition] > each.start or not each.source_partition.in_kafka
    ]
    return dead.recorded(judged)


def _require_first_time(
    pipeline: str, source_partition: SourcePartition, offset: int, problem: RecordError, rejected: RejectedRecords
) -> None:
    """Raise if a record that was rejected still makes the job fail: retrying would never end."""
    if None in rejected.get(offset, {}):
        raise PipelineHalted(
            f"the record at {source_partition} offset {offset} makes the job fail even as a dead letter:"
            f" {problem['message']}{in_brackets(problem.get('line'))}",
            safe="Nothing of this batch was written",
            fix=f"To continue without it, run: penstock pipeline skip {pipeline}"
            f" {source_partition.topic}:{source_partition.partition}:{offset} --reason 'why'",
        )


def _require_all(manifests: list[Manifest], count: int) -> None:
    """Raise if Spark says that the job is done, and an offset range has no report, or two."""
    if sorted(each.index for each in manifests) != list(range(count)):
        raise BatchAborted(
            f"Spark returned {plural(len(manifests), 'report')} for {plural(count, 'task')}",
            safe="Nothing of this batch was written",
        )


def _require_rules_kept(spec: PipelineSpec, manifests: list[Manifest], offset_ranges: list[OffsetRange]) -> None:
    for each in manifests:
        if each.summary.stopped is not None:
            offset, problem = each.summary.stopped
            raise PipelineHalted(
                f"a handler of pipeline '{spec.name}' failed at {offset_ranges[each.index].source_partition}"
                f" offset {offset},"
                f" and `on_failure` says to stop: {problem}",
                safe="Nothing of this batch was written",
                fix="Fix the handler or the data's source; then start again",
            )
        if each.failed_rule is not None:
            rule, offset = each.failed_rule
            raise PipelineHalted(
                f"the expectation '{rule}' of pipeline '{spec.name}' is broken at"
                f" {offset_ranges[each.index].source_partition}"
                f" offset {offset}, and says to stop",
                safe="Nothing of this batch was written",
                fix="Fix the data's source or the rule; then start again",
            )


def _staged(
    parts: Parts, offset_ranges: list[OffsetRange], progress: SinkProgress, manifests: list[Manifest]
) -> dict[str, list[Staged]]:
    """Group what the winning tasks staged by sink; a sink that is past an offset range does not get it."""
    staged: dict[str, list[Staged]] = {sink.name: [] for sink in parts.sinks}
    for each in manifests:
        source_partition = offset_ranges[each.index].source_partition
        for name, part in each.sinks.items():
            start = progress.resume_offsets[name][source_partition]
            if each.end > start:
                staged[name].append(Staged(OffsetRange(source_partition, start, each.end), part.rows, part.detail))
    return staged


def _prepared(
    parts: Parts,
    offset_ranges: list[OffsetRange],
    progress: SinkProgress,
    staged: dict[str, list[Staged]],
    rejected: list[RejectedRecords],
) -> bool:
    """Prepare every sink; if one refuses rows, reject those for it and say that the batch must run again."""
    index_of = {offset_range.source_partition: index for index, offset_range in enumerate(offset_ranges)}
    for sink in parts.sinks:
        expected = {
            each.offset_range.source_partition: progress.expected[sink.name][each.offset_range.source_partition]
            for each in staged[sink.name]
        }
        refusals = sink.prepare(staged[sink.name], expected)
        for refusal in refusals:
            rejected[index_of[refusal.source_partition]].setdefault(refusal.offset, {})[sink.name] = refusal.error
        if refusals:
            for each in parts.sinks:
                each.abandon()
            return False
    return True


def _require_same_topics(parts: Parts, offset_ranges: list[OffsetRange]) -> None:
    """Check once more, because a topic can be recreated between two batches."""
    current = parts.source.topic_ids()
    for offset_range in offset_ranges:
        found = current.get(offset_range.source_partition.topic)
        if found is None:
            # Only a pattern goes on without it: the next look lets go of the topic, and a new batch has the others.
            raise BatchAborted(
                f"topic '{offset_range.source_partition.topic}' was deleted while a batch was running",
                safe="Nothing of this batch was written",
            )
        if found != offset_range.source_partition.topic_id:
            raise TopicRecreated(
                f"topic '{offset_range.source_partition.topic}' was deleted and recreated while a batch was running",
                safe="Nothing of this batch was written",
                fix=f"To read the new one from its start, run: penstock pipeline skip-gap {parts.spec.name}",
            )


def _commit(
    parts: Parts,
    progress: SinkProgress,
    manifests: list[Manifest],
    staged: dict[str, list[Staged]],
    ends: Positions,
) -> int:
    expected = progress.expected[SINK_NAME]
    moving = {
        source_partition: max(end, progress.resume_offsets[SINK_NAME][source_partition])
        for source_partition, end in ends.items()
    }
    files = [Path(each.dead["file"]) for each in manifests if each.dead["file"]]
    dead = parts.dead.commit(
        files, {source_partition: expected[source_partition] for source_partition in moving}, moving
    )
    crash_point("sink_committed", SINK_NAME)
    for sink in parts.sinks:
        if staged[sink.name]:
            sink.commit()
        crash_point("sink_committed", sink.name)
    return dead


def _counted(
    parts: Parts, offset_ranges: list[OffsetRange], progress: SinkProgress, manifests: list[Manifest]
) -> dict[str, SinkCount]:
    """Settle the account of every sink: what was read for it is written, dead or dropped."""
    counts = {}
    for sink in parts.sinks:
        read = written = dead = dropped = 0
        for each in manifests:
            part = each.sinks[sink.name]
            here = each.summary.read[progress.resume_offsets[sink.name][offset_ranges[each.index].source_partition]]
            left_out = here - part.rows - part.dead - part.dropped
            if left_out < 0 or (left_out and not parts.job.can_filter):
                raise PenstockError(
                    f"a defect in Penstock: sink '{sink.name}' has {-left_out} events more than were read"
                )
            read, written, dead = read + here, written + part.rows, dead + part.dead
            dropped += part.dropped + left_out
        counts[sink.name] = SinkCount(read, written, dead, dropped)
    return counts
