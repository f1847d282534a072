"""What runs inside Spark's tasks: reading and decoding at one end, staging for every sink at the other.

One task handles one offset range of one partition, from its first to its last event, in order. Between them
lie the user's steps. A task may run twice; it touches nothing but staged files and rows, and what it did is
reported to the driver in a manifest, of which only the winning attempt's arrives.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.decoders.decoder import DecoderContext, DecoderModel
from penstock.delivery.crash_points import crash_point
from penstock.delivery.dead_envelope import NOT_READ
from penstock.errors import PenstockError
from penstock.pipeline.expectation import Expectation
from penstock.record.columns import ERROR, SUMMARY, rule_column, user_columns, whole_rows, whole_schema
from penstock.record.decoded import RecordError, record_error
from penstock.record.manifest import COLUMN, Manifest, SinkPart, TaskSummary
from penstock.record.positions import OffsetRange
from penstock.sinks.sink import Stager, StagerFactory
from penstock.sources.source import PartitionReader

DOT = "\ue000"
"""What stands for a dot in names on their way to Python: PySpark would take `a.b` for a field of a struct."""

Task = Callable[[Iterator[pa.RecordBatch], int], Iterator[pa.RecordBatch]]
RejectedRecords = dict[int, dict[str | None, RecordError]]
"""Errors that were found before the task began: by offset, then by sink, or None for all sinks."""

RECORDED = "Recorded"
"""The error of a record that is a dead letter already."""


class Chain:
    """Several tasks in one Python worker, so that rows do not go to the JVM and back in between."""

    def __init__(self, tasks: list[Task]) -> None:
        self._tasks = tasks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks one after the other, on the offset range of Spark's task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.run(batches, context.partitionId() if context is not None else 0)

    def manifests(self, numbers: Iterable[int]) -> Iterator[str]:
        """Run the tasks, which take no rows from the JVM, on the offset ranges of these numbers."""
        for index in numbers:
            for batch in self.run(iter(()), index):
                yield from batch.column(COLUMN).to_pylist()

    def run(self, batches: Iterator[pa.RecordBatch], index: int) -> Iterator[pa.RecordBatch]:
        """Run the tasks one after the other, on one offset range."""
        batches = map(_with_dots, batches)
        for task in self._tasks:
            batches = task(batches, index)
        return _with_known_errors(batches)


def _with_known_errors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Raise a user's subclass of `Transient` as ours: the driver knows errors only by name."""
    try:
        yield from batches
    except PenstockError as error:
        ours = next(each for each in type(error).__mro__ if each.__module__ == PenstockError.__module__)
        raise ours(str(error)) from error


def _with_dots(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.rename_columns([name.replace(DOT, ".") for name in batch.schema.names])


def event_schema(decode: DecoderModel) -> pa.Schema:
    """Return the columns of an event as decoding gives them."""
    return whole_schema(decode.arrow_schema)


@dataclass(frozen=True)
class ReadTask:
    """Reads an offset range and decodes it."""

    reader: PartitionReader
    decode: DecoderModel
    offset_ranges: list[OffsetRange]
    rejected: list[RejectedRecords]
    counted_from: list[list[int]]
    """Per offset range, the offsets from which some sink still needs events: how many were read is counted for each."""
    max_bytes: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch], index: int) -> Iterator[pa.RecordBatch]:
        """Return the events as rows, and at the end one row that says what was read."""
        for _ in batches:
            pass
        schema = event_schema(self.decode)
        offset_range, rejected = self.offset_ranges[index], self.rejected[index]
        decoder = self.decode.open(DecoderContext(offset_range.source_partition))
        read = dict.fromkeys(self.counted_from[index], 0)
        reached = offset_range.start
        passed_over = _passed_over(rejected)
        for raw, reached in self.reader.chunks(offset_range, self.max_bytes, passed_over):  # noqa: B007 - reported at the end
            if not raw.num_rows:
                continue
            offsets = raw.column("_at").to_numpy()
            for start in read:
                read[start] += int((offsets >= start).sum())
            decoded = decoder.decode(raw.column("_value").to_pylist())
            _reject(decoded.record_errors, offsets, raw, rejected)
            errors = pa.array(decoded.record_errors, ERROR)
            batch = whole_rows(decoded.columns, raw, errors, schema)
            if any(decoded.dropped):
                kept = [
                    not each or bool(record_error)
                    for each, record_error in zip(decoded.dropped, decoded.record_errors, strict=True)
                ]
                batch = batch.filter(pa.array(kept))
            yield batch
        yield TaskSummary(read=read, end=reached).row(schema)

    def on(self, index: int, start: int, end: int) -> "ReadTask":
        """Return the same over a part of one offset range, whatever its size."""
        part = replace(self.offset_ranges[index], start=start, end=end)
        return replace(self, offset_ranges=[part], rejected=[self.rejected[index]], counted_from=[[]], max_bytes=None)


