"""Positions of a Kafka sink that Kafka has forgotten: the rows in its topic know them, or nobody does."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, TopicPartition

from penstock.errors import CheckpointLost, Conflict, PositionLost
from penstock.kafka import groups, topics
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import repair
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import Positions, SourcePartition
from penstock.sinks.sink import NOTHING_KNOWN, Recovery

from conftest import RunningKafka
from support.kafka_sink import opened, prepared, source_of
from support.pipelines import Lab, dying
from support.postgres_driver import ask


@dataclass(frozen=True)
class Written:
    """A topic that has rows of offsets 0 to 4, whose group Kafka has forgotten."""

    kafka: RunningKafka
    folder: Path
    target: str
    source_partition: SourcePartition

    def recovered(self, recovery: Recovery = NOTHING_KNOWN, *others: SourcePartition) -> Positions | None:
        sink = opened(self.kafka, self.folder, self.target)
        try:
            sink.take_over()
            sink.recover([*others, self.source_partition], recovery)
            sink.refresh()
            return sink.positions([*others, self.source_partition])
        finally:
            sink.close()


@pytest.fixture
def written(kafka: RunningKafka, tmp_path: Path) -> Written:
    made = Written(kafka, tmp_path, kafka.topic("rows", partitions=2), source_of(kafka, "rows-in", 1))
    sink = opened(kafka, tmp_path, made.target)
    for at in range(5):
        sink.positions([made.source_partition])
        prepared(sink, made.source_partition, at, at + 1, at or None)
        sink.commit()
    sink.close()
    groups.delete(kafka.admin(), f"penstock.{made.target}-p.out")
    return made


def forget(lab: Lab, pipeline: str, *sinks: str) -> None:
    """Have Kafka forget what it remembers of a pipeline."""
    for suffix in ("", ".dead", *(f".{sink}" for sink in sinks or ("kafka",))):
        groups.delete(lab.kafka.admin(), f"penstock.{pipeline}{suffix}")


def old_copy(lab: Lab, spec: PipelineSpec, *more: bytes) -> None:
    """Let a pipeline land offsets 0 to 5 and more, and have the checkpoint of offsets 0 to 2 again."""
    checkpoint = lab.home(spec.name).checkpoint
    lab.send_ids(spec.name, range(3))
    lab.run(spec)
    shutil.copytree(checkpoint, lab.folder / "copy")
    lab.send_ids(spec.name, range(3, 6))
    lab.send(spec.name, *more)
    lab.run(spec)
    shutil.rmtree(checkpoint)
    shutil.copytree(lab.folder / "copy", checkpoint)


def empty(lab: Lab, target: str) -> None:
    """Delete all records of a topic, as retention would."""
    admin = lab.kafka.admin()
    admin.results(admin.client.delete_records([TopicPartition(target, 0, OFFSET_END)]), "purging")


def ids(lab: Lab, target: str) -> list[int]:
    return sorted(json.loads(each.value() or b"")["id"] for each in read_all(lab.connection, target))


def test_a_rebuild_goes_on_behind_the_rows_and_letters_that_are_there(lab: Lab) -> None:
    topic, target = lab.kafka.topic("forgotten", partitions=2), lab.kafka.topic("forgotten-out", partitions=2)
    spec = lab.spec(topic, sinks=[{"type": "kafka", "topic": target}])
    lab.send_ids(topic, range(5))
    lab.send_ids(topic, range(5, 8), partition=1)
    lab.run(spec)
    lab.send_ids(topic, range(8, 11))
    lab.send(topic, b"poison", b"poison", partition=1)
    with dying("sink_committed:dead"):
        lab.run(spec)
    shutil.rmtree(lab.home(topic).checkpoint)
    forget(lab, topic)
    lab.send_ids(topic, range(11, 13), partition=1)

    with pytest.raises(CheckpointLost, match="sink 'kafka' was written to"):
        lab.run(spec)
    with lab.runner(spec) as runner:
        repair.rebuild(runner)
    lab.run(spec)

    assert list(range(13)) == ids(lab, target)
    assert 2 == len(lab.letters(topic))


def test_an_old_copy_of_the_checkpoint_is_noticed_by_the_rows_and_letters_that_are_there(lab: Lab) -> None:
    topic, target = lab.kafka.topic("old-copy"), lab.kafka.topic("old-copy-out")
    spec = lab.spec(topic, sinks=[{"type": "kafka", "topic": target}])
    old_copy(lab, spec, b"poison")
    forget(lab, topic)

    with pytest.raises(PositionLost, match=rf"an old copy.*penstock pipeline rebuild {topic}"):
        lab.run(spec)
    with lab.runner(spec) as runner:
        repair.rebuild(runner)
    lab.run(spec)

    assert list(range(6)) == ids(lab, target)
    assert 1 == len(lab.letters(topic))


def test_another_sink_shows_that_a_checkpoint_is_an_old_copy(lab: Lab) -> None:
    topic, target = lab.kafka.topic("two-sinks"), lab.kafka.topic("two-sinks-out")
    sinks = [{"type": "kafka", "topic": target}, {"type": "json", "path": str(lab.folder / "lines")}]
    spec = lab.spec(topic, sinks=sinks)
    old_copy(lab, spec)
    forget(lab, topic)
    empty(lab, target)

    with pytest.raises(PositionLost, match=rf"an old copy: by that, sink 'json' .*penstock pipeline rebuild {topic}"):
        lab.run(spec)
    with lab.runner(spec) as runner, pytest.raises(Conflict, match=r"how far it got .* is not known.* --may-repeat"):
        repair.rebuild(runner)


def test_rows_of_one_kafka_sink_show_it_before_another_goes_on(lab: Lab) -> None:
    topic, emptied, whole = lab.kafka.topic("two"), lab.kafka.topic("two-emptied"), lab.kafka.topic("two-whole")
    sinks = [{"type": "kafka", "name": "first", "topic": emptied}, {"type": "kafka", "name": "second", "topic": whole}]
    spec = lab.spec(topic, sinks=sinks)
    old_copy(lab, spec)
    forget(lab, topic, "first", "second")
    empty(lab, emptied)

    with pytest.raises(PositionLost, match="an old copy: by that, sink 'second'"):
        lab.run(spec)
    with lab.runner(spec) as runner, pytest.raises(PositionLost, match="an old copy: by that, sink 'second'"):
        repair.skip_gaps(runner)
    with lab.runner(spec) as runner, pytest.raises(Conflict, match=r"sink 'first', .* how far it got .* is not known"):
        repair.rebuild(runner)


def test_a_checkpoint_that_nobody_can_vouch_for_is_not_believed_and_what_was_changed_before_is_told(
    lab: Lab, postgres: RunningPostgres
) -> None:
    topic, target, server = lab.kafka.topic("alone"), lab.kafka.topic("alone-out"), postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    table = {"type": "postgres", "table": "landed", "server": login}
    spec = lab.spec(topic, sinks=[{"type": "kafka", "topic": target}, table])
    old_copy(lab, spec)
    forget(lab, topic)
    empty(lab, target)
    ask(server, "TRUNCATE landed")

    with (
        lab.runner(spec) as runner,
        pytest.raises(Conflict, match=r"how far it got .* is not known.*\. Positions of 'postgres' .* are removed"),
    ):
        repair.rebuild(runner)
    with lab.runner(spec) as runner:
        repair.rebuild(runner, may_repeat=True)
    lab.run(spec)

    assert [(number,) for number in range(6)] == ask(server, "SELECT id FROM landed ORDER BY id")
    assert [3, 4, 5] == ids(lab, target)


def test_rows_of_other_sinks_of_replays_and_of_transactions_that_failed_say_nothing(written: Written) -> None:
    kafka, at = written.kafka, written.source_partition
    for name, replay_suffix in [("another", ""), ("out", ".replay-1")]:
        sink = opened(kafka, written.folder, written.target, name, replay_suffix)
        sink.positions([at])
        prepared(sink, at, 50, 51, None)
        sink.commit()
        sink.close()
    died = opened(kafka, written.folder, written.target)
    died.positions([at])
    prepared(died, at, 5, 6, None)
    with dying("in_commit:out"):
        died.commit()

    # The lag is not this sink's own: it may be newer than the sink, or the sink was out of the file for a while.
    assert {at: 5} == written.recovered(Recovery(reported={at: 9}))
    again = opened(kafka, written.folder, written.target)
    assert [{}, {at: 5}] == [again.beyond({at: known}) for known in (5, 4)]
    again.close()


def purged(written: Written) -> None:
    admin = written.kafka.admin()
    number = int(read_all(written.kafka.connection, written.target)[0].partition() or 0)
    admin.results(admin.client.delete_records([TopicPartition(written.target, number, 1)]), "purging")


def compacted(written: Written) -> None:
    topics.alter_config(written.kafka.admin(), written.target, {"cleanup.policy": "compact"})


@pytest.mark.parametrize("lose", [purged, compacted])
def test_a_topic_that_does_not_keep_its_rows_is_refused_unless_they_may_come_again(
    written: Written, lose: Callable[[Written], None]
) -> None:
    lose(written)
    at = written.source_partition

    with pytest.raises(Conflict, match=f"how far it got at {at} is not known.* --may-repeat"):
        written.recovered(Recovery(reported={at: 7}))
    with pytest.raises(Conflict, match="has rows of it up to offset 4"):
        written.recovered()

    assert {at: 7} == written.recovered(Recovery(reported={at: 7}, may_repeat=True))


def test_what_a_checkpoint_knows_for_certain_is_enough_for_a_topic_that_lost_rows(written: Written) -> None:
    purged(written)
    at = written.source_partition

    assert {at: 6} == written.recovered(Recovery({at: 6}, frozenset({at})))


def test_a_checkpoint_that_rows_have_gone_beyond_is_certain_of_no_partition(written: Written) -> None:
    compacted(written)
    at = written.source_partition
    emptied = replace(at, partition=0)  # compaction took its rows
    old = Recovery({at: 3, emptied: 3}, frozenset({at, emptied}))

    with pytest.raises(Conflict, match=f"how far it got at {emptied} is not known; the topic has no row of it"):
        written.recovered(old, emptied)

    assert {at: 5, emptied: 3} == written.recovered(replace(old, may_repeat=True), emptied)


def test_a_topic_without_a_row_of_this_sink_is_filled_from_the_start(kafka: RunningKafka, tmp_path: Path) -> None:
    fresh = Written(kafka, tmp_path, kafka.topic("no-rows"), source_of(kafka, "no-rows-in"))

    assert {} == fresh.recovered()
