"""A run with nothing to read starts no Spark, and still looks at everything that could have changed."""

import shutil
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from penstock.delivery import gaps
from penstock.driver.paths import Progress
from penstock.driver.runner import Runner
from penstock.errors import (
    CheckpointLost,
    Conflict,
    Discontinuity,
    PositionLost,
    Refused,
    RetentionPassed,
    TopicRecreated,
)
from penstock.kafka import groups, topics
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import repair
from penstock.pipeline.spec import PipelineSpec

from support.pipelines import Lab, drive
from support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def no_spark() -> "SparkSession":
    raise AssertionError("Spark was started")


def landed(lab: Lab, name: str) -> PipelineSpec:
    """Run a pipeline with SQL and an expectation over five events."""
    topic = lab.kafka.topic(name)
    rules = [{"name": "small", "that": "id < 100", "otherwise": "dead_letter"}]
    spec = lab.spec(topic, steps=[{"sql": "SELECT *, id + 1 AS following FROM events"}], expect=rules)
    lab.send_ids(topic, range(5))
    lab.run(spec)
    return spec


def run_without_spark(lab: Lab, spec: PipelineSpec) -> int:
    with Runner(spec, lab.connection, lab.home(spec.name), no_spark, lab.folder) as runner:
        return len(drive(runner))


def drop_the_table(lab: Lab, _topic: str) -> None:
    shutil.rmtree(lab.table)


def recreate_the_topic(lab: Lab, topic: str) -> None:
    topics.delete(lab.kafka.admin(), topic)

    def made() -> bool:
        try:
            topics.create(lab.kafka.admin(), topic, TopicSpec())
        except Conflict:
            return False
        return True

    until(made)


def delete_unread_records(lab: Lab, topic: str) -> None:
    lab.send_ids(topic, range(5, 9))
    topics.purge(lab.kafka.admin(), topic)


def test_a_run_with_nothing_new_starts_no_spark_and_changes_nothing(lab: Lab) -> None:
    spec = landed(lab, "idle")
    version = lab.rows()

    batches = run_without_spark(lab, spec)

    assert 0 == batches
    assert version == lab.rows()


def launches(lab: Lab, spec: PipelineSpec) -> int:
    """Count how often opening a pipeline launches Spark's JVM."""
    launched: list[None] = []
    opened = Runner(
        spec,
        lab.connection,
        lab.home(spec.name),
        no_spark,
        lab.folder,
        launch_spark=lambda: launched.append(None),
    )
    with opened:
        return len(launched)


def test_spark_comes_up_while_the_rest_is_opened_only_if_there_is_something_to_read(lab: Lab) -> None:
    spec = landed(lab, "early")
    idle = launches(lab, spec)
    lab.send_ids(spec.name, [5])

    assert (0, 1) == (idle, launches(lab, spec))


def test_what_retention_took_of_a_recreated_topic_is_a_gap_too(lab: Lab) -> None:
    spec = landed(lab, "purged-again")
    recreate_the_topic(lab, spec.name)
    lab.send_ids(spec.name, range(5))
    topics.purge(lab.kafka.admin(), spec.name)

    with Runner(spec, lab.connection, lab.home(spec.name), no_spark, lab.folder) as runner:
        planned = repair.planned_gaps(runner)

    assert ["topic recreated", "retention"] == [gap.reason for gap in planned]
    assert (0, 5) == (planned[1].start, planned[1].end)


def test_a_damaged_plan_is_reported_before_a_recreated_topic_whose_remedy_would_fail_at_it(lab: Lab) -> None:
    spec = landed(lab, "damaged-plan")
    (lab.home(spec.name).checkpoint / "planned.json").write_text("{")
    recreate_the_topic(lab, spec.name)

    with pytest.raises(CheckpointLost, match=r"planned\.json is damaged.*penstock pipeline rebuild"):
        run_without_spark(lab, spec)
    with Runner(spec, lab.connection, lab.home(spec.name), no_spark, lab.folder) as runner:
        repair.rebuild(runner)

    assert 0 == run_without_spark(lab, spec)
    assert ["topic recreated"] == [gap.reason for gap in gaps.read(lab.home(spec.name).folder)]


def test_a_kafka_sink_whose_topic_was_recreated_is_noticed_even_if_kafka_forgot_its_positions(lab: Lab) -> None:
    topic, target = lab.kafka.topic("forgotten"), lab.kafka.topic("forgotten-out")
    spec = lab.spec(topic, sinks=[{"type": "kafka", "topic": target}])
    lab.send_ids(topic, range(5))
    lab.run(spec)
    recreate_the_topic(lab, target)
    groups.delete(lab.kafka.admin(), f"penstock.{spec.name}.kafka")

    with pytest.raises(PositionLost, match="the topic of sink 'kafka' was deleted and recreated"):
        run_without_spark(lab, spec)
    with lab.runner(spec) as runner:
        repair.rebuild(runner)
    lab.run(spec)

    assert 5 == len(read_all(lab.connection, target))