def _passed_over(rejected: RejectedRecords) -> set[int]:
    """Return the offsets to skip: reading them fails, or no sink needs them any more."""
    judged = ((offset, record_errors.get(None)) for offset, record_errors in rejected.items())
    return {
        offset
        for offset, record_error in judged
        if record_error is not None and record_error["error"] in (RECORDED, NOT_READ)
    }


def _reject(
    record_errors: list[RecordError | None], offsets: Any, raw: pa.RecordBatch, rejected: RejectedRecords
) -> None:
    if "_error" in raw.schema.names:
        for number, found in enumerate(raw.column("_error").to_pylist()):
            record_errors[number] = found or record_errors[number]
    if rejected:
        for number, offset in enumerate(offsets.tolist()):
            found = rejected.get(offset, {}).get(None)
            if found is not None:
                record_errors[number] = found


class DrainTask:
    """Consumes rows and does nothing: to find out whether the steps can handle them."""

    def __call__(self, batches: Iterator[pa.RecordBatch], _index: int) -> Iterator[pa.RecordBatch]:
        """Reach the end, and report nothing."""
        for _ in batches:
            pass
        yield from ()

    def on(self, _index: int, _start: int, _end: int) -> "DrainTask":
        """Return itself: it is the same for every offset range."""
        return self


@dataclass(frozen=True)
class SinkTask:
    """What a task needs to know of one sink."""

    name: str
    stager: StagerFactory
    reserved_columns: tuple[str, ...]
    where: str | None
    """Name of the column that says whether a row meets the sink's condition."""
    resume_offsets: list[int]
    """Per offset range, the sink's position: rows before it were written already."""


class DeadStager(Protocol):
    """Stages dead letters."""

    def write(self, rows: pa.RecordBatch, errors: pa.Array, sink: str | None) -> None:
        """Add one dead letter per row."""

    def finish(self) -> dict[str, Any]:
        """Make them durable, and return what the driver needs to find them."""


@dataclass(frozen=True)
class DeadTask:
    """What a task needs to know of the dead letters."""

    stager: Callable[[OffsetRange], DeadStager]
    recorded: list[set[tuple[int, str | None]]]
    """Per offset range, the offsets and sinks that are dead letters already, from a batch that did not end."""


@dataclass
class _Counts:
    rows: int = 0
    dead: int = 0
    dropped: int = 0


@dataclass
class _Progress:
    """What one task has done so far."""

    stagers: dict[str, Stager]
    dead: DeadStager
    recorded: set[tuple[int, str | None]]
    counts: dict[str, _Counts]
    rules: dict[str, int]
    summary: TaskSummary = field(default_factory=TaskSummary)
    failed_rule: tuple[str, int] | None = None


