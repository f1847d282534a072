"""What tasks report: a batch is committed once each of its offset ranges has its one report."""

import itertools
from collections.abc import Callable

import pytest

from penstock.driver.spark_job import SparkJob
from penstock.record.manifest import Manifest
from penstock.worker.tasks import ReadTask, Task

from support.pipelines import Lab


@pytest.mark.parametrize(
    "brought", [lambda reports: reports[:1], lambda reports: [*reports, reports[0]]], ids=["one missing", "one twice"]
)
def test_a_batch_with_a_report_too_few_or_too_many_runs_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, brought: Callable[[list[Manifest]], list[Manifest]]
) -> None:
    topic = lab.kafka.topic("reports", partitions=2)
    lab.send_ids(topic, range(3))
    lab.send_ids(topic, range(3, 6), partition=1)
    run, jobs = SparkJob.manifests, itertools.count()

    def odd_at_first(job: SparkJob, read: ReadTask, write: Task) -> list[Manifest]:
        manifests = run(job, read, write)
        return manifests if next(jobs) else brought(manifests)

    monkeypatch.setattr(SparkJob, "manifests", odd_at_first)
    done = lab.run(lab.spec(topic))

    assert ([6], 2) == ([each.read for each in done], next(jobs))
    assert list(range(6)) == lab.ids()
