"""Positions of a Kafka sink are true of one topic: of another with the same name they say nothing."""

from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from penstock.delivery import sink_progress
from penstock.delivery.checkpoint import Committed
from penstock.errors import PositionLost
from penstock.kafka import topics
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec
from penstock.record.columns import RESERVED
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.kafka import Kafka, KafkaSink
from penstock.sinks.sink import SinkContext, Staged

from conftest import RunningKafka

SCHEMA = pa.schema([("id", pa.int64()), *(RESERVED.field(name) for name in Kafka(topic="any").reserved_columns)])


def no_spark() -> NoReturn:
    raise AssertionError


def opened(kafka: RunningKafka, folder: Path, target: str) -> KafkaSink:
    sink = Kafka(topic=target).open(SinkContext("out", target, kafka.connection, folder, no_spark))
    sink.open(SCHEMA)
    return sink


def prepared(sink: KafkaSink, source_partition: SourcePartition, start: int, end: int, expected: int | None) -> None:
    """Do what a task and the driver do with a batch of one row."""
    row = {
        "id": start,
        "_topic_id": source_partition.topic_id,
        "_partition": 0,
        "_offset": start,
        "_timestamp_ms": 1001,
    }
    stager = sink.stager()(OffsetRange(source_partition, start, end))
    assert [] == stager.write(pa.RecordBatch.from_pylist([row], SCHEMA), pa.array([start]))
    assert [] == sink.prepare(
        [Staged(OffsetRange(source_partition, start, end), 1, stager.finish())], {source_partition: expected}
    )


def made_again(kafka: RunningKafka, topic: str) -> None:
    topics.delete(kafka.admin(), topic)
    topics.create(kafka.admin(), topic, TopicSpec(partitions=1))


def test_a_topic_that_was_made_again_has_lost_its_positions_even_if_all_was_settled(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    target, source = kafka.topic("identity"), kafka.topic("identity-in")
    source_partition = SourcePartition(source, topics.describe(kafka.admin(), source).topic_id, 0)
    first = opened(kafka, tmp_path, target)
    assert {} == first.positions([source_partition])
    prepared(first, source_partition, 0, 5, None)
    first.commit()
    assert {source_partition: 5} == first.positions([source_partition])
    first.close()
    made_again(kafka, target)

    second = opened(kafka, tmp_path, target)
    committed = Committed(1, {source_partition: 0}, {"out": {source_partition: 5}})
    with pytest.raises(PositionLost, match=r"sink 'out' had everything of .* before offset 5.* topic was dropped"):
        sink_progress.read("p", {"out": second}, committed, [source_partition], [source_partition])
    # What a rebuild does: the sink has no position, and none that could have expired. It is filled from the start.
    assert ({}, False) == (second.positions([source_partition]), second.positions_expire)
    prepared(second, source_partition, 0, 5, None)
    second.commit()
    found = (second.positions([source_partition]), second.positions_expire)
    second.close()

    assert ({source_partition: 5}, True) == found
    assert 1 == len(read_all(kafka.connection, target))


def test_a_topic_that_is_made_again_during_a_batch_gets_nothing_of_it(kafka: RunningKafka, tmp_path: Path) -> None:
    target, source = kafka.topic("identity-batch"), kafka.topic("identity-batch-in")
    source_partition = SourcePartition(source, topics.describe(kafka.admin(), source).topic_id, 0)
    sink = opened(kafka, tmp_path, target)
    sink.positions([source_partition])
    prepared(sink, source_partition, 0, 5, None)
    made_again(kafka, target)

    with pytest.raises(PositionLost, match="was deleted and recreated"):
        sink.commit()
    sink.close()

    assert [] == read_all(kafka.connection, target)
