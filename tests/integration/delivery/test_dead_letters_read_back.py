"""Dead letters that are read back while a sink is filled again, batch by batch."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from penstock.delivery import dead_letters
from penstock.delivery.dead_letter import understand as real
from penstock.delivery.dead_letters import DeadLetters
from penstock.kafka import topics
from penstock.kafka.topic_limits import limits_of
from penstock.record.columns import ERROR
from penstock.record.decoded import record_error
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.record.records import records

from conftest import RunningKafka


def dead_letter(
    dead: DeadLetters, source_partition: SourcePartition, offsets: range, end: int, expected: int | None = None
) -> None:
    """Do what a batch does with records that all failed."""
    count = len(offsets)
    rows = records(
        source_partition,
        offsets=pa.array(offsets, pa.int64()),
        timestamps_ms=pa.repeat(pa.scalar(1_700_000_000_000, pa.int64()), count),
        keys=pa.nulls(count, pa.binary()),
        values=pa.array([b"poison"] * count, pa.binary()),
        headers=[None] * count,
    )
    rows = rows.set_column(0, "_topic", pa.repeat(source_partition.topic.removesuffix(".dead"), count))
    stager = dead.stager()(OffsetRange(source_partition, offsets.start, end))
    stager.write(rows, pa.array([record_error("Malformed", "no JSON")] * count, ERROR), None)
    dead.commit([Path(stager.finish()["file"])], {source_partition: expected}, {source_partition: end})


def test_each_letter_is_read_back_once_however_many_batches_ask(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic("refill", partitions=2)
    source_partition = SourcePartition(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    dead = DeadLetters(kafka.connection, topic, "{topic}.dead", tmp_path, f"penstock.{topic}.dead")
    dead.open({f"{topic}.dead": 2})
    dead_letter(dead, source_partition, range(0, 200, 2), 200)
    read: list[int] = []

    def understand(message: Message) -> Any:
        read.append(int(message.offset() or 0))
        return real(message)

    monkeypatch.setattr(dead_letters, "understand", understand)

    batches = [
        dead.recorded([OffsetRange(source_partition, start, start + 20)])[source_partition]
        for start in range(0, 200, 20)
    ]
    read_for_refill = len(read)
    dead_letter(dead, source_partition, range(201, 204), 210, 200)
    later = dead.recorded([OffsetRange(source_partition, 200, 210)])
    read_later = len(read)
    dead.close()

    assert [{(at, None) for at in range(start, start + 20, 2)} for start in range(0, 200, 20)] == batches
    assert (100, 103) == (read_for_refill, read_later)
    assert {source_partition: {(201, None), (202, None), (203, None)}} == later


def test_what_failed_again_in_a_replay_is_read_back_too(kafka: RunningKafka, tmp_path: Path) -> None:
    topic = kafka.topic("again")
    dead = DeadLetters(kafka.connection, topic, "{topic}.dead", tmp_path, f"penstock.{topic}.dead.replay-1")
    dead.open({f"{topic}.dead": 1})
    source_partition = SourcePartition(f"{topic}.dead", "replay-1", 0)
    dead_letter(dead, source_partition, range(3), 5)

    found = dead.recorded([OffsetRange(source_partition, 0, 5)])
    dead.close()

    assert {source_partition: {(0, None), (1, None), (2, None)}} == found


def test_a_dead_letter_topic_that_somebody_made_takes_large_letters_unless_its_own_settings_say_otherwise(
    kafka: RunningKafka,
) -> None:
    plain, small = kafka.topic("plain.dead"), kafka.topic("small.dead", config={"max.message.bytes": 2000})

    dead_letters.make_topics(kafka.admin(), {plain: 1, small: 1})

    limits = [limits_of(kafka.admin(), name) for name in (plain, small)]
    assert [(100_000_000, 2**63 - 1), (2000, 2**63 - 1)] == [(each.max_bytes, each.after_ms) for each in limits]
