"""A pipeline's tasks over some records, with nothing written anywhere: what the test kit and `preview` are made of.

Guarantee: decoding, steps, handlers, expectations and conditions are the code that runs in production, over the same
columns; only reading and writing differ. Where the pipeline has SQL, Spark analyses it, and runs it where workers
cannot; where it has none, no JVM starts.
"""

import base64
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.driver import brief_spark
from penstock.errors import BadInput, PenstockError, PipelineHalted, SchemaChanged
from penstock.pipeline.spec import PipelineSpec
from penstock.record.decoded import RecordError
from penstock.record.manifest import COLUMN, Manifest, added_up
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sources.source import PartitionReader
from penstock.steps.code_line import in_brackets
from penstock.steps.step import StepContext
from penstock.steps.user_code import error_from
from penstock.worker.assembly import tasks_of
from penstock.worker.tasks import Chain, ReadTask, Task, WriteTask, event_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.driver.placement import PlacedExpression

_ORIGIN = "_offset"


@dataclass(frozen=True)
class Dead:
    """A dead letter."""

    partition: int
    offset: int
    value: bytes | None
    stage: str
    error: str
    message: str
    sink: str | None
    """The one sink that it could not go to; None if it went to none."""
    line: str | None = None
    """The line of the user's code that raised it, as file:line and its text."""
    topic: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a pipeline made of its messages. For each sink, read = rows + dead + dropped."""

    read: int
    sinks: dict[str, list[dict[str, Any]]]
    """Rows by sink: the user's columns, partition by partition in the order of the messages."""
    origins: dict[str, list[tuple[SourcePartition, int]]]
    """For each of these rows, partition and offset of the record that it came from."""
    dead: list[Dead]
    dropped: dict[str, int]
    rules: dict[str, int]
    """How many rows broke each expectation."""
    handlers: dict[str, Any]
    """What the handlers did: messages, failed, dropped, batches by batcher and trigger."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the only sink."""
        if len(self.sinks) != 1:
            raise BadInput(f"there are {len(self.sinks)} sinks: say which, as in outcome.sinks['name']")
        return next(iter(self.sinks.values()))


def dry_run(
    spec: PipelineSpec,
    folder: Path,
    reader: PartitionReader,
    offset_ranges: list[OffsetRange],
    spark: "SparkSession | None" = None,
    analysis: Path | None = None,
) -> Outcome:
    """Send the records of these ranges through a pipeline; no sink, checkpoint or topic is touched.

    What Spark finds out about the SQL is kept in the file `analysis`, if one is named, and not asked again.
    """
    if spec.is_stateful:
        raise BadInput("a stateful pipeline works on a table: try it with Spark and a small table")
    spec = spec.resolved()
    with tempfile.TemporaryDirectory(prefix="penstock-testing-") as scratch:
        read, write = tasks_of(
            spec,
            reader,
            dict.fromkeys(spec.sink_names, _MemoryStager),
            _DeadStager,
            offset_ranges,
            resume_offsets={
                name: {each.source_partition: each.start for each in offset_ranges} for name in spec.sink_names
            },
            rejected=[{} for _ in offset_ranges],
            recorded={},
        )
        try:
            manifests = _manifests(spec, folder, Path(scratch), read, write, spark, analysis)
        except SchemaChanged as change:
            if not change.columns:
                raise
            return dry_run(spec.with_columns(change.columns), folder, reader, offset_ranges, spark, analysis)
    return _outcome(spec, offset_ranges, manifests)


class _MemoryStager:
    """Keeps rows, and hands them over with the manifest."""

    def __init__(self, _offset_range: OffsetRange) -> None:
        self._batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch, offsets: pa.Array, /) -> list[tuple[int, RecordError]]:
        users = [name for name in rows.schema.names if not name.startswith("_")]
        self._batches.append(rows.select(users).append_column(_ORIGIN, offsets))
        return []

    def finish(self) -> dict[str, Any]:
        return {"rows": _packed(self._batches)}


class _DeadStager:
    """Keeps dead letters, and hands them over with the manifest."""

    def __init__(self, _offset_range: OffsetRange) -> None:
        self._letters: list[dict[str, Any]] = []

    def write(self, rows: pa.RecordBatch, errors: pa.Array, sink: str | None) -> None:
        for row, problem in zip(rows.to_pylist(), errors.to_pylist(), strict=True):
            value = row["_value"]
            self._letters.append(
                {
                    "topic": row["_topic"],
                    "partition": row["_partition"],
                    "offset": row["_offset"],
                    "value": None if value is None else base64.b64encode(value).decode(),
                    **problem,
                    "sink": sink,
                }
            )

    def finish(self) -> dict[str, Any]:
        return {"file": None, "letters": self._letters}