def test_something_to_read_starts_it(lab: Lab) -> None:
    spec = landed(lab, "busy")
    lab.send_ids(spec.name, [5])

    with pytest.raises(AssertionError, match="Spark was started"):
        run_without_spark(lab, spec)
    lab.run(spec)

    assert list(range(6)) == lab.ids()


def test_a_database_that_does_not_let_us_in_says_so_before_spark_starts(lab: Lab, postgres: RunningPostgres) -> None:
    topic = lab.kafka.topic("external")
    (lab.folder / "password").write_text("wrong")
    login = postgres.database().model_dump(exclude_defaults=True) | {"password": f"file:{lab.folder / 'password'}"}
    sinks = [{"type": "postgres", "table": "landed", "server": login}]
    spec = lab.spec(topic, steps=[{"sql": "SELECT *, id + 1 AS following FROM events"}], sinks=sinks)

    with pytest.raises(Refused, match="does not let this user in"):
        run_without_spark(lab, spec)


def test_the_last_topic_of_a_pattern_that_is_deleted_with_an_unread_rest_leaves_a_gap(lab: Lab) -> None:
    topic = lab.kafka.topic("alone")
    spec = lab.spec(topic, source={"type": "kafka", "pattern": topic})
    with Runner(spec, lab.connection, lab.home(topic), no_spark, lab.folder) as runner:
        lab.send_ids(topic, range(3))
        runner.begin()
    topic_id = topics.describe(lab.kafka.admin(), topic).topic_id
    topics.delete(lab.kafka.admin(), topic)

    batches = [run_without_spark(lab, spec) for _ in range(2)]

    assert [0, 0] == batches
    assert [(topic, topic_id, 0, 0, None, "topic deleted")] == [
        (gap.topic, gap.topic_id, gap.partition, gap.start, gap.end, gap.reason)
        for gap in gaps.read(lab.home(topic).folder)
    ]


def test_a_running_driver_outlives_the_last_topic_of_its_pattern_and_knows_where_it_ended(lab: Lab) -> None:
    topic = lab.kafka.topic("alone")
    spec = lab.spec(
        topic, source={"type": "kafka", "pattern": topic}, speed="stream", batch={"max_events": 100, "max_wait": "1h"}
    )
    home = lab.home(topic)
    lab.send_ids(topic, range(3))

    with Runner(spec, lab.connection, home, no_spark, lab.folder) as runner:
        driver = Thread(target=runner.run, args=(lambda _progress: None,))
        driver.start()
        until(lambda: runner.checkpoint.exists)
        topics.delete(lab.kafka.admin(), topic)
        until(lambda: len(gaps.read(home.folder)) == 1)
        is_alive = driver.is_alive()
        runner.stopping.set()
        driver.join(240)

    assert is_alive
    assert [(0, 3)] == [(gap.start, gap.end) for gap in gaps.read(home.folder)]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (drop_the_table, PositionLost),
        (recreate_the_topic, TopicRecreated),
        (delete_unread_records, RetentionPassed),
    ],
)
def test_what_changed_under_a_pipeline_is_noticed_without_spark(
    lab: Lab, change: Callable[[Lab, str], None], error: type[Discontinuity]
) -> None:
    spec = landed(lab, "changed")
    change(lab, spec.name)

    with pytest.raises(error):
        run_without_spark(lab, spec)


def test_a_stream_with_nothing_to_read_looks_at_its_sinks_before_it_says_so(lab: Lab) -> None:
    spec = landed(lab, "idle-stream").model_copy(update={"speed": "stream"})
    drop_the_table(lab, spec.name)
    heard: list[Progress] = []

    def hear(progress: Progress) -> None:
        heard.append(progress)
        runner.stopping.set()

    with Runner(spec, lab.connection, lab.home(spec.name), no_spark, lab.folder) as runner, pytest.raises(PositionLost):
        runner.run(hear)

    assert [] == heard


def test_a_pipeline_that_never_ran_has_no_gap_to_skip(lab: Lab) -> None:
    spec = lab.spec(lab.kafka.topic("never-ran"))

    with (
        Runner(spec, lab.connection, lab.home(spec.name), no_spark, lab.folder) as runner,
        pytest.raises(Conflict, match=r"it has not begun, or lost it\. Nothing was changed\. Run it"),
    ):
        repair.planned_gaps(runner)
