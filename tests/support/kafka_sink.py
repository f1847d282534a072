"""A Kafka sink without a pipeline: what a task and the driver do with a batch, one row long."""

from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from penstock.kafka import topics
from penstock.record.columns import RESERVED
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.kafka import Kafka, KafkaSink
from penstock.sinks.sink import SinkContext, Staged

from conftest import RunningKafka

SCHEMA = pa.schema([("id", pa.int64()), *(RESERVED.field(name) for name in Kafka(topic="any").reserved_columns)])


def no_spark() -> NoReturn:
    raise AssertionError


def source_of(kafka: RunningKafka, name: str, partition: int = 0) -> SourcePartition:
    """Make a source topic, and give a partition of it."""
    topic = kafka.topic(name, partitions=partition + 1)
    return SourcePartition(topic, topics.describe(kafka.admin(), topic).topic_id, partition)


def opened(kafka: RunningKafka, folder: Path, target: str, name: str = "out", replay_suffix: str = "") -> KafkaSink:
    """Open a sink of the pipeline `target-p`."""
    context = SinkContext(name, f"{target}-p", kafka.connection, folder, no_spark, replay_suffix)
    sink = Kafka(topic=target).open(context)
    sink.open(SCHEMA)
    return sink


def prepared(sink: KafkaSink, source_partition: SourcePartition, start: int, end: int, expected: int | None) -> None:
    """Do what a task and the driver do with a batch of one row."""
    row = {
        "id": start,
        "_topic_id": source_partition.topic_id,
        "_partition": source_partition.partition,
        "_offset": start,
        "_timestamp_ms": 1001,
        "_key": str(start).encode(),
    }
    stager = sink.stager()(OffsetRange(source_partition, start, end))
    assert [] == stager.write(pa.RecordBatch.from_pylist([row], SCHEMA), pa.array([start]))
    assert [] == sink.prepare(
        [Staged(OffsetRange(source_partition, start, end), 1, stager.finish())], {source_partition: expected}
    )
