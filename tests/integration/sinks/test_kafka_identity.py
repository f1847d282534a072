"""Positions of a Kafka sink are true of one topic: of another with the same name they say nothing."""

from pathlib import Path

import pytest

from penstock.delivery import sink_progress
from penstock.delivery.checkpoint import Committed
from penstock.errors import PositionLost
from penstock.kafka import topics
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec

from conftest import RunningKafka
from support.kafka_sink import opened, prepared, source_of


def made_again(kafka: RunningKafka, topic: str) -> None:
    topics.delete(kafka.admin(), topic)
    topics.create(kafka.admin(), topic, TopicSpec(partitions=1))


def test_a_topic_that_was_made_again_has_lost_its_positions_even_if_all_was_settled(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    target, source_partition = kafka.topic("identity"), source_of(kafka, "identity-in")
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
    target, source_partition = kafka.topic("identity-batch"), source_of(kafka, "identity-batch-in")
    sink = opened(kafka, tmp_path, target)
    sink.positions([source_partition])
    prepared(sink, source_partition, 0, 5, None)
    made_again(kafka, target)

    with pytest.raises(PositionLost, match="was deleted and recreated"):
        sink.commit()
    sink.close()

    assert [] == read_all(kafka.connection, target)
