"""A run with nothing to read starts no Spark, and still looks at everything that could have changed."""

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.engine.runner import Runner
from penstock.errors import Conflict, Discontinuity, PositionLost, RetentionPassed, TopicRecreated
from penstock.kafka import topics
from penstock.kafka.topic_spec import TopicSpec
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


def make_the_topic_anew(lab: Lab, topic: str) -> None:
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


def test_something_to_read_starts_it(lab: Lab) -> None:
    spec = landed(lab, "busy")
    lab.send_ids(spec.name, [5])

    with pytest.raises(AssertionError, match="Spark was started"):
        run_without_spark(lab, spec)
    lab.run(spec)

    assert list(range(6)) == lab.ids()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (drop_the_table, PositionLost),
        (make_the_topic_anew, TopicRecreated),
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