@dataclass(frozen=True)
class WriteTask:
    """Splits good rows from failed ones, and stages each for every sink that it goes to."""

    sinks: list[SinkTask]
    dead: DeadTask
    rules: list[Expectation]
    offset_ranges: list[OffsetRange]
    rejected: list[RejectedRecords]
    driver_pid: int

    def __call__(self, batches: Iterator[pa.RecordBatch], index: int) -> Iterator[pa.RecordBatch]:
        """Stage everything; return one row, the manifest."""
        offset_range = self.offset_ranges[index]
        progress = _Progress(
            stagers={sink.name: sink.stager(offset_range) for sink in self.sinks},
            dead=self.dead.stager(offset_range),
            recorded=self.dead.recorded[index],
            counts={sink.name: _Counts() for sink in self.sinks},
            rules={rule.name: 0 for rule in self.rules},
        )
        for batch in batches:
            self._chunk(batch, index, progress)
            crash_point("writing", pid=self.driver_pid)
        details = {name: stager.finish() for name, stager in progress.stagers.items()}
        dead = progress.dead.finish()
        manifest = Manifest(
            index=index,
            summary=progress.summary,
            sinks={
                name: SinkPart(count.rows, count.dead, count.dropped, details[name])
                for name, count in progress.counts.items()
            },
            dead=dead,
            rules=progress.rules,
            failed_rule=progress.failed_rule,
        )
        yield manifest.row()

    def on(self, index: int, start: int, end: int) -> "WriteTask":
        """Return the same for a part of one offset range."""
        return replace(
            self,
            sinks=[replace(sink, resume_offsets=[sink.resume_offsets[index]]) for sink in self.sinks],
            dead=replace(self.dead, recorded=[self.dead.recorded[index]]),
            offset_ranges=[replace(self.offset_ranges[index], start=start, end=end)],
            rejected=[self.rejected[index]],
        )

    def _chunk(self, batch: pa.RecordBatch, index: int, progress: _Progress) -> None:
        stages = pc.struct_field(batch.column("_error"), "stage")
        summaries = _mask(pc.equal(stages, SUMMARY))
        if summaries.any():
            progress.summary = progress.summary.with_rows(batch.filter(pa.array(summaries)).column("_error"))
        failed = _mask(pc.is_valid(stages)) & ~summaries
        good = ~failed & ~summaries
        offsets = batch.column("_at").fill_null(-1).to_numpy()
        self._dead_letter(batch, failed, batch.column("_error"), progress, None)
        for sink in self.sinks:
            later = offsets >= sink.resume_offsets[index]
            progress.counts[sink.name].dead += int((failed & later).sum())
        for number, rule in enumerate(self.rules):
            good = self._judge(batch, good, number, rule, index, progress)
        for sink in self.sinks:
            self._stage(batch, good, sink, index, progress)

    def _judge(
        self, batch: pa.RecordBatch, good: Any, number: int, rule: Expectation, index: int, progress: _Progress
    ) -> Any:
        """Apply one expectation; return the rows that are still good."""
        broken = good & ~_mask(batch.column(rule_column(number)))
        if not broken.any():
            return good
        progress.rules[rule.name] += int(broken.sum())
        offsets = batch.column("_at").fill_null(-1).to_numpy()
        if rule.otherwise == "warn":
            return good
        if rule.otherwise == "fail":
            progress.failed_rule = progress.failed_rule or (rule.name, int(offsets[broken][0]))
            return good
        if rule.otherwise == "dead_letter":
            problem = record_error("ExpectationFailed", f"{rule.name}: {rule.that}", stage="expect")
            self._dead_letter(batch, broken, pa.array([problem] * batch.num_rows, ERROR), progress, None)
        for sink in self.sinks:
            count = int((broken & (offsets >= sink.resume_offsets[index])).sum())
            counts = progress.counts[sink.name]
            if rule.otherwise == "dead_letter":
                counts.dead += count
            else:
                counts.dropped += count
        return good & ~broken

    def _stage(self, batch: pa.RecordBatch, good: Any, sink: SinkTask, index: int, progress: _Progress) -> None:
        counts = progress.counts[sink.name]
        offsets = batch.column("_at").fill_null(-1).to_numpy()
        wanted = good & (offsets >= sink.resume_offsets[index])
        meant = wanted & _mask(
            pc.or_kleene(pc.is_null(batch.column("_sink")), pc.equal(batch.column("_sink"), sink.name))
        )
        if sink.where is not None:
            meant &= _mask(batch.column(sink.where))
        counts.dropped += int((wanted & ~meant).sum())
        record_errors: dict[int, RecordError] = {}
        for position in np.flatnonzero(meant).tolist() if self.rejected[index] else []:
            found = self.rejected[index].get(int(offsets[position]), {}).get(sink.name)
            if found is not None:
                record_errors[position] = found
                meant[position] = False
        where = np.flatnonzero(meant)
        rows, at = batch.select([*user_columns(batch.schema.names), *sink.reserved_columns]), batch.column("_at")
        if len(where) < batch.num_rows:  # to take all is to copy them
            rows, at = rows.take(pa.array(where)), at.take(pa.array(where))
        refused = progress.stagers[sink.name].write(rows, at) if len(where) else []
        record_errors |= {int(where[position]): problem for position, problem in refused}
        counts.rows += len(where) - len(refused)
        counts.dead += len(record_errors)
        if record_errors:
            marked = np.zeros(batch.num_rows, dtype=bool)
            marked[list(record_errors)] = True
            problems = pa.array([record_errors.get(position) for position in range(batch.num_rows)], ERROR)
            self._dead_letter(batch, marked, problems, progress, sink.name)

    def _dead_letter(
        self, batch: pa.RecordBatch, chosen: Any, errors: pa.Array, progress: _Progress, sink: str | None
    ) -> None:
        """Stage dead letters; those that are in the topic already, from an earlier try, are not written again."""
        if not chosen.any():
            return
        positions = np.flatnonzero(chosen).tolist()
        offsets = batch.column("_at").take(pa.array(positions)).to_pylist()
        sinks = [sink or meant for meant in batch.column("_sink").take(pa.array(positions)).to_pylist()]
        keep = [
            position
            for position, offset, name in zip(positions, offsets, sinks, strict=True)
            if (offset, name) not in progress.recorded
        ]
        if keep:
            progress.dead.write(batch.take(pa.array(keep)), errors.take(pa.array(keep)), sink)


def _mask(values: pa.Array) -> Any:
    return values.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