def _packed(batches: list[pa.RecordBatch]) -> str:
    buffer = pa.BufferOutputStream()
    if batches:
        with pa.ipc.new_stream(buffer, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
    return base64.b64encode(buffer.getvalue().to_pybytes()).decode()


def _unpacked(text: str) -> list[dict[str, Any]]:
    content = base64.b64decode(text)
    listed = pa.ipc.open_stream(content).read_all().to_pylist(maps_as_pydicts="strict") if content else []
    return [dict(row) for row in listed]


def _manifests(
    spec: PipelineSpec,
    folder: Path,
    scratch: Path,
    read: ReadTask,
    write: WriteTask,
    spark: "SparkSession | None",
    analysis: Path | None,
) -> list[Manifest]:
    if spark is None and not needs_spark(spec):
        return [_in_process(spec, folder, scratch, read, write, index) for index in range(len(read.offset_ranges))]
    from penstock.driver.failures import cause_of, in_words, job_errors
    from penstock.driver.spark_job import SparkJob

    try:
        with _explained():
            job = SparkJob(
                spec, (lambda: spark) if spark else partial(brief_spark.session, spec.spark), folder, scratch, analysis
            )
            return job.manifests_in_process(read, write)
    except job_errors() as error:
        raise cause_of(error) or _failed(in_words(error)) from None


def placement(spec: PipelineSpec, folder: Path) -> list["PlacedExpression"]:
    """Let Spark look at the SQL of a pipeline, and say of each expression where it runs; nothing is read."""
    if spec.is_stateful or spec.speed == "realtime" or not needs_spark(spec):
        return []
    from penstock.driver.spark_job import SparkJob

    with tempfile.TemporaryDirectory(prefix="penstock-check-") as scratch:
        return SparkJob(spec.resolved(), brief_spark.starter(spec.spark), folder, Path(scratch)).placement.expressions


def is_answered(spec: PipelineSpec, folder: Path, analysis: Path) -> bool:
    """Return whether all SQL of a pipeline runs in this process, and all that Spark has to say about it is kept."""
    from penstock.driver.spark_job import SparkJob

    def refuse() -> "SparkSession":
        raise _NotAnsweredError

    try:
        with tempfile.TemporaryDirectory(prefix="penstock-testing-") as scratch:
            placed = SparkJob(spec.resolved(), refuse, folder, Path(scratch), analysis).placement.expressions
    except Exception:  # noqa: BLE001 - whatever is wrong with the pipeline is reported by the run
        return False
    return not any(each.reason for each in placed)


class _NotAnsweredError(Exception):
    """Only Spark could answer."""


@contextmanager
def _explained() -> Iterator[None]:
    """Turn an exception that a component raises, and that no record causes, into an error that says so."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        # By name: where there is no SQL, neither is loaded.
        if type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        found = error_from(error)
        raise _failed(f"{found['error']}: {found['message']}{in_brackets(found.get('line'))}") from error


def needs_spark(spec: PipelineSpec) -> bool:
    """Return whether a pipeline has SQL, which Spark alone understands."""
    return bool(spec.expect) or any(sink.where for sink in spec.sinks) or any(step.is_sql for step in spec.steps)


def _in_process(
    spec: PipelineSpec, folder: Path, scratch: Path, read: ReadTask, write: WriteTask, index: int
) -> Manifest:
    """Run the tasks that a Python worker of Spark would run, one after the other."""
    schema, steps = event_schema(read.decode), list[Task]()
    for step in spec.steps:
        task = step.open(StepContext(schema, folder, scratch / "notes"))
        schema = task.schema
        steps.append(task)
    with _explained():
        (manifest,) = Chain([read, *steps, write]).run(iter(()), index)
    return Manifest.read(manifest.column(COLUMN)[0].as_py())


def _failed(reason: str) -> PipelineHalted:
    return PipelineHalted(f"the pipeline fails on these records: {reason}", safe="Nothing was written")


def _outcome(spec: PipelineSpec, offset_ranges: list[OffsetRange], manifests: list[Manifest]) -> Outcome:
    for each in manifests:
        stop = each.summary.stopped or (each.failed_rule and each.failed_rule[::-1])
        if stop:
            raise PipelineHalted(f"the pipeline stops at message {stop[0]}: {stop[1]}")
    rows = {
        name: [
            (each.source_partition, row)
            for each, manifest in zip(offset_ranges, manifests, strict=True)
            for row in _unpacked(manifest.sinks[name].detail["rows"])
        ]
        for name in spec.sink_names
    }
    origins = {name: [(partition, row.pop(_ORIGIN)) for partition, row in listed] for name, listed in rows.items()}
    letters = [letter for each in manifests for letter in each.dead["letters"]]
    count = sum(each.summary.read[part.start] for part, each in zip(offset_ranges, manifests, strict=True))
    dead_of = {name: sum(each.sinks[name].dead for each in manifests) for name in spec.sink_names}
    return Outcome(
        read=count,
        sinks={name: [row for _, row in listed] for name, listed in rows.items()},
        origins=origins,
        dead=[
            Dead(**{**each, "value": None if each["value"] is None else base64.b64decode(each["value"])})
            for each in letters
        ],
        dropped={name: count - len(rows[name]) - dead_of[name] for name in spec.sink_names},
        rules=dict(sum((Counter(each.rules) for each in manifests), Counter())),
        handlers=added_up(each.summary.handlers for each in manifests),
    )
