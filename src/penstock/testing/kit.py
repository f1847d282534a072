"""Runs a pipeline over a list of messages, without a broker and without a server.

Guarantee: decoding, steps, handlers, expectations and conditions are the code that runs in production, over the same
columns; only reading and writing differ. Where the pipeline has SQL, Spark itself runs it; where it has none, no JVM
starts. What a sink's server would refuse, such as a value that breaks a constraint of the database, is not checked
here.
"""

import datetime
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from penstock.clock import clock
from penstock.errors import BadInput
from penstock.pipeline.check import problems
from penstock.pipeline.handlers import Pipeline
from penstock.pipeline.load import load
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.records import records
from penstock.testing.dry_run import Outcome, dry_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOPIC = "messages"


@dataclass(frozen=True)
class Record:
    """A message to send through a pipeline, with more than a value."""

    value: Any
    key: bytes | str | None = None
    headers: dict[str, bytes | str] = field(default_factory=dict)
    timestamp: datetime.datetime | None = None
    partition: int = 0


def run(
    pipeline: PipelineSpec | type[Pipeline] | Path, messages: Iterable[Any], *, spark: "SparkSession | None" = None
) -> Outcome:
    """Send messages through a pipeline and see what comes out.

    A message is a dictionary or a list, which is sent as JSON; text or bytes, sent as they are; None, a tombstone; or a
    `Record` with key, headers, time and partition. Spark is started if the pipeline has SQL, unless one is given.
    """
    spec, folder = _understood(pipeline)
    listed = [each if isinstance(each, Record) else Record(each) for each in messages]
    partitions = sorted({each.partition for each in listed}) or [0]
    reader = _MemoryReader({each: _columns(listed, each) for each in partitions})
    offset_ranges = [OffsetRange(_source_partition(each), 0, reader.count(each)) for each in partitions]
    return dry_run(spec, folder, reader, offset_ranges, spark)


def _understood(pipeline: PipelineSpec | type[Pipeline] | Path) -> tuple[PipelineSpec, Path]:
    if isinstance(pipeline, Path):
        return load(pipeline), pipeline.resolve().parent
    if isinstance(pipeline, PipelineSpec):
        spec, folder = pipeline, Path.cwd()
    else:
        module_file = getattr(sys.modules[pipeline.__module__], "__file__", None)
        spec, folder = pipeline.spec(), Path(module_file).parent if module_file else Path.cwd()
    errors = [each.text for each in problems(spec, folder) if each.level == "error"]
    if errors:
        raise BadInput("\n".join(errors))
    return spec, folder


def _source_partition(partition: int) -> SourcePartition:
    return SourcePartition(_TOPIC, _TOPIC, partition)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def _columns(listed: list[Record], partition: int) -> pa.RecordBatch:
    chosen = [each for each in listed if each.partition == partition]
    times = [each.timestamp or clock().now() for each in chosen]
    return records(
        _source_partition(partition),
        offsets=pa.array(range(len(chosen)), pa.int64()),
        timestamps_ms=pa.array(times, pa.timestamp("ms", tz="UTC")).cast(pa.int64()),
        keys=pa.array([_bytes(each.key) for each in chosen], pa.binary()),
        values=pa.array([_bytes(each.value) for each in chosen], pa.binary()),
        headers=[[(name, _bytes(value)) for name, value in each.headers.items()] for each in chosen],
    )


@dataclass(frozen=True)
class _MemoryReader:
    """Reads what is in memory; travels to Spark's tasks with it."""

    batches: dict[int, pa.RecordBatch]

    def count(self, partition: int) -> int:
        return int(self.batches[partition].num_rows)

    def chunks(
        self, offset_range: OffsetRange, _max_bytes: int | None = None, _rejected: Collection[int] = ()
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        yield (
            self.batches[offset_range.source_partition.partition].slice(
                offset_range.start, offset_range.end - offset_range.start
            ),
            offset_range.end,
        )
