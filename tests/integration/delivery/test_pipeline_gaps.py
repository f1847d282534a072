"""Topics recreated and records deleted before they were read: an error first, then a recorded gap, by command."""

import gzip
import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from penstock.delivery import gaps
from penstock.errors import (
    BadInput,
    CheckpointLost,
    Conflict,
    Discontinuity,
    NotFound,
    PipelineHalted,
    RetentionPassed,
    TopicRecreated,
)
from penstock.kafka import topics
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import repair

from conftest import Cli, RunningKafka
from support.debezium import change
from support.pipelines import SCHEMA, Lab, dying
from support.waiting import until


def recreate(kafka: RunningKafka, topic: str, partitions: int = 1) -> None:
    """Delete a topic and make it again; Kafka takes a moment to let go of the name."""
    admin = kafka.admin()
    topics.delete(admin, topic)

    def made() -> bool:
        try:
            topics.create(admin, topic, TopicSpec(partitions=partitions))
        except Conflict:
            return False
        return True

    until(made)


@pytest.mark.parametrize(("before", "after"), [(6, 3), (3, 6)])
def test_a_recreated_topic_is_noticed_and_read_from_its_start_once_somebody_says_so(
    before: int, after: int, lab: Lab
) -> None:
    topic = lab.kafka.topic("again", partitions=2)
    spec = lab.spec(topic)
    lab.send_ids(topic, range(before), partition=1)
    lab.run(spec)
    old_id = topics.describe(lab.kafka.admin(), topic).topic_id
    recreate(lab.kafka, topic, partitions=3)
    lab.send_ids(topic, range(100, 100 + after), partition=1)
    lab.send_ids(topic, [200], partition=2)

    for _ in range(2):
        with pytest.raises(TopicRecreated, match=f"penstock pipeline skip-gap {topic}"):
            lab.run(spec)
    with lab.runner(spec) as runner:
        planned = repair.planned_gaps(runner)
        skipped = repair.skip_gaps(runner)
    lab.run(spec)
    reports = lab.run(spec)

    assert [*range(before), *range(100, 100 + after), 200] == lab.ids()
    assert [] == reports
    assert skipped == gaps.read(lab.home(topic).folder)
    assert [gap.model_dump(exclude={"at"}) for gap in planned] == [gap.model_dump(exclude={"at"}) for gap in skipped]
    assert {(old_id, 0, 0, None), (old_id, 1, before, None)} == {
        (gap.topic_id, gap.partition, gap.start, gap.end) for gap in planned
    }


def test_a_topic_recreated_while_a_driver_is_open_is_not_taken_for_the_old_one(lab: Lab) -> None:
    topic = lab.kafka.topic("under")
    spec = lab.spec(topic)
    lab.send_ids(topic, range(3))

    with lab.runner(spec) as runner:
        runner.begin()
        recreate(lab.kafka, topic)
        lab.send_ids(topic, range(10, 16))
        with pytest.raises(TopicRecreated):
            runner.run(lambda _progress: None)

    assert [] == lab.ids()


