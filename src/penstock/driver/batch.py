"""One batch, from a plan to every sink's commit.

The order is the guarantee. Tasks stage aside. Every sink prepares, and may still refuse rows. Topic ids are looked at
once more. Dead letters are committed first, which fixes the verdict on every record; then each sink; then the
checkpoint; then the lag is told. Whatever dies in between, the positions say what is left to do.
"""

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import orjson

from penstock.delivery.crash_points import crash_point
from penstock.delivery.dead_letters import SINK_NAME, DeadLetters
from penstock.delivery.standing import Standing
from penstock.driver.failures import cause_of, job_errors
from penstock.driver.poison import Isolation
from penstock.driver.spark_job import Frame
from penstock.errors import BatchAborted, NotFound, PenstockError, PipelineHalted, RetentionPassed, TopicRecreated
from penstock.pipeline.spec import PipelineSpec
from penstock.record.available_range import Extent
from penstock.record.columns import where_column
from penstock.record.decoded import Fault, fault
from penstock.record.positions import Place, Positions, Stretch
from penstock.sinks.sink import Sink, Staged
from penstock.worker.tasks import RECORDED, DeadTask, Reader, ReadTask, RejectedRecords, SinkTask, WriteTask, added_up


class Feed(Protocol):
    """The driver's view of a source."""

    def extents(self) -> list[Extent]:
        """Look up what the source holds now."""

    def topic_ids(self) -> dict[str, str]:
        """Ask for the topics' ids alone."""

    def starts(self, extents: list[Extent]) -> Positions:
        """Settle where a new pipeline begins."""

    def reader(self) -> Reader:
        """Give what tasks read with."""


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
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds by stage: the Spark job, preparing the sinks, committing."""
    handlers: dict[str, Any] = field(default_factory=dict)
    """What handlers did: messages, failed, retries, batches by batcher and trigger, seconds."""
    state_rows: int | None = None
    """Rows in the state of a stateful pipeline."""


@dataclass
class Parts:
    """What a batch works with; made once per driver."""

    spec: PipelineSpec
    feed: Feed
    frame: Frame
    sinks: list[Sink]
    dead: DeadLetters
    notes: Path
    stopping: Event


def run_batch(parts: Parts, number: int, stretches: list[Stretch], standing: Standing) -> BatchReport:
    """Run one batch to its end, or raise with nothing half done that the positions do not tell."""
    began = time.monotonic()
    rejected: list[RejectedRecords] = [{} for _ in stretches]
    recorded = _recorded(parts.dead, stretches, standing)
    for index, stretch in enumerate(stretches):
        for offset, sink in recorded.get(stretch.place, ()):
            rejected[index].setdefault(offset, {})[sink] = fault(RECORDED, "judged dead before", stage="dead")
    while True:
        read, write = _tasks(parts, stretches, standing, rejected, recorded)
        started = time.monotonic()
        try:
            manifests = [orjson.loads(each) for each in parts.frame.manifests(read, write)]
        except job_errors() as error:
            cause = cause_of(error)
            if isinstance(cause, NotFound | RetentionPassed):
                _require_same_topics(parts, stretches)  # a topic that is gone, or another one, says more
            if cause is not None:
                raise cause from None
            if parts.stopping.is_set():
                # Ctrl-C reaches the workers too: what they died of is no record's fault.
                raise BatchAborted("stopped in the middle of a batch", safe="Nothing of it was written") from None
            for index, offset, problem in Isolation(parts.frame, read, write, parts.notes).poison_records(error):
                _require_first_time(parts.spec.name, stretches[index].place, offset, problem, rejected[index])
                rejected[index].setdefault(offset, {})[None] = problem
            continue
        _require_rules_kept(parts.spec, manifests, stretches)
        done = time.monotonic()
        staged = _staged(parts, stretches, standing, manifests)
        if not _prepared(parts, stretches, standing, staged, rejected):
            continue
        break
    counts = _counted(parts, stretches, standing, manifests)
    crash_point("prepared")
    ends = {stretches[each["index"]].place: int(each["end"]) for each in manifests}
    _require_same_topics(parts, stretches)
    prepared = time.monotonic()
    dead = _commit(parts, standing, manifests, staged, ends)
    stages = {"job": done - started, "prepare": prepared - done, "commit": time.monotonic() - prepared}
    return BatchReport(
        batch=number,
        read=sum(int(each["read"][str(stretches[each["index"]].start)]) for each in manifests),
        dead=dead,
        sinks=counts,
        rules=dict(sum((Counter(each["rules"]) for each in manifests), Counter())),
        ends=ends,
        seconds=time.monotonic() - began,
        stages={name: round(seconds, 6) for name, seconds in stages.items()},
        handlers=added_up([each["handlers"] for each in manifests if "handlers" in each]),
    )


def _recorded(
    dead: DeadLetters, stretches: list[Stretch], standing: Standing
) -> dict[Place, set[tuple[int, str | None]]]:
    """After a crash between the dead letters' commit and a sink's, find what was judged already."""
    judged = [
        Stretch(
            each.place,
            each.start,
            min(each.end, standing.trims[SINK_NAME][each.place]) if each.place.in_kafka else each.end,
        )
        for each in stretches
        if standing.trims[SINK_NAME][each.place] > each.start or not each.place.in_kafka
    ]
    return dead.recorded(judged)


def _require_first_time(pipeline: str, place: Place, offset: int, problem: Fault, rejected: RejectedRecords) -> None:
    """Raise if a record that is condemned already still makes the job fail: that would never end."""
    if None in rejected.get(offset, {}):
        raise PipelineHalted(
            f"the record at {place} offset {offset} makes the job fail even as a dead letter: {problem['message']}",
            safe="Nothing of this batch was written",
            fix=f"To go on without it, run: penstock pipeline skip {pipeline}"
            f" {place.topic}:{place.partition}:{offset} --reason 'why'",
        )


def _tasks(
    parts: Parts,
    stretches: list[Stretch],
    standing: Standing,
    rejected: list[RejectedRecords],
    recorded: dict[Place, set[tuple[int, str | None]]],
) -> tuple[ReadTask, WriteTask]:
    spec = parts.spec
    read = ReadTask(
        reader=parts.feed.reader(),
        decode=spec.decode,  # type: ignore[arg-type]  # the frame was made, so there is one
        stretches=stretches,
        rejected=rejected,
        counted_from=[sorted({each.start, *_trims_at(standing, each)}) for each in stretches],
        max_bytes=max(1, spec.batch.max_bytes // len(stretches)),
    )
    sinks = [
        SinkTask(
            name=sink.name,
            stager=sink.stager(),
            reserved_columns=model.reserved_columns,
            where=where_column(position) if model.where else None,
            trims=[standing.trims[sink.name][each.place] for each in stretches],
        )
        for position, (sink, model) in enumerate(zip(parts.sinks, spec.sinks, strict=True))
    ]
    dead = DeadTask(
        stager=parts.dead.stager(),
        recorded=[recorded.get(each.place, set()) for each in stretches],
    )
    write = WriteTask(sinks, dead, spec.expect, stretches, rejected, driver_pid=os.getpid())
    return read, write


def _trims_at(standing: Standing, stretch: Stretch) -> list[int]:
    return [positions[stretch.place] for positions in standing.trims.values()]


def _require_rules_kept(spec: PipelineSpec, manifests: list[dict[str, Any]], stretches: list[Stretch]) -> None:
    for each in manifests:
        if each.get("stopped"):
            offset, problem = each["stopped"]
            raise PipelineHalted(
                f"a handler of pipeline '{spec.name}' failed at {stretches[each['index']].place} offset {offset},"
                f" and `on_failure` says to stop: {problem}",
                safe="Nothing of this batch was written",
                fix="Mend the handler or the data's source; then start again",
            )
        if each["failed_rule"] is not None:
            rule, offset = each["failed_rule"]
            raise PipelineHalted(
                f"the expectation '{rule}' of pipeline '{spec.name}' is broken at {stretches[each['index']].place}"
                f" offset {offset}, and says to stop",
                safe="Nothing of this batch was written",
                fix="Mend the data's source or the rule; then start again",
            )


def _staged(
    parts: Parts, stretches: list[Stretch], standing: Standing, manifests: list[dict[str, Any]]
) -> dict[str, list[Staged]]:
    """Sort what the winning tasks left by sink; a sink that is ahead of a stretch has nothing to do with it."""
    staged: dict[str, list[Staged]] = {sink.name: [] for sink in parts.sinks}
    for each in manifests:
        place, end = stretches[each["index"]].place, int(each["end"])
        for name, told in each["sinks"].items():
            start = standing.trims[name][place]
            if end > start:
                staged[name].append(Staged(Stretch(place, start, end), told["rows"], told["detail"]))
    return staged


def _prepared(
    parts: Parts,
    stretches: list[Stretch],
    standing: Standing,
    staged: dict[str, list[Staged]],
    rejected: list[RejectedRecords],
) -> bool:
    """Prepare every sink; if one refuses rows, condemn those for it and say that the batch must run again."""
    index_of = {stretch.place: index for index, stretch in enumerate(stretches)}
    for sink in parts.sinks:
        expected = {each.stretch.place: standing.expected[sink.name][each.stretch.place] for each in staged[sink.name]}
        refusals = sink.prepare(staged[sink.name], expected)
        for refusal in refusals:
            rejected[index_of[refusal.place]].setdefault(refusal.offset, {})[sink.name] = refusal.fault
        if refusals:
            for each in parts.sinks:
                each.abandon()
            return False
    return True


def _require_same_topics(parts: Parts, stretches: list[Stretch]) -> None:
    """Look once more, for a topic can be made anew between two batches."""
    current = parts.feed.topic_ids()
    for stretch in stretches:
        found = current.get(stretch.place.topic)
        if found is None:
            # Only a pattern goes on without it: the next look lets go of the topic, and a new batch has the others.
            raise BatchAborted(
                f"topic '{stretch.place.topic}' was deleted while a batch was running",
                safe="Nothing of this batch was written",
            )
        if found != stretch.place.topic_id:
            raise TopicRecreated(
                f"topic '{stretch.place.topic}' was deleted and made again while a batch was running",
                safe="Nothing of this batch was written",
                fix=f"To read the new one from its start, run: penstock pipeline skip-gap {parts.spec.name}",
            )


def _commit(
    parts: Parts,
    standing: Standing,
    manifests: list[dict[str, Any]],
    staged: dict[str, list[Staged]],
    ends: Positions,
) -> int:
    expected = standing.expected[SINK_NAME]
    moving = {place: max(end, standing.trims[SINK_NAME][place]) for place, end in ends.items()}
    files = [Path(each["dead"]["file"]) for each in manifests if each["dead"]["file"]]
    dead = parts.dead.commit(files, {place: expected[place] for place in moving}, moving)
    crash_point("sink_committed", SINK_NAME)
    for sink in parts.sinks:
        if staged[sink.name]:
            sink.commit()
        crash_point("sink_committed", sink.name)
    return dead


def _counted(
    parts: Parts, stretches: list[Stretch], standing: Standing, manifests: list[dict[str, Any]]
) -> dict[str, SinkCount]:
    """Settle the account of every sink: what was read for it is written, dead or dropped."""
    counts = {}
    for sink in parts.sinks:
        read = written = dead = dropped = 0
        for each in manifests:
            told = each["sinks"][sink.name]
            here = int(each["read"][str(standing.trims[sink.name][stretches[each["index"]].place])])
            left_out = here - told["rows"] - told["dead"] - told["dropped"]
            if left_out < 0 or (left_out and not parts.frame.can_filter):
                raise PenstockError(
                    f"a defect in Penstock: sink '{sink.name}' has {-left_out} events more than were read"
                )
            read, written, dead = read + here, written + told["rows"], dead + told["dead"]
            dropped += told["dropped"] + left_out
        counts[sink.name] = SinkCount(read, written, dead, dropped)
    return counts