def test_records_deleted_before_they_were_read_are_a_gap_in_every_kind_of_sink(
    lab: Lab, postgres: RunningPostgres
) -> None:
    topic, out = lab.kafka.topic("purged", partitions=2), lab.kafka.topic("purged-out")
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [
        {"type": "delta", "path": str(lab.table)},
        {"type": "json", "path": str(lab.folder / "json")},
        {"type": "kafka", "topic": out},
        {"type": "postgres", "table": "landed", "server": login},
        {"type": "console", "rows": 1},
    ]
    spec = lab.spec(topic, sinks=sinks)
    lab.send_ids(topic, range(4))
    lab.run(spec)
    lab.send_ids(topic, range(4, 9))
    topics.purge(lab.kafka.admin(), topic, {0: 7})

    with pytest.raises(RetentionPassed, match=rf"{topic}/0 offsets 4 to 6.*penstock pipeline skip-gap {topic}"):
        lab.run(spec)
    with lab.runner(spec) as runner:
        skipped = repair.skip_gaps(runner)
    lab.run(spec)

    assert [(topic, 0, 4, 7, "retention")] == [
        (gap.topic, gap.partition, gap.start, gap.end, gap.reason) for gap in skipped
    ]
    kept = [0, 1, 2, 3, 7, 8]
    assert kept == lab.ids()
    lines = [
        json.loads(line)["id"]
        for path in sorted((lab.folder / "json").glob("*.jsonl.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    assert kept == lines
    assert kept == [json.loads(message.value() or b"")["id"] for message in read_all(lab.connection, out)]
    with postgres.connect(server.database) as connection:
        assert kept == [row[0] for row in connection.execute("SELECT id FROM landed ORDER BY id")]


@pytest.mark.parametrize(
    "point",
    [
        "gap_recorded",
        "in_commit:delta",
        "sink_committed:delta",
        "in_commit:json",
        "sink_committed:json",
        "sink_committed:dead",
    ],
)
def test_a_skip_that_dies_half_way_is_run_again_and_skips_what_was_gone_and_no_more(lab: Lab, point: str) -> None:
    topic = lab.kafka.topic("half-skipped", partitions=2)
    lines = lab.folder / "json"
    spec = lab.spec(topic, sinks=[{"type": "delta", "path": str(lab.table)}, {"type": "json", "path": str(lines)}])
    lab.send_ids(topic, range(4))
    lab.send_ids(topic, [100], partition=1)
    lab.run(spec)
    lab.send_ids(topic, range(4, 9))
    lab.send_ids(topic, range(101, 104), partition=1)
    topics.purge(lab.kafka.admin(), topic, {0: 7, 1: 2})

    with dying(point), lab.runner(spec) as runner:
        repair.skip_gaps(runner)
    with lab.runner(spec) as runner:
        repair.skip_gaps(runner)
    lab.run(spec)

    kept = [0, 1, 2, 3, 7, 8, 100, 102, 103]
    assert kept == lab.ids()
    assert kept == sorted(
        json.loads(line)["id"]
        for path in lines.glob("*.jsonl.gz")
        for line in gzip.decompress(path.read_bytes()).splitlines()
    )
    assert {(0, 4, 7), (1, 1, 2)} == {(gap.partition, gap.start, gap.end) for gap in gaps.read(lab.home(topic).folder)}
    assert 2 == len(gaps.read(lab.home(topic).folder))


def test_a_mirror_is_said_to_keep_rows_that_were_deleted_in_a_topic_which_is_gone(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("mirrored")
    parts: dict[str, Any] = {
        "decode": {"type": "raw"},
        "steps": [{"cdc": "state", "schema": SCHEMA}],
        "sinks": [{"type": "delta", "path": str(lab.table), "key": ["id"]}],
    }
    spec, file = lab.spec(topic, **parts), lab.written(topic, **parts)
    lab.send(topic, *(change("r", {"id": number, "name": "ada"}) for number in (1, 2)))
    lab.run(spec)
    recreate(lab.kafka, topic)
    lab.send(topic, change("r", {"id": 1, "name": "bob"}))  # a snapshot, after the other row was deleted
    done = cli("pipeline", "skip-gap", file, "--yes", home=lab.kafka.home)
    lab.run(spec)
    at_first = lab.ids()
    emptied = lab.folder / "emptied"
    parts["sinks"][0]["path"] = str(emptied)
    rebuilt = cli("pipeline", "rebuild", lab.written(topic, **parts), "--yes", home=lab.kafka.home)
    lab.run(lab.spec(topic, **parts))

    assert [1, 2] == at_first
    assert f"let the sink write to an empty table, then run: penstock pipeline rebuild {topic}" in done.err
    assert (0, [1]) == (rebuilt.code, lab.ids(emptied))


def test_a_skip_that_is_killed_over_a_recreated_topic_is_run_again_and_completes(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("half-again")
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic)))
    lab.send_ids(topic, range(3))
    lab.run(lab.spec(topic))
    recreate(lab.kafka, topic)
    lab.send_ids(topic, range(10, 14))

    killed = cli("pipeline", "skip-gap", file, "--yes", home=lab.kafka.home, PENSTOCK_CRASH_AT="gap_recorded")
    with pytest.raises(TopicRecreated):
        lab.run(lab.spec(topic))
    with lab.runner(lab.spec(topic)) as runner:
        repair.skip_gaps(runner)
    lab.run(lab.spec(topic))

    assert -9 == killed.code, killed.err
    assert [0, 1, 2, 10, 11, 12, 13] == lab.ids()
    assert ["topic recreated"] == [gap.reason for gap in gaps.read(lab.home(topic).folder)]


def test_skipping_is_a_command_and_the_gap_is_on_record_afterwards(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("asked")
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic)))
    lab.send_ids(topic, range(2))
    lab.run(lab.spec(topic))
    lab.send_ids(topic, range(2, 6))
    topics.purge(lab.kafka.admin(), topic, {0: 5})

    none_yet = cli("pipeline", "gaps", topic, "--json", home=lab.kafka.home)
    with pytest.raises(Discontinuity):
        lab.run(lab.spec(topic))
    done = cli("pipeline", "skip-gap", file, "--yes", home=lab.kafka.home)
    listed = cli("pipeline", "gaps", topic, "--json", home=lab.kafka.home)
    lab.run(lab.spec(topic))

    assert [] == none_yet.json
    assert 0 == done.code, done.err
    assert [(2, 5, "retention")] == [(gap["start"], gap["end"], gap["reason"]) for gap in listed.json]
    assert [0, 1, 5] == lab.ids()


def test_a_partition_that_was_added_and_purged_before_it_was_read_is_a_gap(lab: Lab) -> None:
    topic = lab.kafka.topic("grown")
    spec = lab.spec(topic)
    lab.send_ids(topic, range(2))
    lab.run(spec)
    topics.add_partitions(lab.kafka.admin(), topic, 2)
    lab.send_ids(topic, range(10, 15), partition=1)
    topics.purge(lab.kafka.admin(), topic, {1: 3})

    with pytest.raises(RetentionPassed, match=rf"{topic}/1 offsets 0 to 2"):
        lab.run(spec)
    with lab.runner(spec) as runner:
        skipped = repair.skip_gaps(runner)
    lab.run(spec)

    assert [(1, 0, 3)] == [(gap.partition, gap.start, gap.end) for gap in skipped]
    assert [0, 1, 13, 14] == lab.ids()


def test_a_record_that_somebody_gives_up_is_passed_over_and_on_record_as_a_gap_of_one(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("given-up")
    file = lab.folder / "pipeline.yaml"
    stopping = {"expect": [{"name": "small", "that": "id < 100", "otherwise": "fail"}]}
    file.write_text(yaml.safe_dump(lab.document(topic, **stopping)))
    lab.send_ids(topic, [0, 1, 100, 3, 200, 5])
    with pytest.raises(PipelineHalted):
        lab.run(lab.spec(topic, **stopping))

    def skip(record: str) -> int:
        return cli("pipeline", "skip", file, record, "--reason", "no hero", "--yes", home=lab.kafka.home).code

    codes = [skip(f"{topic}:0:{offset}") for offset in (2, 4, 2, 6)] + [skip(f"{topic}:1:0"), skip("nonsense")]
    reports = lab.run(lab.spec(topic, **stopping))
    lab.send_ids(topic, [6])
    lab.run(lab.spec(topic, **stopping))
    too_late = skip(f"{topic}:0:3")

    assert [0, 0, Conflict.exit_code, Conflict.exit_code, NotFound.exit_code, BadInput.exit_code] == codes
    assert Conflict.exit_code == too_late
    assert [0, 1, 3, 5, 6] == lab.ids()
    assert 4 == sum(report.read for report in reports)
    assert [(2, 3, "no hero"), (4, 5, "no hero")] == [
        (gap.start, gap.end, gap.reason) for gap in gaps.read(lab.home(topic).folder)
    ]


def test_a_rebuild_over_a_recreated_topic_asks_and_records_what_was_left_unread(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("rebuilt-again")
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic)))
    lab.send_ids(topic, range(3))
    lab.run(lab.spec(topic))
    old_id = topics.describe(lab.kafka.admin(), topic).topic_id
    lab.send_ids(topic, range(3, 9))
    recreate(lab.kafka, topic)
    lab.send_ids(topic, range(10, 14))

    asked = cli("pipeline", "rebuild", file, home=lab.kafka.home)
    with pytest.raises(TopicRecreated):
        lab.run(lab.spec(topic))
    done = cli("pipeline", "rebuild", file, "--yes", "--json", home=lab.kafka.home)
    again = cli("pipeline", "rebuild", file, "--json", home=lab.kafka.home)
    lab.run(lab.spec(topic))

    assert f"topic recreated: {topic}/0 was read up to offset 3" in asked.err
    assert "add --yes" in asked.err
    assert (0, 0, []) == (done.code, again.code, again.json), done.err + again.err
    assert [(old_id, 0, 3, None, "topic recreated", "rebuild")] == [
        (gap.topic_id, gap.partition, gap.start, gap.end, gap.reason, gap.by)
        for gap in gaps.read(lab.home(topic).folder)
    ]
    assert [0, 1, 2, 10, 11, 12, 13] == lab.ids()


def cut(lab: Lab, topic: str) -> None:
    (lab.home(topic).checkpoint / "committed.json").write_text("{")


def lose(lab: Lab, topic: str) -> None:
    shutil.rmtree(lab.home(topic).checkpoint)


@pytest.mark.parametrize("damage", [cut, lose])
def test_a_topic_that_is_recreated_while_the_checkpoint_is_lost_leaves_a_gap_behind_what_was_landed(
    lab: Lab, postgres: RunningPostgres, damage: Callable[[Lab, str], None]
) -> None:
    topic = lab.kafka.topic("lost-and-recreated", partitions=2)
    login = {**postgres.database().model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [
        {"type": "delta", "path": str(lab.table)},
        {"type": "iceberg", "path": str(lab.folder / "iceberg")},
        {"type": "json", "path": str(lab.folder / "json")},
        {"type": "postgres", "table": "landed", "server": login},
        {"type": "kafka", "topic": lab.kafka.topic("lost-and-recreated-out")},
    ]
    spec = lab.spec(topic, sinks=sinks)
    lab.send_ids(topic, range(3))
    lab.run(spec)
    old_id = topics.describe(lab.kafka.admin(), topic).topic_id
    lab.send_ids(topic, range(3, 9))
    damage(lab, topic)
    recreate(lab.kafka, topic)
    lab.send_ids(topic, range(10, 14))

    with pytest.raises(CheckpointLost):
        lab.run(spec)
    with lab.runner(spec) as runner:
        repair.rebuild(runner)
    lab.run(spec)
    lab.run(spec)

    assert [(old_id, 0, 3, None, "topic recreated", "rebuild"), (old_id, 1, 0, None, "topic recreated", "rebuild")] == [
        (gap.topic_id, gap.partition, gap.start, gap.end, gap.reason, gap.by)
        for gap in gaps.read(lab.home(topic).folder)
    ]
    assert [0, 1, 2, 10, 11, 12, 13] == lab.ids()
